package coupon

import "math"

// Discount is what a coupon takes off the price of an order. Amounts are whole won. A coupon has either DiscountWon, or
// DiscountPercent together with DiscountMaxWon. It is fixed when the coupon is created.
type Discount struct {
	DiscountWon     int64 `json:"discountWon"`
	DiscountPercent int64 `json:"discountPercent,omitzero"` // 1 to 100; 0: DiscountWon applies
	DiscountMaxWon  int64 `json:"discountMaxWon,omitzero"`  // limit of a percentage
	MinimumWon      int64 `json:"minimumWon,omitzero"`      // an order of a smaller amount cannot use the coupon
}

// Of returns the discount on an order of the given amount, from 0 to MaxWon. A percentage is rounded down to a whole
// won. The discount is never negative, never above the amount, and never above the limit.
func (d Discount) Of(amountWon int64) int64 {
	off := d.DiscountWon
	if d.DiscountPercent > 0 {
		off = min(amountWon*d.DiscountPercent/100, d.DiscountMaxWon)
	}
	return max(0, min(off, amountWon))
}

// MaxWon is the highest amount of an order and of a discount. A higher one is taken for a typing error.
const MaxWon = 1_000_000_000_000

// Most returns the highest discount that one coupon can give.
func (d Discount) Most() int64 {
	if d.DiscountPercent > 0 {
		return d.DiscountMaxWon
	}
	return d.DiscountWon
}

// Cost returns the highest discount of that many coupons together; 0 for none or fewer, and at most the highest int64.
func (d Discount) Cost(coupons int64) int64 {
	most := d.Most()
	switch {
	case coupons <= 0 || most <= 0:
		return 0
	case coupons > math.MaxInt64/most:
		return math.MaxInt64
	}
	return coupons * most
}
