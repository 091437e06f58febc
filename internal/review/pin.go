package review

import (
	"maps"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Pin makes an order repeat a confirmed preview exactly, or fail: it takes the cutoff of the preview, and the digest of each coupon
// that could be previewed unless the order expects another.
func Pin(order *settle.Order, preview *settle.Report) {
	order.Cutoff, order.CutoffNow = preview.Cutoff, false
	pinned := map[coupon.CouponID]string{}
	for _, c := range preview.Coupons {
		if c.Preview != nil && c.Error == "" {
			pinned[c.Coupon] = c.Preview.Digest
		}
	}
	maps.Copy(pinned, order.Expect)
	order.Expect = pinned
}
