package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/wallet"
)

// history is a coupon with applications of every kind, and what the servers had at the instants of its settlement.
type history struct {
	*jajeongtest.Deployment
	id, other  coupon.CouponID
	task       *journalTask // lives on while servers fall back
	relay      *events.Relay
	heard      *heard
	tables     []jajeongtest.Tables
	lines      []jajeongtest.Line
	journalled int             // the first of tables in which the journal has 8, 10 and 11
	late       int             // the first of lines in which 12 has applied, just before the commit
	epoch      string          // of all lines
	told       []coupon.Answer // 8 to 12: pods remember them
	want       ending
}

// newHistory settles the coupon. An earlier run has issued it to 1 and 2, has not selected 3 and 4, and an operator has
// dropped 5. Since then 6 got it by hand, 4 was blocked, 7 is under review, and three seats are free. 9, who is no
// user, is entered at an arrival up to which the journal has the line already. The run gives the seats to 3, 7 and 8.
// 6, 10 and 11 get nothing, and 12 applies just before the commit.
func newHistory(t *testing.T) *history {
	t.Helper()
	d := jajeongtest.New(t)
	h := &history{Deployment: d, id: d.AddCoupon(2), other: d.AddCoupon(1000), task: newJournalTask(d)}
	h.startRelay()
	d.AddUsers(1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 20)
	d.Apply(h.id, 1, 2, 3, 4, 5)
	d.SettleNow()
	d.Drop(h.id, "5")
	d.SetSeats(h.id, 6)
	d.InsertGranted(h.id, 6)
	d.Exec("UPDATE coupon SET issued_count = 3 WHERE id = ?", h.id)
	d.SetStatus(jajeongtest.Blocked, 4)
	require.NoError(t, d.Store.SetSold(t.Context(), h.id, false))
	d.Apply(h.id, 7)
	d.MoveToReview(h.id, "7", coupon.Failure{Cause: "BY_HAND", Retryable: true})
	h.task.rounds(2)
	h.copy()

	d.Apply(h.id, 8, 6, 10, 11)
	h.epoch = d.Look(h.id).Epoch
	h.copy()
	h.task.rounds(1)
	h.journalled = len(h.tables)
	h.copy()
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Key("returned", h.id),
		redis.Z{Score: float64(d.Arrivals(h.id)["8"] - 1), Member: "9"}).Err())
	h.task.await("9 stands", func() bool { return h.Arrivals(h.id)["9"] > 0 })
	h.remember("8", "6", "10", "11", "9")
	h.copy()
	h.settle()
	h.task.rounds(1)
	h.reserve("lost")
	h.publish()
	h.copy()
	d.SettleNow(h.id) // 12
	h.want = h.ending()
	require.Equal(t, []coupon.UserID{1, 2, 3, 7, 8}, h.ran())
	t.Logf("MySQL had %d states, and Redis %d", len(h.tables), len(h.lines))
	return h
}

func (h *history) forTest(t *testing.T) *history {
	other := *h
	other.Deployment = h.For(t)
	return &other
}

// remember notes what the pods have told members of the queue.
func (h *history) remember(members ...string) {
	for _, member := range members {
		h.told = append(h.told, coupon.Answer{User: coupon.ParseUserID(member), Arrival: h.Arrivals(h.id)[member]})
	}
}

// copy keeps what the servers have now, if it has changed.
func (h *history) copy() {
	h.T.Helper()
	tables, err := h.CopyTables(h.T.Context())
	require.NoError(h.T, err)
	if len(h.tables) == 0 || !reflect.DeepEqual(tables, h.tables[len(h.tables)-1]) {
		h.tables = append(h.tables, tables)
	}
	line, err := h.CopyLine(h.T.Context(), h.id)
	require.NoError(h.T, err)
	if len(h.lines) == 0 || !maps.Equal(line, h.lines[len(h.lines)-1]) {
		h.lines = append(h.lines, line)
	}
}

