package coupon_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
)

func amounts() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, coupon.MaxWon), rapid.Int64Range(0, 1_000),
		rapid.Int64Range(coupon.MaxWon-1_000, coupon.MaxWon))
}

func discounts() *rapid.Generator[coupon.Discount] {
	return rapid.Custom(func(t *rapid.T) coupon.Discount {
		d := coupon.Discount{MinimumWon: amounts().Draw(t, "minimum")}
		if rapid.Bool().Draw(t, "fixed") {
			d.DiscountWon = amounts().Draw(t, "won")
			return d
		}
		d.DiscountPercent = rapid.Int64Range(1, 100).Draw(t, "percent")
		d.DiscountMaxWon = amounts().Draw(t, "limit")
		return d
	})
}

// exactly is the discount by the rule, in numbers without bounds.
func exactly(d coupon.Discount, amount int64) *big.Int {
	off, limit := big.NewInt(d.DiscountWon), big.NewInt(amount)
	if d.DiscountPercent > 0 {
		off = new(big.Int).Mul(big.NewInt(amount), big.NewInt(d.DiscountPercent))
		off.Quo(off, big.NewInt(100))
		if d.DiscountMaxWon < amount {
			limit = big.NewInt(d.DiscountMaxWon)
		}
	}
	if off.Cmp(limit) > 0 {
		return limit
	}
	return off
}

func TestDiscount_IsBoundedMonotoneAndRoundedDown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, amount := discounts().Draw(t, "discount"), amounts().Draw(t, "amount")
		off := d.Of(amount)
		require.GreaterOrEqual(t, off, int64(0))
		require.LessOrEqual(t, off, amount)
		if d.DiscountPercent > 0 {
			require.LessOrEqual(t, off, d.DiscountMaxWon)
			require.LessOrEqual(t, off*100, amount*d.DiscountPercent, "rounded down")
		}
		require.Equal(t, exactly(d, amount).Int64(), off)

		more := rapid.Int64Range(amount, coupon.MaxWon).Draw(t, "higher amount")
		require.LessOrEqual(t, off, d.Of(more), "a higher amount has no lower discount")
	})
}

func TestDiscount_AtItsBounds(t *testing.T) {
	t.Parallel()
	all := coupon.Discount{DiscountPercent: 100, DiscountMaxWon: coupon.MaxWon}
	require.EqualValues(t, coupon.MaxWon, all.Of(coupon.MaxWon))
	require.EqualValues(t, 99, coupon.Discount{DiscountPercent: 10, DiscountMaxWon: 100}.Of(999))
	require.Zero(t, coupon.Discount{DiscountPercent: 1, DiscountMaxWon: 100}.Of(99))
	require.Zero(t, coupon.Discount{DiscountWon: 5000}.Of(0))
	require.Zero(t, coupon.Discount{DiscountWon: -1}.Of(100))
	require.Zero(t, coupon.Discount{DiscountWon: 1}.Of(-1))
}
