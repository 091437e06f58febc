package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/asyncapi"
	"github.com/jajeong/jajeong/internal/wallet"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// memory is a sink in the process of the test.
type memory struct {
	mu     sync.Mutex
	server string
	got    []events.Event
	room   int   // events that are still acknowledged; negative: all
	err    error // after them
	strict bool  // it holds each event against docs/asyncapi.yaml, not one of 20

	acknowledged int           // number of events ever
	lost         int           // the first of them, which it has no more
	lacks        time.Duration // since when, if it has lost any
	coveredFrom  time.Time     // since when it has everything, as it says
}

var errSinkAway = errors.New("sink away")

func (m *memory) Publish(_ context.Context, at events.Place, messages []events.Message) (int, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Server != m.server || m.hasLost(at) {
		return 0, at.Last, events.ErrMayHaveLost
	}
	delivered, err := m.append(messages)
	if m.acknowledged += delivered; delivered > 0 {
		at.Last = fmt.Sprint(m.acknowledged)
	}
	return delivered, at.Last, err
}

func (m *memory) hasLost(known events.Place) bool {
	last, err := strconv.Atoi(known.Last)
	return err == nil && last <= m.lost
}

// lose loses everything that was acknowledged.
func (m *memory) lose(lacks time.Duration) { m.got, m.lost, m.lacks = nil, m.acknowledged, lacks }

func (m *memory) append(messages []events.Message) (int, error) {
	for i, message := range messages {
		if m.room == 0 {
			return i, m.err
		}
		m.room--
		if m.strict || i%20 == 0 {
			if err := asyncapi.Conforms(message.Body); err != nil {
				return i, err
			}
		}
		var event events.Event
		if err := json.Unmarshal(message.Body, &event); err != nil {
			return i, err
		}
		m.got = append(m.got, event)
	}
	return len(messages), nil
}

func (m *memory) Look(_ context.Context, known events.Place) (events.Look, error) {
	if m.hasLost(known) {
		return events.Look{Place: events.Place{Server: m.server}, Lacks: m.lacks}, nil
	}
	return events.Look{Place: events.Place{Server: m.server, Last: known.Last}}, nil
}
func (m *memory) Lags(context.Context) ([]events.Lag, error) { return nil, nil }
func (m *memory) Close()                                     {}
func (m *memory) Read(_ context.Context, _ time.Time, visit func([][]byte) error) (time.Time, error) {
	for some := range slices.Chunk(m.got, 7) {
		page := make([][]byte, len(some))
		for i := range some {
			message, err := some[i].Message()
			if err != nil {
				return time.Time{}, err
			}
			page[i] = message.Body
		}
		if err := visit(page); err != nil {
			return time.Time{}, err
		}
	}
	return m.coveredFrom, nil
}
func (m *memory) ids() (ids []string) {
	for _, e := range m.got {
		ids = append(ids, e.Source+" "+e.ID)
	}
	return ids
}

// shop is a deployment with a sink and one relay for it.
type shop struct {
	*jajeongtest.Deployment
	sink  *memory
	relay *events.Relay
}

// newShop turns the events on.
func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{Deployment: jajeongtest.New(t), sink: &memory{server: "a", room: -1, err: errSinkAway}}
	s.relay = s.newRelay()
	s.publish()
	return s
}

func (s *shop) newRelay() *events.Relay {
	s.T.Helper()
	pool, err := s.Job.MySQLSettings.Open(connect.Patient, zap.NewNop())
	testenv.Opened(s.T, pool, err)
	relay := events.NewRelay(events.Config{Name: "redis", Sink: s.sink, DB: mysqltx.NewBrief(pool),
		Now: time.Now})
	relay.PublishAtMost(roundOfTests)
	return relay
}

// roundOfTests is how many coupons a round publishes, so that few are more than a round.
const roundOfTests = 100

// line is a coupon with the applications of known users.
func (s *shop) line(seats int, users ...coupon.UserID) coupon.CouponID {
	s.T.Helper()
	couponID := s.AddCoupon(seats)
	s.ApplyLine(couponID, users...)
	return couponID
}

// longLine is a coupon with the applications of users 1 to last, who are added.
func (s *shop) longLine(seats int, last coupon.UserID) coupon.CouponID {
	s.T.Helper()
	users := jajeongtest.Between(1, last)
	s.AddUsers(users...)
	return s.line(seats, users...)
}

// publish runs rounds until nothing is left.
func (s *shop) publish() {
	s.T.Helper()
	for round := (events.Round{More: true}); round.More; {
		var err error
		round, err = s.relay.Round(s.T.Context())
		require.NoError(s.T, err)
		require.False(s.T, round.Standby)
	}
}

