package events_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/wallet"
)

// The sink of the test holds each event against docs/asyncapi.yaml.
func TestRound_PublishesEachTypeOfTheContract(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.sink.strict = true
	couponID := s.AddQueue(1, 1)
	s.AddUsers(2)
	s.Exec("UPDATE coupon SET validity_days = 30 WHERE id = ?", couponID)
	s.SettleNow()
	for _, c := range []struct {
		verb  wallet.Verb
		order string
	}{{wallet.Reserve, "A-1"}, {wallet.Release, "A-1"}, {wallet.Reserve, "주문/2:가"}, {wallet.Confirm, "주문/2:가"},
		{wallet.Refund, "주문/2:가"}} {
		s.redeem(couponID, 1, c.verb, c.order)
	}
	admin := s.CouponAdmin()
	s.redeem(couponID, 1, wallet.Reserve, "A-3")
	s.redeem(couponID, 1, wallet.Confirm, "A-3")
	_, err := admin.Unuse(t.Context(), couponID, 1) // the shop hears of it as of its own refunds
	require.NoError(t, err)
	revoked, err := admin.Revoke(t.Context(), couponID, 1, false)
	require.NoError(t, err)
	_, err = admin.Reissue(t.Context(), couponID, 1)
	require.NoError(t, err)
	_, err = admin.ExtendUser(t.Context(), couponID, 1, revoked.ExpiresAt.AddDate(0, 0, 1))
	require.NoError(t, err)
	_, err = admin.Grant(t.Context(), couponID, couponadmin.Grantee{User: 2, Zone: time.UTC})
	require.NoError(t, err)
	s.publish()

	bySubject := map[string][]string{}
	for _, e := range s.sink.got {
		bySubject[e.Subject] = append(bySubject[e.Subject], fmt.Sprint(e.Sequence, " ", e.Type))
	}
	var want []string
	for i, kind := range []coupon.LogKind{coupon.LogReserved, coupon.LogReleased, coupon.LogReserved, coupon.LogUsed,
		coupon.LogRefunded, coupon.LogReserved, coupon.LogUsed, coupon.LogRefunded, coupon.LogRevoked,
		coupon.LogReissued, coupon.LogExtended} {
		want = append(want, fmt.Sprint(i+1, " ", events.TypeOf(kind)))
	}
	require.Equal(t, append([]string{"0 " + events.IssuedType}, want...), bySubject["1"])
	require.Equal(t, []string{"1 " + events.TypeOf(coupon.LogGranted)}, bySubject["2"])
}
