package settle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// A run that has nothing to settle accepts the digest of an earlier settlement of the coupon, and no other.
func TestSettle_ComparesEarlierDigestsExactly(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID, other := d.AddCoupon(1), d.AddCoupon(1)
	d.AddPromises(couponID, 3)
	order := jajeongtest.Manual(couponID)
	order.AcceptGap = true
	preview, err := d.Settler().Preview(t.Context(), order)
	require.NoError(t, err)
	approved := preview.Coupons[0].Preview.Digest
	d.AcceptGap()
	require.NoError(t, d.Audit(audit.Origin{At: time.Now().UTC()}, audit.ManualSettle, couponID,
		audit.Entry{Payload: audit.Settled{Digest: "of another action"}}))
	d.Exec("INSERT INTO audit_event (account, actor, action, coupon_id, detail) VALUES ('', 'kim', 'GAP_ACCEPTED', "+
		"?, ?)", couponID, `{"missing":1,"account":{},"digest":"outside the chain"}`)

	order.Expect = map[coupon.CouponID]string{couponID: approved}
	d.SettleAs(order)
	for _, digest := range []string{"%", strings.Repeat("_", len(approved)), approved[1:], "of another action",
		"outside the chain"} {
		order.Expect[couponID] = digest
		require.Equal(t, coupon.HeldBack, d.SettleAs(order, coupon.Invariant).Coupons[0].Status, digest)
	}
	order = jajeongtest.Manual(other)
	order.Expect = map[coupon.CouponID]string{other: approved}
	require.Equal(t, coupon.HeldBack, d.SettleAs(order, coupon.Invariant).Coupons[0].Status,
		"the digest of another coupon")
}
