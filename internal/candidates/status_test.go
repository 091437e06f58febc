package candidates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestStatusOfEveryStanding(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	receipts := c.accept(t, 1, 2, 3)
	c.addByHand(t, c.dlq, place{"4000", "4"})
	c.add(t, c.issued, "5", "1") // 1 is issued and not cleaned up yet
	c.add(t, c.rejected, "6")

	for user, want := range map[coupon.UserID]Status{
		1: {Standing: coupon.StandingIssued},
		2: {Standing: coupon.StandingPending, Arrival: receipts[1].Arrival, Position: 2},
		4: {Standing: coupon.StandingUnderReview, Arrival: 4000},
		5: {Standing: coupon.StandingIssued},
		6: {Standing: coupon.StandingRejected},
		7: {Standing: coupon.StandingNone},
	} {
		got, err := c.Status(t.Context(), c.id, user)
		require.NoError(t, err)
		want.Now = noon
		require.Equal(t, want, got, "user %d", user)
	}
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	got, err := c.Status(t.Context(), c.id, 7)
	require.NoError(t, err)
	require.Equal(t, Status{Standing: coupon.StandingNone, Sold: true, Now: noon}, got)
}
