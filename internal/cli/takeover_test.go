package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/recall"
	"github.com/jajeong/jajeong/internal/settle"
)

// takenOver is a world in which three have applied for one seat.
func takenOver(t *testing.T) (w *world, couponID uint64, order settle.Order) {
	w = newWorld(t)
	w.users(1, 2, 3)
	couponID = w.coupon(1)
	w.refresh()
	w.apply(couponID, 1, 2, 3)
	return w, couponID, settle.Order{Trigger: coupon.Manual, CutoffNow: true, Operator: "kim", Reason: "test"}
}

// takesOver has another server answer for the coupon from now on: one that never met its state.
func (w *world) takesOver(couponID uint64) {
	assert.NoError(w.t, w.rdb.HDel(w.t.Context(), "state:{"+w.queue(couponID)+"}", "run_id").Err())
}

// Behind the fence another server of Redis takes over, which lacks the first of the line. Whoever is second there does not get
// the seat: the settlement begins anew, and waits for the pod that puts the first one back. Whether a count tells of the loss
// makes no difference.
func TestAServerThatTakesOverWhileTheLineIsReadPassesNobodyOver(t *testing.T) {
	t.Parallel()
	for name, isCounted := range map[string]bool{"the count tells of it": true, "no count tells of it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, couponID, order := takenOver(t)
			putBack := make(chan recall.PutBack, 1)
			w.d().Memory().OnPutBack = func(p recall.PutBack) { putBack <- p }
			s := w.settler()
			s.Hook = onStep(func(step settle.Step, times int) {
				switch {
				case step == settle.StepLock && times == 1:
					assert.NoError(t, w.rdb.ZRem(t.Context(), w.queue(couponID), 1).Err())
					if !isCounted {
						assert.NoError(t, w.rdb.HIncrBy(t.Context(), "state:{"+w.queue(couponID)+"}", "accepted", -1).Err())
					}
					w.takesOver(couponID)
				case step == settle.StepFence && times == 2:
					assert.NoError(t, w.catalog().Refresh(t.Context()))
					select {
					case p := <-putBack:
						assert.Equal(t, 1, p.Back)
					case <-time.After(20 * time.Second):
						t.Error("nobody is put back")
					}
				}
			})
			report, err := s.RunOnce(t.Context(), order)
			require.NoError(t, err)
			require.NoError(t, report.Err())
			require.Equal(t, []uint64{1}, w.issued(couponID))
			require.Equal(t, []uint64{2, 3}, w.outcome(couponID, "NOT_SELECTED"))
			w.verify()
		})
	}
}

// Where one server after the other takes over, nothing is issued, and it is safe to run again.
func TestServersThatTakeOverAgainAndAgain(t *testing.T) {
	t.Parallel()
	w, couponID, order := takenOver(t)
	s := w.settler()
	locked := 0
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepLock {
			locked = times
			w.takesOver(couponID)
		}
	})
	report, err := s.RunOnce(t.Context(), order)
	require.NoError(t, err)
	require.ErrorContains(t, report.Err(), "the Redis server was replaced repeatedly", fmt.Sprint(report))
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(report.Err()))
	require.Equal(t, 3, locked)
	require.Empty(t, w.issued(couponID))
	require.Equal(t, []string{"1", "2", "3"}, w.waiting(couponID))
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(couponID))
	w.verify()
}

// Where another server has taken over all coupons, none has to wait for the time that pods had with those before it.
func TestPodsHaveTheirTimeForAllCouponsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1)
	var coupons []uint64
	for range 3 {
		couponID := w.coupon(1)
		w.apply(couponID, 1)
		w.takesOver(couponID)
		coupons = append(coupons, couponID)
	}
	s := w.settler()
	s.Parallel = 1
	var met []string
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepFence && times == 1 {
			for _, couponID := range coupons {
				met = append(met, w.state(couponID, "run_id"))
			}
		}
	})
	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true, Operator: "kim", Reason: "test"})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Len(t, met, len(coupons))
	require.NotContains(t, met, "", "noted before the first is settled")
	w.verify()
}
