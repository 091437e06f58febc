package cli

import (
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// serve runs replicas of `settle serve --tasks issue` in this process until the end of the test, when all must end with 0.
func (w *world) serve(replicas int, args ...string) {
	w.T.Helper()
	for range replicas {
		r := w.begin(append([]string{"serve", "--tasks=issue", "--issue-interval=20ms"}, args...)...)
		w.T.Cleanup(func() {
			r.stop()
			r.end()
			assert.Zero(w.T, r.code, r.stderr.String())
		})
	}
}

// awaitEmptyLine waits until nobody waits for the coupon, and every settlement of it is cleaned up.
func (w *world) awaitEmptyLine(couponID coupon.CouponID) {
	w.T.Helper()
	testenv.Eventually(w.T, "the line is empty", func() bool {
		return len(w.Waiting(couponID)) == 0 &&
			w.Number("SELECT COUNT(*) FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL", couponID) == 0
	})
}

func TestServe_FirstHoldCouponsThenSoldOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const seats = 30
	all := between(1, 300)
	w.AddUsers(all...)
	couponID := w.AddImmediate(seats)
	w.serve(2)
	var mu sync.Mutex
	arrivals := map[coupon.UserID]coupon.Arrival{}
	var applying errgroup.Group
	applying.SetLimit(500)
	for _, user := range all {
		applying.Go(func() error {
			receipt, err := w.Store.Apply(t.Context(), couponID, user)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				return err
			case receipt.Code == candidates.Accepted:
				arrivals[user] = receipt.Arrival
			default:
				assert.Equal(t, candidates.SoldOut, receipt.Code)
			}
			return nil
		})
	}
	require.NoError(t, applying.Wait())
	w.awaitEmptyLine(couponID)
	first := slices.SortedFunc(slices.Values(w.Issued(couponID)), func(a, b coupon.UserID) int { return int(arrivals[a] - arrivals[b]) })
	require.Equal(t, w.Issued(couponID), first)
	require.Len(t, first, seats)
	for user, arrival := range arrivals {
		require.Equal(t, arrival <= arrivals[first[seats-1]], slices.Contains(first, user), "user %d", user)
	}
	require.Len(t, w.Outcome(couponID, "NOT_SELECTED"), len(arrivals)-seats)
	require.Empty(t, w.IDs("SELECT id FROM settlement_run WHERE trigger_kind <> 'IMMEDIATE' OR status <> 'SUCCEEDED'"))
	w.AddUsers(2000)
	require.Equal(t, candidates.SoldOut, w.Answer(couponID, 2000))
	w.verify()
}

// A refresh finds work at empty queues: the clean-up of runs that crashed, and added seats.
func TestServe_RefreshFindsWhatIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 5)...)
	waits := func(last coupon.UserID) coupon.CouponID {
		id := w.AddImmediate(2)
		w.Apply(id, between(1, last)...)
		return id
	}
	var crashed []coupon.CouponID
	for _, step := range []settle.Step{settle.StepCleanUp, settle.StepFinish} {
		id := waits(3)
		run := w.Settler(func(s *settle.Settler) {
			s.Hook = func(_ coupon.CouponID, begun settle.Step) {
				if begun == step {
					panic("crash")
				}
			}
		}).IssueNow(t.Context(), id)
		require.Equal(t, coupon.Failed, run.Status)
		require.Equal(t, between(1, 2), w.Issued(id))
		crashed = append(crashed, id)
	}
	require.EqualValues(t, 2, w.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"))
	short, full := waits(5), waits(2)
	w.serve(2)
	for _, id := range []coupon.CouponID{short, full} {
		w.awaitEmptyLine(id)
		require.Equal(t, between(1, 2), w.Issued(id))
	}
	require.Equal(t, candidates.SoldOut, w.Answer(full, 3), "and nobody can come into the queue before a run has seen the new seats")
	for _, id := range []coupon.CouponID{short, full} {
		code, _, stderr := w.settle("coupon", "add-seats", id.String(), "--seats=2", "--operator=park", "--reason=MKT-2")
		require.Zero(t, code, stderr)
	}
	testenv.Eventually(t, "the added seats are issued", func() bool { return len(w.Issued(short)) == 4 })
	testenv.Eventually(t, "applications are accepted", func() bool { return w.Answer(full, 3) != candidates.SoldOut })
	for _, id := range append(crashed, short, full) {
		w.awaitEmptyLine(id)
	}
	require.Equal(t, between(1, 4), w.Issued(short))
	require.Equal(t, between(5, 5), w.Outcome(short, "NOT_SELECTED"))
	require.Equal(t, between(1, 3), w.Issued(full))
	for _, id := range crashed {
		require.Equal(t, between(1, 2), w.Issued(id))
		require.Equal(t, between(3, 3), w.Outcome(id, "NOT_SELECTED"))
	}
	w.verify()
}

// A run that has begun when the signal comes is finished, and no other is begun.
func TestServe_SIGTERMFinishesImmediateRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := w.DB.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	lock := strings.ReplaceAll(w.Prefix, ":", "") + "issuing"
	_, err = conn.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", lock)
	require.NoError(t, err)
	w.Exec("CREATE TRIGGER issuing BEFORE INSERT ON user_coupon FOR EACH ROW DO GET_LOCK('" + lock + "', 3600)")
	first, second := w.AddImmediate(2, 1), w.AddImmediate(2)
	logs, stop, ended := w.startServe("--tasks=issue")
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	testenv.Eventually(t, "the run inserts", func() bool {
		return testenv.Sessions(t, w.DB, func(s testenv.Session) bool { return s.State == "User lock" }) > 0
	})
	stop()
	w.AddUsers(2)
	w.Apply(second, 2)
	_, err = conn.ExecContext(t.Context(), "DO RELEASE_LOCK(?)", lock)
	require.NoError(t, err)
	require.Zero(t, <-ended)
	require.Equal(t, between(1, 1), w.Issued(first))
	require.Empty(t, w.Issued(second))
}
