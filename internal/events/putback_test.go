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

// A MySQL that was put back to an earlier instant, such as a promoted replica that lacked the last transactions, gives
// ids and seq again. A consumer that drops the events whose source and id it knows must miss none of what happens then.
func TestRound_NoEventHasTheIDOfALostOne(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(2, 3)
	couponID := s.AddQueue(1, 1)
	s.SettleNow()
	s.reserve(couponID, 1, "A-1")
	s.publish()
	s.redeem(couponID, 1, wallet.Confirm, "A-1")
	s.grant(couponID, 2)
	s.publish()
	known := map[string]bool{}
	news := func() (ids []string) {
		s.publish()
		for _, id := range s.sink.ids() {
			if !known[id] {
				ids = append(ids, id)
			}
			known[id] = true
		}
		return ids
	}
	require.Len(t, news(), 4)
	lost := s.changeID(couponID, 1, 2)
	row, ofTwo := s.rowOf(couponID, 1), s.rowOf(couponID, 2)

	// Before the confirmation: the next change of the same issued coupon has its seq, the next grant the row of user 2.
	s.Exec("DELETE FROM coupon_log WHERE user_coupon_id = ? OR seq = 2", ofTwo)
	s.Exec("DELETE FROM user_coupon WHERE id = ?", ofTwo)
	s.Exec("UPDATE user_coupon SET status = 'RESERVED', seq = 1 WHERE id = ?", row)
	s.Exec("UPDATE coupon_order SET state = 'RESERVED'")
	s.numberAgain()
	s.redeem(couponID, 1, wallet.Release, "A-1")
	s.grant(couponID, 3)
	require.Equal(t, ofTwo, s.rowOf(couponID, 3))
	require.Equal(t, []string{s.changeID(couponID, 1, 2), s.changeID(couponID, 3, 1)}, news())
	require.NotEqual(t, lost, s.changeID(couponID, 1, 2))

	// Before the settlement: the row of user 1 belongs to user 2, and then user 1 gets the coupon in another way.
	for _, table := range []string{"coupon_log", "coupon_order", "user_coupon", "settlement"} {
		s.Exec("DELETE FROM " + table)
	}
	s.Exec("UPDATE coupon SET issued_count = 0, total_quantity = 1")
	s.numberAgain()
	s.grant(couponID, 2)
	require.Equal(t, row, s.rowOf(couponID, 2))
	s.reserve(couponID, 2, "A-1")
	s.grant(couponID, 1)
	late := s.line(1, 3)
	s.SettleNow(late)
	want := append(s.issuedIDs(late), s.changeID(couponID, 2, 1), s.changeID(couponID, 2, 2),
		s.changeID(couponID, 1, 1))
	require.Equal(t, want, news())
	require.ElementsMatch(t, want, s.replay(events.Selection{From: time.Unix(0, 0)}))
}

// grant gives the coupon by hand.
func (s *shop) grant(couponID coupon.CouponID, user coupon.UserID) {
	s.T.Helper()
	_, err := s.CouponAdmin().Grant(s.T.Context(), couponID, couponadmin.Grantee{User: user, Zone: time.UTC})
	require.NoError(s.T, err)
}

// numberAgain lets MySQL give the ids above those that are left.
func (s *shop) numberAgain() {
	s.T.Helper()
	for _, table := range []string{"user_coupon", "coupon_log"} {
		s.Exec("ALTER TABLE " + table + " AUTO_INCREMENT = 1")
	}
}

// coupon_log keeps microseconds: a replay has the same time as the first publication, and so the same id.
func TestReplay_RepeatsTheIDOfAChange(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.AddQueue(1, 1)
	s.SettleNow()
	s.reserve(couponID, 1, "A-1")
	for _, verb := range []wallet.Verb{wallet.Confirm, wallet.Refund} {
		s.redeem(couponID, 1, verb, "A-1")
	}
	for i, at := range []string{"2026-11-21 00:00:00", "2026-11-21 00:00:00.000001", "2026-11-21 00:00:00.999999"} {
		s.Exec("UPDATE coupon_log SET at = ? WHERE seq = ?", at, i+1)
	}
	want := s.issuedIDs(couponID)
	for _, id := range []string{"1-1-1795219200000000", "1-2-1795219200000001", "1-3-1795219200999999"} {
		want = append(want, fmt.Sprintf("/coupons/%d %s", couponID, id))
	}
	s.publish()
	require.Equal(t, want, s.sink.ids())
	require.Equal(t, want, s.replay(events.Selection{Coupon: couponID}))
}
