package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/wallet"
)

// Three `settle serve` publish what nightly runs and they themselves issue, and what orders do with it, while they, the
// sink and MySQL are killed with SIGKILL and started again, or frozen in the middle of a round.
//
// A consumer reads all the time. Its first reading of an event is the event's first delivery. At the end:
//   - The events are exactly those of the rows in MySQL, with the same content.
//   - The first deliveries are in order: for each coupon (in Kafka: for each coupon and partition) by seat, and for
//     each issued coupon by sequence, from 0 on without a gap.
//
// A Redis that is killed also loses the end of what it had acknowledged: the end of its append-only file is cut off.
// The consumer may have read lost events, or may never have seen them. The same rule holds all the same: what is lost
// is the end of the stream, and the relay publishes again, in order, from before the loss on, before it publishes
// anything new. A second consumer, which reads at the end what the stream has then, finds all events, and its first
// readings are in order as well.
func TestEvents_SurviveKilledRelaysSinkAndMySQL(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		runMall(t, jajeongtest.Options{}, newStreamSink(t,
			testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true}), true), testenv.Rounds(10, 300))
	})
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		runMall(t, jajeongtest.Options{}, newTopicSink(t), testenv.Rounds(6, 300)) // each kind of strike
	})
	// The queues and the stream are in one Redis, which loses nothing: a lost application is not the subject here.
	if !testenv.Soaking() {
		return
	}
	t.Run("OneRedis", func(t *testing.T) {
		t.Parallel()
		server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
		one := jajeongtest.RedisAt(t, server.Addr())
		one.Prefix = "mall:"
		runMall(t, jajeongtest.Options{Redis: one}, newStreamSink(t, server, false), 300)
	})
}

// mallRelays is the number of `settle serve`.
const mallRelays = 3

// mallSink is where the events of a mall go.
type mallSink interface {
	name() string
	flags() []string
	kill() error
	restart(ctx context.Context) error
	// consume reads until over, and tells heard every event.
	consume(over context.Context, heard *heard)
	// age lets time pass, so that what the sink has now is older than what it may lose.
	age(m *mall)
	// contents reads what the sink has from its beginning to its end.
	contents(ctx context.Context) (*heard, error)
}

// mall is a deployment whose relays, sink and MySQL are killed.
type mall struct {
	*jajeongtest.Deployment
	mysql  *testenv.MySQL // to be killed
	sink   mallSink
	heard  *heard
	relays []*testenv.Program
	frozen *testenv.Program // nil: none
	chance *rand.Rand

	users     []coupon.UserID
	nights    []coupon.CouponID // settled by a person's runs
	immediate []coupon.CouponID // settled by the relays' processes

	kills, strikes                             int
	progress                                   atomic.Int64 // strikes, for the goroutines that issue
	relayKills, sinkKills, mysqlKills, freezes int
}

func runMall(t *testing.T, o jajeongtest.Options, sink mallSink, kills int) {
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	o.MySQL = jajeongtest.DatabaseOn(t, server)
	m := newMall(t, o, sink, mallRelays)
	m.mysql, m.kills = server, kills
	m.addCoupons()
	over, stop := context.WithCancel(testenv.Patient(t))
	defer stop()
	var consuming, issuing, ordering sync.WaitGroup
	consuming.Go(func() { m.sink.consume(over, m.heard) })
	orders, stopOrdering := context.WithCancel(over)
	ordering.Go(func() { m.keepOrdering(orders) })
	issuing.Go(func() { m.keepSettling(over) })
	issuing.Go(func() { m.keepApplying(over) })
	for m.strikes < m.kills && !t.Failed() {
		m.strike()
	}
	m.thaw()
	issuing.Wait()
	stopOrdering()
	ordering.Wait()
	if !t.Failed() {
		m.awaitIssued()
		m.awaitPublished()
	}
	for _, p := range m.relays {
		assert.NoError(t, p.Stop(), p.LastWarning())
	}
	stop()
	consuming.Wait()
	require.False(t, t.Failed())

	want := m.rows()
	require.Positive(t, m.Number("SELECT COUNT(*) FROM coupon_log"))
	m.heard.require(t, want)
	m.heard.requireContract(t)
	m.requireContents(want)
	m.requireRelayAtRest()
	m.Verify()
	code, output := m.RunToEnd(func() *exec.Cmd { return m.settle("verify") })
	require.Zero(t, code, output)
	t.Logf("passed: %d kill points (%d settle serve, %d %s, %d MySQL) and %d freezes; %d events, %d of them of "+
		"coupon_log, %d duplicates",
		m.relayKills+m.sinkKills+m.mysqlKills, m.relayKills, m.sinkKills, m.sink.name(), m.mysqlKills, m.freezes,
		len(want), m.Number("SELECT COUNT(*) FROM coupon_log"), m.heard.all.Load()-int64(len(want)))
}