// issuedIDs are the events of the coupon in the order of the seats.
func (s *shop) issuedIDs(couponID coupon.CouponID) (ids []string) {
	for _, user := range jajeongtest.Column[uint64](s.Deployment,
		"SELECT user_id FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY position", couponID) {
		ids = append(ids, fmt.Sprintf("/coupons/%d issued-%d", couponID, user))
	}
	return ids
}

func (s *shop) idsOf(couponID coupon.CouponID) []string {
	return slices.DeleteFunc(s.sink.ids(), func(id string) bool {
		return !strings.HasPrefix(id,
			fmt.Sprintf("/coupons/%d ", couponID))
	})
}

// The statements of a settlement insert up to 20,000 rows, sorted by user.
func TestRound_PublishesInOrderOfSeats(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	users := jajeongtest.Between[coupon.UserID](1, 600)
	slices.SortFunc(users, func(a, b coupon.UserID) int { return int(a%77) - int(b%77) })
	s.AddUsers(users...)
	big, small := s.line(550, users...), s.line(10, users[:20]...)
	s.SettleNow()
	s.publish()
	require.Equal(t, s.issuedIDs(big), s.idsOf(big))
	require.Equal(t, s.issuedIDs(small), s.idsOf(small))
	require.Len(t, s.sink.got, 560)
	require.Zero(t, s.Number("SELECT COUNT(*) FROM settlement WHERE published_at IS NULL"))
	require.EqualValues(t, 1, s.Number("SELECT COUNT(*) FROM event_relay WHERE run_id IS NULL AND from_at IS NOT NULL"))
	s.publish()
	require.Len(t, s.sink.got, 560, "nothing is repeated")
	s.SetSeats(big, 570)
	s.SettleNow(big)
	s.publish()
	require.Equal(t, s.issuedIDs(big), s.idsOf(big))
	s.Verify()
}

func TestRound_KeepsWhatAFailingSinkAcknowledged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.longLine(500, 500)
	s.SettleNow()
	for at := 0; at < 500; {
		s.sink.room = 37
		if at%5 == 0 {
			s.relay = s.newRelay() // another process
		}
		round, err := s.relay.Round(t.Context())
		if err != nil {
			require.ErrorIs(t, err, errSinkAway)
		}
		require.LessOrEqual(t, round.Published, 37)
		at += round.Published
	}
	s.sink.room = -1
	s.publish()
	require.Equal(t, s.issuedIDs(couponID), s.sink.ids(), "no event is repeated")
}

func TestRound_RepeatsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.longLine(120, 120)
	s.SettleNow()
	before := jajeongtest.Column[string](s.Deployment,
		"SELECT CONCAT_WS(' ', run_id, position, unpublished, row_id) FROM event_relay")
	round, err := s.relay.Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, roundOfTests, round.Published)
	// As if it had not committed.
	s.Exec("UPDATE event_relay SET run_id = NULL, coupon_id = NULL, position = 0, unpublished = 0, row_id = 0")
	require.Equal(t, before, jajeongtest.Column[string](s.Deployment,
		"SELECT CONCAT_WS(' ', run_id, position, unpublished, row_id) FROM event_relay"))
	s.publish()
	want := s.issuedIDs(couponID)
	require.Equal(t, append(slices.Clone(want[:roundOfTests]), want...), s.sink.ids())
}

// slow is a sink that moves a clock on. A publication that would take longer than its time ends by over.
type slow struct {
	*memory
	clock time.Time
	each  time.Duration // for each event
	over  func() error
	tries []int // how many events there were to publish
}

func (s *slow) Publish(ctx context.Context, at events.Place, messages []events.Message) (int, string, error) {
	s.tries = append(s.tries, len(messages))
	s.clock = s.clock.Add(s.each * time.Duration(len(messages)))
	if s.each*time.Duration(len(messages)) > events.PublishTimeout {
		if err := s.over(); err != nil {
			return 0, at.Last, err
		}
	}
	return s.memory.Publish(ctx, at, messages)
}

// Otherwise the next rounds would run out of time as well, for ever.
func TestRound_TriesHalfAsManyAfterItRanOutOfTime(t *testing.T) {
	t.Parallel()
	t.Run("of the sink", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		sink := s.slowSink(func() error { return context.DeadlineExceeded })
		require.Equal(t, slices.Concat([]int{100, 50}, slices.Repeat([]int{25}, 12)), s.tries(sink))
		sink.each = 0
		require.Equal(t, 100, slices.Max(s.tries(sink)), "the sink is fast again")
	})
	t.Run("of the session", func(t *testing.T) { // a round makes two attempts
		t.Parallel()
		s := newShop(t)
		sink := s.slowSink(s.killSessions)
		require.Equal(t, slices.Concat([]int{100, 100, 50, 50}, slices.Repeat([]int{25}, 12)), s.tries(sink))
	})
}

