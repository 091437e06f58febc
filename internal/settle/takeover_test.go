package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// takenOver is a coupon with one seat and three applicants.
func takenOver(t *testing.T) (d *jajeongtest.Deployment, couponID coupon.CouponID) {
	d = jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	couponID = d.AddCoupon(1)
	d.Refresh()
	d.Apply(couponID, 1, 2, 3)
	return d, couponID
}

// After the fence another Redis server takes over, which lacks the first application. The second one does not get the
// seat: the settlement restarts, and enters the first one again, whom a pod hands over.
func TestSettle_RestartsAfterFailoverAndIssuesInOrder(t *testing.T) {
	t.Parallel()
	for name, isCounted := range map[string]bool{"the count shows the loss": true, "the count shows no loss": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, couponID := takenOver(t)
			s := d.Settler()
			s.Hook = onStep(func(step settle.Step, times int) {
				if step == settle.StepLock && times == 1 {
					assert.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), 1).Err())
					if !isCounted {
						d.AddPromises(couponID, -1)
					}
					d.FailOver(couponID)
					assert.NoError(t, d.RefreshOf(d.Catalog()))
					testenv.Eventually(t, "the first is handed over",
						func() bool { return d.Redis.ZCard(t.Context(), d.Key("returned", couponID)).Val() == 1 })
				}
			})
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
			require.NoError(t, err)
			require.NoError(t, report.Err())
			requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2, 3}})
		})
	}
}

// Servers take over again and again, whatever the run does just then. It gives up after three attempts, issues nothing
// and says why. It is safe to run again.
func TestSettle_GivesUpDuringRepeatedFailovers(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(s *settle.Settler, failover func()){
		"at the fence": func(s *settle.Settler, failover func()) {
			s.Door = disturbedDoor{s.Door, failover}
		},
		"in the transaction": func(s *settle.Settler, failover func()) {
			s.Hook = onStep(func(step settle.Step, _ int) {
				if step == settle.StepLock {
					failover()
				}
			})
		},
		"in the restore": func(s *settle.Settler, failover func()) {
			failover()
			restorer := s.Journal.(*journal.Restorer)
			restorer.Line = disturbedRestore{restorer.Line, failover}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, couponID := takenOver(t)
			failovers := 0
			s := d.Settler()
			disturb(s, func() { failovers++; d.FailOver(couponID) })
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
			require.NoError(t, err)
			require.ErrorContains(t, report.Err(), promise.ErrTakenOver.Error())
			require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes(), "exit code 1")
			require.LessOrEqual(t, failovers, 4)
			requireResults(d, couponID, results{waiting: []string{"1", "2", "3"}})
			d.SettleNow()
			requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2, 3}})
		})
	}
}

// disturbedDoor is a Redis that is replaced before each look.
type disturbedDoor struct {
	settle.Door
	failover func()
}

func (d disturbedDoor) Look(ctx context.Context, id coupon.CouponID, known coupon.Known) (coupon.Look, error) {
	d.failover()
	return d.Door.Look(ctx, id, known)
}

// disturbedRestore is a Redis that is replaced before each restore has ended.
type disturbedRestore struct {
	journal.Line
	failover func()
}

func (d disturbedRestore) EndRestore(ctx context.Context, id coupon.CouponID,
	e candidates.Ending) (candidates.Ended, error) {
	d.failover()
	return d.Line.EndRestore(ctx, id, e)
}

// An immediate run never restores. It is busy, and leaves the restore to others.
func TestIssueNow_IsBusyDuringFailovers(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(s *settle.Settler, failover func()){
		"before it": func(_ *settle.Settler, failover func()) { failover() },
		"after its look": func(s *settle.Settler, failover func()) {
			s.Hook = onStep(func(step settle.Step, _ int) {
				if step == settle.StepLock {
					failover()
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			couponID := d.AddImmediate(1, 1, 2)
			s := d.Settler()
			s.Journal = nil
			disturb(s, func() { d.FailOver(couponID) })
			done := s.IssueNow(t.Context(), couponID)
			require.Equal(t, coupon.Busy, done.Status, done.Error)
			require.Empty(t, d.Issued(couponID))
			d.Restore(couponID)
			require.Equal(t, 1, d.IssueNow(couponID).Issued)
		})
	}
}

// Another server has taken over all coupons. They wait for the pods at the same time, not one after the other.
func TestSettle_WaitsForPodsOnceForAllCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1)
	var coupons []coupon.CouponID
	for range 3 {
		couponID := d.AddCoupon(1)
		d.Apply(couponID, 1)
		d.FailOver(couponID)
		coupons = append(coupons, couponID)
	}
	s := d.Settler()
	s.Parallel = 1
	var met []string
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepFence && times == 1 {
			for _, couponID := range coupons {
				met = append(met, d.Redis.HGet(t.Context(), d.Key("state", couponID), "run_id").Val())
			}
		}
	})
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Len(t, met, len(coupons))
	require.NotContains(t, met, "", "noted before the first is settled")
	d.Verify()
}

