package walletapi_test

import (
	"context"
	"database/sql/driver"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

// The times of an answer are of the zone of the nights at that moment. Without it nothing is done, and the answer is
// 503.
func TestZone_IsAskedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	zone, unknown := time.FixedZone("", -5*3600), error(nil)
	calls := 0
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"),
		Zone: func(context.Context) (*time.Location, error) { return zone, unknown },
		Redeem: func(ctx context.Context, id coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
			calls++
			return decided(ctx, id, call)
		},
		List: func(ctx context.Context, user coupon.UserID, before coupon.UserCouponID, limit int) ([]wallet.Item,
			time.Time, error) {
			calls++
			return listOf(ctx, user, before, limit)
		}})
	require.Contains(t, ask(handler, "GET", "/v1/wallet/coupons").Body.String(), `-05:00"`)
	require.Contains(t, ask(handler, "PUT", "/v1/orders/DONE/coupon").Body.String(), `-05:00"`)
	require.Equal(t, 2, calls)
	zone = time.FixedZone("", 3600)
	require.Contains(t, ask(handler, "GET", "/v1/wallet/coupons").Body.String(), `+01:00"`)
	zone, unknown = nil, driver.ErrBadConn
	require.Equal(t, http.StatusServiceUnavailable, ask(handler, "GET", "/v1/wallet/coupons").Code)
	require.Equal(t, http.StatusServiceUnavailable, ask(handler, "PUT", "/v1/orders/DONE/coupon").Code)
	require.Equal(t, 3, calls)
}