// newMall turns the events on.
func newMall(t *testing.T, o jajeongtest.Options, sink mallSink, relays int) *mall {
	t.Helper()
	m := &mall{Deployment: jajeongtest.NewWith(t, o), sink: sink, heard: newHeard(), chance: testenv.Random(t),
		relays: make([]*testenv.Program, relays)}
	if s, isStream := sink.(*streamSink); isStream {
		s.stream = m.Prefix + "coupon:events"
	}
	for i := range m.relays {
		m.startRelay(i)
		t.Cleanup(func() { _ = m.relays[i].Process.Kill() })
	}
	testenv.Eventually(t, "events are turned on", func() bool {
		return m.Number("SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL") == 1
	})
	return m
}

// addCoupons adds coupons with applications, and coupons for which users apply later.
func (m *mall) addCoupons() {
	m.T.Helper()
	large, small := testenv.Rounds(800, 40_000), testenv.Rounds(200, 500)
	m.users = jajeongtest.Between(1, coupon.UserID(large))
	m.AddUsers(m.users...)
	for i := range testenv.Rounds(8, 120) {
		seats := small
		if i%testenv.Rounds(3, 40) == 0 {
			seats = large
		}
		id := m.AddCoupon(seats)
		m.ApplyLine(id, m.users[:seats]...)
		m.nights = append(m.nights, id)
	}
	for range testenv.Rounds(5, 50) {
		id := m.AddCoupon(small)
		m.immediate = append(m.immediate, id)
	}
	m.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id >= ?", m.immediate[0])
	m.Exec("UPDATE coupon SET discount_won = 5000")
}

func (m *mall) startRelay(i int) {
	m.T.Helper()
	args := append([]string{"serve", "--tasks=issue,journal,events", "--issue-interval=250ms"}, m.sink.flags()...)
	cmd := exec.Command(testenv.Build(m.T, "./cmd/settle"), append(args, m.Flags(m.Job)...)...)
	cmd.Env = m.Environment()
	program, err := testenv.StartProgram(testenv.Patient(m.T), cmd)
	require.NoError(m.T, err)
	m.relays[i] = program
}

func (m *mall) settle(args ...string) *exec.Cmd {
	cmd := exec.Command(testenv.Build(m.T, "./cmd/settle"), append(args, m.Flags(m.Job)...)...)
	cmd.Env = m.Environment()
	return cmd
}

// strikeEvents is less than what users apply for at immediate coupons between two strikes, so that there are events for
// each.
const strikeEvents = 30

// strike waits until the consumer has read some more events, then kills or freezes. A process that was frozen before
// goes on with the round that it was in.
func (m *mall) strike() {
	m.T.Helper()
	before, target := m.heard.distinct.Load(), m.heard.all.Load()+1+m.chance.Int64N(strikeEvents)
	testenv.Eventually(m.T, "events arrive", func() bool {
		enough := m.heard.all.Load() > target
		if m.strikes%4 == 3 { // not only repeated ones
			enough = enough && m.heard.distinct.Load() > before
		}
		return enough || m.T.Failed()
	})
	m.thaw()
	switch m.strikes % 8 {
	case 0, 4:
		m.killRelays(m.chance.IntN(mallRelays))
	case 1:
		m.killRelays(0, 1, 2)
	case 2, 6:
		m.sinkKills++
		require.NoError(m.T, m.sink.kill())
		require.NoError(m.T, m.sink.restart(m.T.Context()))
	case 3, 7:
		m.mysqlKills++
		require.NoError(m.T, m.mysql.Kill())
		require.NoError(m.T, m.mysql.Restart(m.T.Context()))
	case 5:
		m.freezes++
		m.frozen = m.relays[m.chance.IntN(mallRelays)]
		require.NoError(m.T, m.frozen.Process.Signal(syscall.SIGSTOP))
		m.sink.age(m)
	}
	m.strikes++
	m.progress.Store(int64(m.strikes))
}

func (m *mall) thaw() {
	if m.frozen != nil {
		require.NoError(m.T, m.frozen.Process.Signal(syscall.SIGCONT))
		m.frozen = nil
	}
}

func (m *mall) killRelays(which ...int) {
	m.T.Helper()
	for _, i := range which {
		m.relayKills++
		require.NoError(m.T, m.relays[i].Process.Kill())
	}
	for _, i := range which {
		require.Error(m.T, m.relays[i].Stop(), "the process was killed")
		m.startRelay(i)
	}
}

// await waits until the share done/all of the strikes is over.
func (m *mall) await(over context.Context, done, all int) {
	for over.Err() == nil && !m.T.Failed() && int(m.progress.Load())*all < done*m.kills {
		pause(over, 10*time.Millisecond)
	}
}

