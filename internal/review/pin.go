// Package review prepares an operator's decisions: it selects DLQ entries, tries canaries first, counts the entries that stay
// in the DLQ and why, and pins a run to a confirmed preview. The settlement itself is in package settle.
package review

import (
	"maps"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Pin makes an order repeat a confirmed preview or fail: by the cutoff of the preview, and by the digest of each coupon that it
// could compute, unless the order expects another.
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