// Another run finalises the coupon, and sweeps it from Redis, while this one waits. No restore is due any more.
func TestSettle_LeavesACouponThatIsFinalisedMeanwhile(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	d.SetWindow(id, d.Now().Add(-2*time.Hour), d.Now())
	s := d.Settler()
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepFence && times == 1 {
			d.SettleNow()
			assert.EqualValues(t, 1, d.Number("SELECT COUNT(finalised_at) FROM coupon"))
		}
	})
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.NoError(t, report.Err())
	requireSettled(d, id, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2}})
}

// A process that is to end does not wait for a restore, which is safe to end anywhere.
func TestSettle_EndsARestoreIfItIsToStop(t *testing.T) {
	t.Parallel()
	d, couponID := takenOver(t)
	d.FailOver(couponID)
	s := d.Settler()
	s.Grace = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	s.Journal = endlessRestore(stop)
	report, err := s.RunOnce(ctx, jajeongtest.Manual())
	require.ErrorContains(t, err, "stopped by a signal")
	require.ErrorContains(t, report.Err(), "stopped by a signal")
	requireResults(d, couponID, results{waiting: []string{"1", "2", "3"}})
}

// endlessRestore is a restore that ends by its context. It calls what it is when it begins.
type endlessRestore func()

func (begun endlessRestore) RestoreCoupon(ctx context.Context, _ coupon.CouponID) error {
	begun()
	<-ctx.Done()
	return context.Cause(ctx)
}

// The last night of a coupon. After the seats are given, Redis forgets the coupon, or a pod that ends asks for a
// restore. The run restores, and leaves the coupon open for those who come back; the next run ends it.
func TestSettle_FinalisesNoCouponThatIsToBeRestored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		happens func(d *jajeongtest.Deployment, id coupon.CouponID)
		late    []coupon.UserID
	}{
		"Redis forgets the coupon": {func(d *jajeongtest.Deployment, id coupon.CouponID) { d.LoseRedis(id) },
			[]coupon.UserID{2, 3}},
		"a pod asks": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			assert.NoError(d.T, promise.AddRows(d.T.Context(), d.DB, id,
				[]coupon.Answer{{User: 4, Arrival: coupon.Arrival(d.Number("SELECT MAX(arrival) + 1 FROM line_journal"))}}))
			assert.NoError(d.T, promise.Ask(d.T.Context(), d.DB, id))
		}, []coupon.UserID{4}},
		"somebody asks in vain": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			assert.NoError(d.T, promise.Ask(d.T.Context(), d.DB, id))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			d.AddUsers(4)
			id := d.AddQueue(1, 1, 2, 3)
			d.Journal(id)
			d.PodsDie()
			d.SetWindow(id, d.Now().Add(-2*time.Hour), d.Now())
			s := d.Settler()
			s.Hook = onStep(func(step settle.Step, times int) {
				if step == settle.StepCleanUp && times == 1 {
					tc.happens(d, id)
				}
			})
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
			require.NoError(t, err)
			if tc.late != nil {
				require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes(), "exit code 1")
				require.ErrorContains(t, report.Err(), "a restore was due after the seats had been given")
				require.Len(t, d.Waiting(id), len(tc.late))
				d.SettleNow()
			} else {
				require.NoError(t, report.Err())
			}
			require.EqualValues(t, 1, d.Number("SELECT COUNT(finalised_at) FROM coupon"))
			require.Equal(t, []coupon.UserID{1}, d.Issued(id))
			require.Subset(t, d.Outcome(id, "NOT_SELECTED"), append(tc.late, 2, 3))
			d.Verify()
		})
	}
}

// A seat is added as the run of the last night ends. It goes to whom the run has not selected.
func TestSettle_FinalisesNoCouponWhoseAddedSeatIsFree(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	d.SetWindow(id, d.Now().Add(-2*time.Hour), d.Now())
	s := d.Settler()
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepFinish && times == 1 {
			d.SetSeats(id, 2)
		}
	})
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Equal(t, []coupon.UserID{2}, d.Outcome(id, "NOT_SELECTED"))
	require.Zero(t, d.Number("SELECT COUNT(finalised_at) FROM coupon"))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	require.EqualValues(t, 1, d.Number("SELECT COUNT(finalised_at) FROM coupon"))
	d.Verify()
}

// The clock of a lost server was seven seconds ahead. The run waits until the new one can have the arrival, and then
// restores once more.
func TestSettle_WaitsForWhoIsALittleAheadOfTheClock(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1, 2)
	d.Journal(id)
	d.Exec("UPDATE line_journal SET arrival = ? WHERE user_id = 2", d.Now().Add(7*time.Second).UnixMicro())
	d.LoseRedis(id)
	report, err := d.Settle(jajeongtest.Manual(id))
	require.NoError(t, err)
	require.Equal(t, coupon.RunSucceeded, report.Status)
	require.Equal(t, []coupon.UserID{1}, d.Issued(id))
	require.Equal(t, []string{"2"}, d.Waiting(id))
}
