package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// serve runs replicas of `settle serve --tasks issue` in this process until the end of the test, when all must end with
// 0.
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
	require.Equal(t, candidates.SoldOut, w.Answer(full, 3),
		"and nobody can come into the queue before a run has seen the new seats")
	for _, id := range []coupon.CouponID{short, full} {
		succeeds(t)(w.settle("coupon", "add-seats", id.String(), "--seats=2", "--operator=park", "--reason=MKT-2"))
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
