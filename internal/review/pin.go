// Package review prepares an operator's decisions: it selects DLQ entries, tries canaries first, counts the entries
// that stay in the DLQ, and pins a run to a confirmed preview. Package settle does the settlement.
package review

import (
	"maps"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Pin makes an order repeat a confirmed preview or fail. The order gets the preview's cutoff, coupons and digests;
// digests that it had before are kept. failed lists coupons that the preview could not show. The order leaves them out.
func Pin(order *settle.Order, preview *settle.Report) (failed []coupon.CouponID) {
	order.Cutoff, order.CutoffNow, order.Coupons = preview.Cutoff, false, []coupon.CouponID{}
	pinned := map[coupon.CouponID]string{}
	for _, c := range preview.Coupons {
		switch {
		case c.Error != "":
			failed = append(failed, c.Coupon)
		case c.Preview != nil: // a coupon that is not due has no preview
			order.Coupons = append(order.Coupons, c.Coupon)
			pinned[c.Coupon] = c.Preview.Digest
		}
	}
	maps.Copy(pinned, order.Expect)
	order.Expect = pinned
	return failed
}
