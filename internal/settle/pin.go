package settle

import (
	"maps"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Pin makes an order repeat a preview exactly or refuse: it takes the cutoff of the preview, and the digest of each coupon that
// could be previewed unless the order expects another.
func (r *Report) Pin(order *Order) {
	order.Cutoff, order.CutoffNow = r.Cutoff, false
	pinned := map[coupon.CouponID]string{}
	for _, c := range r.Coupons {
		if c.Preview != nil && c.Error == "" {
			pinned[c.Coupon] = c.Preview.Digest
		}
	}
	maps.Copy(pinned, order.Expect)
	order.Expect = pinned
}
