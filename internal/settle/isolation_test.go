package settle_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
)

// panickingAuditor panics for one coupon.
type panickingAuditor struct {
	settle.Auditor
	couponID coupon.CouponID
}

func (p panickingAuditor) Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (ledger.Account, error) {
	if couponID == p.couponID {
		panic("index out of range")
	}
	return p.Auditor.Account(ctx, tx, couponID)
}

func TestSettle_PanicFailsOneCouponAndReleasesItsRow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	hurt, whole := d.AddCoupon(5), d.AddCoupon(5)
	d.AddUsers(1)
	d.Apply(hurt, 1)
	d.Apply(whole, 1)
	s := d.Settler()
	s.Auditor = panickingAuditor{s.Auditor, hurt}

	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.Equal(t, coupon.Failed, report.Coupons[0].Status)
	require.Contains(t, report.Coupons[0].Error, "index out of range")
	require.Equal(t, []coupon.UserID{1}, d.Issued(whole))

	d.SettleNow() // the row is not locked any more
	require.Equal(t, []coupon.UserID{1}, d.Issued(hurt))
	d.Verify()
}

func TestRefresh_CouponWithoutSeatsIsNotSoldOut(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(0)
	d.Refresh()
	d.SetSeats(couponID, 100)
	d.Refresh()
	d.Apply(couponID, 1)
}

// A manual run with a later cutoff died after its COMMIT. The nightly run with an earlier cutoff cleans up what it can
// see.
func TestSettle_EarlierCutoffCompletesCleanupOnlyOfClosedCoupon(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	midnight := calendar.DefaultCutoff(d.Now(), d.Noon())
	d.AddUsers(1)
	for name, c := range map[string]struct {
		closes time.Time
		clean  bool
	}{
		"over":    {midnight.Add(-time.Hour), true},
		"goes on": {midnight.Add(48 * time.Hour), false},
	} {
		couponID := d.AddCouponBetween(5, midnight.Add(-48*time.Hour), c.closes)
		d.ApplyAt(couponID, "1", midnight.Add(-2*time.Hour))
		settleWithoutCleanUp(d, couponID)
		d.Exec("UPDATE coupon SET finalised_at = NULL WHERE id = ?", couponID)

		report, err := d.Settle(jajeongtest.Nightly(midnight))
		require.NoError(t, err)
		require.Empty(t, report.Coupons[0].Error)
		require.Empty(t, d.Waiting(couponID), name)
		require.Equal(t, c.clean, len(d.IDs("SELECT run_id FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL",
			couponID)) == 0, name)
	}
}