// keepSettling settles one nightly coupon after the other. A run that MySQL interrupts is repeated.
func (m *mall) keepSettling(over context.Context) {
	for i, id := range m.nights {
		m.await(over, i, len(m.nights)+1)
		var output []byte
		err := context.Canceled
		for err != nil && over.Err() == nil {
			output, err = m.settle("run", "--cutoff=now", "--coupon="+id.String(), "--operator=kim",
				"--reason=test").CombinedOutput()
		}
		if err != nil {
			m.T.Errorf("settle coupon %d: %v\n%s", id, err, output)
			return
		}
	}
}

// mallApplications is the number of applications for each immediate coupon.
func mallApplications() int { return testenv.Rounds(100, 400) }

// keepApplying applies for the immediate coupons.
func (m *mall) keepApplying(over context.Context) {
	for i, id := range m.immediate {
		for j, user := range m.users[:mallApplications()] {
			if j%10 == 0 {
				m.await(over, i*40+j/10, len(m.immediate)*40+1)
			}
			for {
				receipt, err := m.Store.Apply(over, id, user)
				if err == nil && (receipt.Code == candidates.Accepted || receipt.Code == candidates.Duplicate ||
					receipt.Code == candidates.AlreadyIssued) {
					break
				}
				if over.Err() != nil {
					m.T.Errorf("user %d applies for coupon %d: %+v, %v", user, id, receipt, err)
					return
				}
				pause(over, 20*time.Millisecond)
			}
		}
	}
}

// keepOrdering reserves, uses and gives back issued coupons. What MySQL has done of it is seen in its rows.
func (m *mall) keepOrdering(over context.Context) {
	pool, err := m.Wallet.Open(connect.Patient, zap.NewNop())
	if !assert.NoError(m.T, err) {
		return
	}
	defer pool.Close()
	db := mysqltx.New(pool)
	all := append(append([]coupon.CouponID{}, m.nights...), m.immediate...)
	for n := 0; over.Err() == nil; n++ {
		pause(over, time.Duration(m.chance.Int64N(int64(10*time.Millisecond))))
		id, user := all[m.chance.IntN(len(all))], m.users[m.chance.IntN(min(len(m.users), 200))]
		call := wallet.Call{Verb: wallet.Reserve, Actor: "checkout", OrderID: fmt.Sprintf("A-%d", n), User: user,
			AmountWon: 32_000, TTL: time.Minute}
		if d, err := wallet.Redeem(over, db, id, call); err != nil || d.Code != wallet.Done {
			pause(over, 20*time.Millisecond) // most coupons are not issued yet, or MySQL is away
			continue
		}
		for _, call.Verb = range [][]wallet.Verb{{wallet.Confirm}, {wallet.Release},
			{wallet.Confirm, wallet.Refund}}[m.chance.IntN(3)] {
			_, _ = wallet.Redeem(over, db, id, call)
		}
	}
}

// awaitIssued waits until the relays' processes have issued what users applied for.
func (m *mall) awaitIssued() {
	m.T.Helper()
	testenv.Eventually(m.T, "all immediate coupons are issued", func() bool {
		return m.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id >= ?",
			m.immediate[0]) == int64(len(m.immediate)*mallApplications())
	})
}

func (m *mall) awaitPublished() {
	m.T.Helper()
	testenv.Eventually(m.T, "all events are published and read", func() bool {
		return m.unpublished() == 0 &&
			m.heard.distinct.Load() >= m.Number(
				"SELECT (SELECT COUNT(*) FROM user_coupon) + (SELECT COUNT(*) FROM coupon_log)")
	})
}

// requireContents reads what the sink has now from its beginning to its end.
func (m *mall) requireContents(want map[string]eventFact) {
	m.T.Helper()
	left, err := m.sink.contents(m.T.Context())
	require.NoError(m.T, err)
	left.require(m.T, want)
}

func (m *mall) unpublished() int64 {
	return m.Number(`SELECT (SELECT COUNT(*) FROM settlement WHERE published_at IS NULL AND first_user_coupon_id > 0) +
		(SELECT COUNT(*) FROM coupon_log WHERE published_at IS NULL)`)
}

// requireRelayAtRest demands that the relay knows of no settlement that is published in part, and of no event that the
// sink lacks.
func (m *mall) requireRelayAtRest() {
	m.T.Helper()
	require.EqualValues(m.T, 1, m.Number("SELECT COUNT(*) FROM event_relay"))
	require.EqualValues(m.T, 1, m.Number(`SELECT COUNT(*) FROM event_relay WHERE sink = ? AND from_at IS NOT NULL
		AND run_id IS NULL
		AND coupon_id IS NULL AND position = 0 AND unpublished = 0 AND server <> '' AND may_lack_from IS NULL`,
		m.sink.name()))
}