// slowSink replaces the relay by one to a sink that takes 40 events in time. Users 1 to 300 are added.
func (s *shop) slowSink(over func() error) *slow {
	s.T.Helper()
	s.AddUsers(jajeongtest.Between[coupon.UserID](1, 300)...)
	sink := &slow{memory: s.sink, clock: time.Now(), each: events.PublishTimeout / 40, over: over}
	s.relay = s.newRelay()
	s.relay.Sink, s.relay.Now = sink, func() time.Time { return sink.clock }
	return sink
}

// tries issues a coupon to users 1 to 300, and returns how many events each round tried to publish until all were.
func (s *shop) tries(sink *slow) []int {
	s.T.Helper()
	sink.tries = nil
	couponID := s.line(300, jajeongtest.Between[coupon.UserID](1, 300)...)
	s.SettleNow()
	for round := (events.Round{More: true}); round.More; {
		var err error
		if round, err = s.relay.Round(s.T.Context()); err != nil {
			require.Equal(s.T, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
			require.Less(s.T, len(sink.tries), 100, "the same is tried again and again: %v", sink.tries)
			round.More = true
		}
	}
	published := map[string]bool{}
	require.Equal(s.T, s.issuedIDs(couponID), slices.DeleteFunc(s.idsOf(couponID), func(id string) bool {
		again := published[id]
		published[id] = true
		return again
	}))
	return sink.tries
}

// killSessions ends every session of the deployment, as MySQL does with one that is idle for too long.
func (s *shop) killSessions() error {
	conn, err := s.DB.Conn(s.T.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	return testenv.EndSessions(testenv.Patient(s.T), conn)
}

func TestRound_PublishesNoHistory(t *testing.T) {
	t.Parallel()
	s := &shop{Deployment: jajeongtest.New(t), sink: &memory{server: "a", room: -1}}
	old := s.AddQueue(2, 1, 2)
	s.SettleNow()
	s.reserve(old, 1, "A-1")
	s.relay = s.newRelay()
	s.publish()
	require.Empty(t, s.sink.got)
	s.reserve(old, 2, "A-2")
	fresh := s.AddQueue(1, 3)
	s.SettleNow()
	s.publish()
	require.Equal(t, append(s.issuedIDs(fresh), s.changeID(old, 2, 1)), s.sink.ids())
}

func (s *shop) rowOf(couponID coupon.CouponID, user coupon.UserID) int64 {
	return s.Number("SELECT id FROM user_coupon WHERE coupon_id = ? AND user_id = ?", couponID, user)
}

// changeID is the event of a row of coupon_log.
func (s *shop) changeID(couponID coupon.CouponID, user coupon.UserID, seq int) string {
	s.T.Helper()
	at := s.Number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at) FROM coupon_log WHERE user_coupon_id = ? AND "+
		"seq = ?", s.rowOf(couponID, user), seq)
	require.Positive(s.T, at)
	return fmt.Sprintf("/coupons/%d %d-%d-%d", couponID, user, seq, at)
}

// reserve reserves the coupon for an order.
func (s *shop) reserve(couponID coupon.CouponID, user coupon.UserID, order string) {
	s.T.Helper()
	s.redeem(couponID, user, wallet.Reserve, order)
}

// redeem does what the checkout does.
func (s *shop) redeem(couponID coupon.CouponID, user coupon.UserID, verb wallet.Verb, order string) {
	s.T.Helper()
	d, err := wallet.Redeem(s.T.Context(), mysqltx.NewBrief(s.WalletPool()), couponID,
		wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: user, AmountWon: 10_000, TTL: time.Minute})
	require.NoError(s.T, err)
	require.Equal(s.T, wallet.Done, d.Code)
}

func TestRound_PublishesAChangeAfterTheIssue(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	users := jajeongtest.Between[coupon.UserID](1, 250)
	s.AddUsers(users...)
	big, other := s.line(250, users...), s.line(1, 1)
	s.SettleNow()
	s.reserve(big, 250, "A-1")
	s.reserve(other, 1, "A-2")
	s.sink.room = 10
	_, err := s.relay.Round(t.Context())
	require.ErrorIs(t, err, errSinkAway)
	s.sink.room = -1
	s.publish()
	require.Equal(t, append(s.issuedIDs(big), s.changeID(big, 250, 1)), s.idsOf(big))
	require.Equal(t, append(s.issuedIDs(other), s.changeID(other, 1, 1)),
		s.idsOf(other))
}

