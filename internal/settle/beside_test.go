package settle_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Two runs settle the same coupons side by side. Each finds people in Redis whom the other has settled and has not
// taken out yet. That is no reason to restore: the end of the coupons stays.
func TestRun_BesideAnotherAsksForNoRestore(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 30)...)
	closes := d.Now().Add(time.Second)
	var ids []coupon.CouponID
	for range 12 {
		id := d.AddCouponBetween(5, closes.Add(-time.Hour), closes)
		d.Apply(id, jajeongtest.Between[coupon.UserID](1, 30)...)
		d.Journal(id)
		ids = append(ids, id)
	}
	testenv.Eventually(t, "the coupons are closed", func() bool { return d.Now().After(closes) })
	var both sync.WaitGroup
	for range 2 {
		settler := d.Settler()
		both.Go(func() {
			_, err := settler.RunOnce(t.Context(), jajeongtest.Manual(ids...))
			assert.NoError(t, err)
		})
	}
	both.Wait()
	require.Zero(t, d.Number("SELECT COUNT(*) FROM journal WHERE asked > 0"))
	require.EqualValues(t, len(ids), d.Number("SELECT COUNT(*) FROM coupon WHERE finalised_at IS NOT NULL"))
	d.Verify(ids...)
}
