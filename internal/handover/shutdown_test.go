package handover

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// More coupons have to be compared than may be in the background.
func TestLastLook_ComparesEveryCoupon(t *testing.T) {
	t.Parallel()
	r, p := onePod(t)
	const coupons = 3 * comparisons
	for n := range int64(coupons) {
		p.Answered(coupon.CouponID(n+1), candidates.Reply{Epoch: "a:1", Answers: []coupon.Answer{answer(n+1, 100)}})
	}
	r.failover("b:2")
	require.Len(t, p.lastLook(t.Context()), coupons, "no restore has taken them over yet")
	require.Len(t, r.returned, coupons)
}

// Redis may fall silent after the look.
func TestLastLook_LeavesWhatWasNotCompared(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answersFrom(1000, 600)...)
	r.failover("b:2", 1000, 1599)
	r.silentOn = 2
	require.Equal(t, map[coupon.CouponID]bool{id: true}, p.lastLook(t.Context()))
	require.Equal(t, answersFrom(1000, 600), p.answers(id), "also who stands, and who was handed over")
}

// Whoever was handed over is written, too, until a restore has dealt with them: the server may be lost before.
func TestAnswers_HandedOver(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100), answer(8, 100), answer(9, 101))
	r.failover("b:2", 7)
	p.looks()
	require.Equal(t, []coupon.Answer{answer(7, 100), answer(8, 100), answer(9, 101)}, p.answers(id))
	r.takes()
	p.looks()
	p.waits()
	require.Equal(t, []coupon.Answer{answer(8, 100), answer(9, 101)}, p.answers(id))
}
