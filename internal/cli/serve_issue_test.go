package cli

import (
	"bufio"
	"encoding/json"
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
	"github.com/jajeong/jajeong/internal/jajeongtest"
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

func TestServe_ReplicasIssueInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := between(1, 1000)
	w.AddUsers(all...)
	coupons := []coupon.CouponID{w.AddImmediate(100), w.AddImmediate(100)}
	w.serve(2)
	for _, user := range all {
		for _, couponID := range coupons {
			if code := w.Answer(couponID, user); user <= 100 || code != candidates.SoldOut {
				require.Equal(t, candidates.Accepted, code)
			}
		}
	}
	for _, couponID := range coupons {
		w.awaitEmptyLine(couponID)
		require.Equal(t, all[:100], w.Issued(couponID))
		notSelected := w.Outcome(couponID, "NOT_SELECTED")
		require.Equal(t, all[100:][:len(notSelected)], notSelected)
	}
	require.Empty(t, w.IDs("SELECT id FROM settlement_run WHERE trigger_kind <> 'IMMEDIATE' OR status <> 'SUCCEEDED'"))
	w.verify()
}

func TestServe_FirstHundredHoldCouponsThenSoldOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := between(1, 1000)
	w.AddUsers(all...)
	couponID := w.AddImmediate(100)
	w.serve(1)
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
	require.Len(t, first, 100)
	for user, arrival := range arrivals {
		require.Equal(t, arrival <= arrivals[first[99]], slices.Contains(first, user), "user %d", user)
	}
	w.AddUsers(2000)
	require.Equal(t, candidates.SoldOut, w.Answer(couponID, 2000))
	w.verify()
}

func TestServe_AddedSeatsGoToNotSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddImmediate(2, between(1, 5)...)
	w.serve(2)
	w.awaitEmptyLine(couponID)
	require.Equal(t, between(1, 2), w.Issued(couponID))
	code, _, stderr := w.settle("coupon", "add-seats", couponID.String(), "--seats=2", "--operator=park", "--reason=MKT-2")
	require.Zero(t, code, stderr)
	testenv.Eventually(t, "the added seats are issued", func() bool { return len(w.Issued(couponID)) == 4 })
	w.awaitEmptyLine(couponID)
	require.Equal(t, between(1, 4), w.Issued(couponID))
	require.Equal(t, between(5, 5), w.Outcome(couponID, "NOT_SELECTED"))
	w.verify()
}

// Nobody is in the queue, and nobody can come into it before a run has seen the new seats.
func TestServe_AddedSeatsReopenTheCoupon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddImmediate(2, 1, 2)
	w.serve(1)
	w.awaitEmptyLine(couponID)
	w.AddUsers(3)
	require.Equal(t, candidates.SoldOut, w.Answer(couponID, 3))
	code, _, stderr := w.settle("coupon", "add-seats", couponID.String(), "--seats=2", "--operator=park", "--reason=MKT-2")
	require.Zero(t, code, stderr)
	testenv.Eventually(t, "applications are accepted", func() bool { return w.Answer(couponID, 3) != candidates.SoldOut })
	w.awaitEmptyLine(couponID)
	require.Equal(t, between(1, 3), w.Issued(couponID))
	w.verify()
}

func TestServe_MySQLAwayMovesNobody(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	w := newWorldWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
	all := between(1, 20)
	couponID := w.AddImmediate(10, all[:3]...)
	w.AddUsers(all[3:]...)
	logs, stop, ended := w.startServe("--tasks=issue")
	lines := bufio.NewScanner(logs)
	await := func(message string) {
		t.Helper()
		for lines.Scan() {
			var line struct{ Msg string }
			if _ = json.Unmarshal(lines.Bytes(), &line); line.Msg == message {
				return
			}
		}
		t.Fatal("the log ended without: " + message)
	}
	await("serving")
	w.awaitEmptyLine(couponID)
	require.NoError(t, server.Kill())
	w.Apply(couponID, all[3:]...)
	arrivals := w.Arrivals(couponID)
	await("coupon not issued")
	require.Equal(t, arrivals, w.Arrivals(couponID))
	require.Empty(t, w.UnderReview(couponID))
	require.NoError(t, server.Restart(t.Context()))
	await("coupon no longer fails")
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	w.awaitEmptyLine(couponID)
	require.Equal(t, all[:10], w.Issued(couponID))
	require.Empty(t, w.UnderReview(couponID))
	stop()
	require.Zero(t, <-ended)
	w.verify()
}

// A run crashed after its clean-up, before it recorded that. Nobody waits in the queue, but the refresh finds the record.
func TestServe_FinishesCrashedRun(t *testing.T) {
	t.Parallel()
	for _, step := range []settle.Step{settle.StepCleanUp, settle.StepFinish} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			couponID := w.AddImmediate(2, between(1, 3)...)
			crashed := w.Settler(func(s *settle.Settler) {
				s.Hook = func(_ coupon.CouponID, begun settle.Step) {
					if begun == step {
						panic("crash")
					}
				}
			}).IssueNow(t.Context(), couponID)
			require.Equal(t, coupon.Failed, crashed.Status)
			unclean := "SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"
			require.EqualValues(t, 1, w.Number(unclean))
			require.Equal(t, between(1, 2), w.Issued(couponID))
			w.serve(2)
			testenv.Eventually(t, "the run is finished", func() bool { return w.Number(unclean) == 0 })
			w.awaitEmptyLine(couponID)
			require.Equal(t, between(1, 2), w.Issued(couponID))
			require.Equal(t, between(3, 3), w.Outcome(couponID, "NOT_SELECTED"))
			w.verify()
		})
	}
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
	logs, stop, ended := w.startServe("--tasks=issue", "--shutdown-grace=1h")
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