func TestRound_PublishesTenMinutesAgainAfterAFailover(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2)
	long, recent := s.line(1, 1), s.line(2, 1, 2)
	s.SettleNow(long)
	s.publish()
	s.Exec("UPDATE settlement SET published_at = published_at - INTERVAL 601 SECOND")
	s.SettleNow(recent)
	s.reserve(recent, 1, "A-1")
	s.publish()
	s.sink.got, s.sink.server = nil, "b"
	late := s.AddQueue(1, 3)
	s.SettleNow(late)
	s.relay = s.newRelay()
	s.publish()
	changed := s.changeID(recent, 1, 1)
	require.Equal(t, slices.Concat(s.issuedIDs(recent), s.issuedIDs(late), []string{changed}), s.sink.ids())
	s.publish()
	require.Len(t, s.sink.got, 4, "once")
}

// A relay that stops in the middle of a round keeps others away only as long as its session.
func TestRound_OneRelayWorks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx, err := s.DB.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	var sink string
	require.NoError(t, tx.QueryRow("SELECT sink FROM event_relay FOR UPDATE").Scan(&sink))
	round, err := s.relay.Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, events.Round{Standby: true}, round)
}

// Four relays side by side, while coupons are issued, are as one.
func TestRound_ManyRelaysKeepTheOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	users := jajeongtest.Between[coupon.UserID](1, 200)
	s.AddUsers(users...)
	var coupons []coupon.CouponID
	for range 2 {
		coupons = append(coupons, s.AddImmediate(200))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var relays errgroup.Group
	for range 4 {
		relays.Go(func() error {
			for relay := s.newRelay(); ctx.Err() == nil; {
				round, err := relay.Round(ctx)
				if err != nil {
					return err
				}
				if round.Published == 0 {
					<-time.After(5 * time.Millisecond)
				}
			}
			return nil
		})
	}
	for page := range slices.Chunk(users, 40) {
		for _, couponID := range coupons {
			s.Apply(couponID, page...)
			require.Equal(t, 40, s.IssueNow(couponID).Issued)
		}
	}
	stop()
	require.NoError(t, relays.Wait())
	s.publish()
	for _, couponID := range coupons {
		require.Equal(t, s.issuedIDs(couponID), s.idsOf(couponID))
	}
	require.Len(t, s.sink.got, 400, "no round was repeated")
}

func TestReadShortfall_Delay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	delay := func(sink string) time.Duration {
		shortfall, err := events.ReadShortfall(t.Context(), s.DB, sink)
		require.NoError(t, err)
		return shortfall.Delay
	}
	require.Zero(t, delay("redis"))
	couponID := s.AddQueue(1, 1)
	s.SettleNow()
	s.Exec("UPDATE settlement SET settled_at = UTC_TIMESTAMP(6) - INTERVAL 100 SECOND")
	require.Greater(t, delay("redis"), 99*time.Second)
	require.Zero(t, delay("kafka"), "it was never turned on")
	s.publish()
	require.Zero(t, delay("redis"))
	s.reserve(couponID, 1, "A-1")
	s.Exec("UPDATE coupon_log SET at = at - INTERVAL 200 SECOND")
	require.Greater(t, delay("redis"), 199*time.Second)
}

// What one sink has not got, another one gets. From then on, the first one gets nothing.
func TestRound_AnotherSinkTakesOver(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2, 3)
	old := s.line(2, 1, 2)
	s.SettleNow()
	s.publish()
	s.reserve(old, 1, "A-1")
	s.sink.room = 0
	_, err := s.relay.Round(t.Context())
	require.ErrorIs(t, err, errSinkAway)
	late := s.line(1, 3)
	s.SettleNow()

	to := &memory{server: "k", room: -1}
	other := events.NewRelay(events.Config{Name: "kafka", Sink: to, DB: mysqltx.NewBrief(s.DB),
		Now: time.Now})
	for round := (events.Round{More: true}); round.More; {
		round, err = other.Round(t.Context())
		require.NoError(t, err)
	}
	require.ElementsMatch(t, append(s.issuedIDs(late), s.changeID(old, 1, 1)), to.ids())
	s.sink.room = -1
	_, err = s.relay.Round(t.Context())
	require.ErrorContains(t, err, "EVENT_SINK=kafka was started later")
	all, err := events.ReadStatus(t.Context(), s.DB)
	require.NoError(t, err)
	require.True(t, all[0].Active && all[0].Sink == "kafka" && !all[1].Active)

	s.relay = s.newRelay() // it is started again
	s.publish()
	_, err = other.Round(t.Context())
	require.ErrorContains(t, err, "EVENT_SINK=redis was started later")
}