// settle does the run, and keeps what the servers have before each of its calls of Redis. `settle serve` keeps up.
func (h *history) settle() {
	h.T.Helper()
	store := h.storeBefore(func(context.Context) error { h.copy(); return nil })
	settler := h.Settler(func(s *settle.Settler) { s.Clock, s.Door, s.Line = store, store, store })
	settler.Hook = func(_ coupon.CouponID, step settle.Step) {
		switch step {
		case settle.StepCommit:
			h.Apply(h.id, 12)
			h.remember("12")
			h.late = len(h.lines)
		case settle.StepCleanUp, settle.StepFinish:
			h.task.rounds(1)
		}
	}
	report, err := settler.RunOnce(h.T.Context(), jajeongtest.Manual(h.id))
	require.NoError(h.T, err)
	require.NoError(h.T, report.Err())
}

// storeBefore is the store of a process, which calls before before each call of Redis. An error of it is that of the
// call.
func (h *history) storeBefore(before func(ctx context.Context) error) *candidates.Store {
	h.T.Helper()
	client, err := (&h.Job.RedisSettings).Open()
	require.NoError(h.T, err)
	h.T.Cleanup(func() { _ = client.Close() })
	client.AddHook(beforeCalls(before))
	return h.NewStore(client)
}

type beforeCalls func(ctx context.Context) error

func (before beforeCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (before beforeCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := before(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (before beforeCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := before(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// ran are the users who have the coupon from a run, by seat.
func (h *history) ran() []coupon.UserID {
	h.T.Helper()
	return jajeongtest.Column[coupon.UserID](h.Deployment,
		"SELECT user_id FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY position", h.id)
}

// reserve lets everybody use the coupon for an order who can.
func (h *history) reserve(order string) {
	h.T.Helper()
	db := mysqltx.NewBrief(h.WalletPool())
	for _, user := range jajeongtest.Column[coupon.UserID](h.Deployment,
		"SELECT user_id FROM user_coupon WHERE coupon_id = ? AND status = 'ISSUED'", h.id) {
		d, err := wallet.Redeem(h.T.Context(), db, h.id, wallet.Call{Verb: wallet.Reserve, Actor: "checkout",
			OrderID: fmt.Sprint(order, user), User: user, AmountWon: 10_000, TTL: time.Minute})
		require.NoError(h.T, err)
		require.Equal(h.T, wallet.Done, d.Code)
	}
}

// startRelay turns the events on.
func (h *history) startRelay() {
	h.T.Helper()
	pool, err := h.Job.MySQLSettings.Open(connect.Patient, zap.NewNop())
	testenv.Opened(h.T, pool, err)
	h.heard = &heard{}
	h.relay = events.NewRelay(events.Config{Name: "redis", Sink: h.heard, DB: mysqltx.NewBrief(pool),
		Now: time.Now})
	h.publish()
}

// publish publishes until nothing is left.
func (h *history) publish() {
	h.T.Helper()
	for more := true; more; {
		done, err := h.relay.Round(h.T.Context())
		require.NoError(h.T, err)
		more = done.More
	}
}

// heard is a consumer that keeps the source and the id of each event, and the sink from which it hears them.
type heard struct{ ids []string }

func (h *heard) known() map[string]bool { return set(h.ids) }

func (h *heard) Publish(_ context.Context, at events.Place, messages []events.Message) (int, string, error) {
	for _, message := range messages {
		var event events.Event
		if err := json.Unmarshal(message.Body, &event); err != nil {
			return 0, at.Last, err
		}
		h.ids = append(h.ids, event.Source+" "+event.ID)
	}
	return len(messages), at.Last, nil
}

func (h *heard) Look(_ context.Context, known events.Place) (events.Look, error) {
	return events.Look{Place: events.Place{Server: "a", Last: known.Last}}, nil
}

func (h *heard) Lags(context.Context) ([]events.Lag, error) { return nil, nil }
func (h *heard) Read(context.Context, time.Time, func([][]byte) error) (time.Time, error) {
	return time.Time{}, nil
}
func (h *heard) Close() {}
