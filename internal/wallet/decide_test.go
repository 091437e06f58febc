package wallet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/wallet"
)

// The states of a coupon and of order A, which had it last. The call is of order A, or of order B, which never had a coupon.
var states = []struct {
	name    string
	status  coupon.UserCouponStatus
	order   coupon.OrderState
	until   int64
	expires int64
}{
	{"issued", coupon.CouponIssued, "", 0, 100},
	{"expired", coupon.CouponIssued, "", 0, 10},
	{"reserved", coupon.CouponReserved, coupon.OrderReserved, 11, 100},
	{"reserved, expired", coupon.CouponReserved, coupon.OrderReserved, 11, 10},
	{"ran out", coupon.CouponReserved, coupon.OrderReserved, 10, 100},
	{"ran out, expired", coupon.CouponReserved, coupon.OrderReserved, 10, 10},
	{"used", coupon.CouponUsed, coupon.OrderUsed, 5, 100},
	{"used, expired", coupon.CouponUsed, coupon.OrderUsed, 5, 10},
	{"released", coupon.CouponIssued, coupon.OrderReleased, 5, 100},
	{"refunded", coupon.CouponIssued, coupon.OrderRefunded, 5, 100},
	{"refunded, expired", coupon.CouponIssued, coupon.OrderRefunded, 5, 10},
	{"revoked", coupon.CouponRevoked, "", 0, 100},
}

// Each row has the results in the order of states, at second 10. "DONE" is followed by the entries.
func TestDecide_EveryStateAndVerb(t *testing.T) {
	t.Parallel()
	const reserved, over = "DONE [RESERVED]", "DONE [RELEASED RESERVED]"
	for _, row := range []struct {
		verb  wallet.Verb
		order string
		want  []string
	}{
		{wallet.Reserve, "A", []string{reserved, "EXPIRED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", reserved, "ORDER_REFUNDED", "ORDER_REFUNDED", "REVOKED"}},
		{wallet.Reserve, "B", []string{reserved, "EXPIRED", "RESERVED_ELSEWHERE", "RESERVED_ELSEWHERE", over, "EXPIRED", "USED", "USED", reserved, reserved, "EXPIRED", "REVOKED"}},
		{wallet.Confirm, "A", []string{"ORDER_NOT_FOUND", "ORDER_NOT_FOUND", "DONE [USED]", "DONE [USED]", "DONE [USED]", "DONE [USED]", "REPEATED", "REPEATED", "RESERVATION_LOST", "ORDER_REFUNDED", "ORDER_REFUNDED", "ORDER_NOT_FOUND"}},
		{wallet.Release, "A", []string{"NOTHING", "NOTHING", "DONE [RELEASED]", "DONE [RELEASED]", "DONE [RELEASED]", "DONE [RELEASED]", "USED", "USED", "REPEATED", "ORDER_REFUNDED", "ORDER_REFUNDED", "NOTHING"}},
		{wallet.Refund, "A", []string{"ORDER_NOT_FOUND", "ORDER_NOT_FOUND", "NOT_USED", "NOT_USED", "NOT_USED", "NOT_USED", "DONE [REFUNDED]", "DONE [REFUNDED]", "NOT_USED", "REPEATED", "REPEATED", "ORDER_NOT_FOUND"}},
		{wallet.Read, "A", []string{"ORDER_NOT_FOUND", "ORDER_NOT_FOUND", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "ORDER_NOT_FOUND"}},
		{wallet.Revoke, "", []string{"DONE [REVOKED]", "DONE [REVOKED]", "RESERVED_ELSEWHERE", "RESERVED_ELSEWHERE", "DONE [RELEASED REVOKED]", "DONE [RELEASED REVOKED]", "USED", "USED", "DONE [REVOKED]", "DONE [REVOKED]", "DONE [REVOKED]", "REPEATED"}},
		{wallet.Reissue, "", []string{"REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "REPEATED", "DONE [REISSUED]"}},
		{wallet.Extend, "", []string{"DONE [EXTENDED]", "DONE [EXTENDED]", "DONE [EXTENDED]", "DONE [EXTENDED]", "DONE [EXTENDED]", "DONE [EXTENDED]", "USED", "USED", "DONE [EXTENDED]", "DONE [EXTENDED]", "DONE [EXTENDED]", "REVOKED"}},
	} {
		require.Len(t, row.want, len(states))
		for i, s := range states {
			t.Run(fmt.Sprintf("verb %d of order %s, %s", row.verb, row.order, s.name), func(t *testing.T) {
				t.Parallel()
				f := wallet.Facts{Now: at(10), Discount: coupon.Discount{DiscountWon: 5000},
					Coupon: wallet.UserCoupon{ID: 1, Coupon: 7, User: 1, Status: s.status, Seq: 4, ExpiresAt: at(s.expires)}}
				var orderA wallet.Order
				if s.order != "" {
					orderA = wallet.Order{ID: "A", UserCoupon: 1, User: 1, AmountWon: 12_000, DiscountWon: 5000, State: s.order, ReservedUntil: at(s.until)}
				}
				if orderA.Has() {
					f.Coupon.OrderID, f.Holder = "A", orderA
				}
				if row.order == "A" {
					f.Order = orderA
				}
				d := wallet.Decide(f, wallet.Call{Verb: row.verb, OrderID: row.order, User: 1, AmountWon: 12_000, TTL: time.Minute, ExpiresAt: at(200)})
				got, kinds := string(d.Code), []coupon.LogKind{}
				for _, e := range d.Entries {
					kinds = append(kinds, e.Kind)
				}
				if d.Code == wallet.Done {
					got = fmt.Sprint(got, " ", kinds)
				}
				require.Equal(t, row.want[i], got)
				require.EqualValues(t, 4+len(d.Entries), d.Coupon.Seq)
				if d.Code != wallet.Done {
					require.Equal(t, []any{f.Coupon, f.Order, wallet.Order{}}, []any{d.Coupon, d.Order, d.Lost}, "a refusal changes nothing")
					require.Empty(t, d.Entries)
				}
			})
		}
	}
}

func TestDecide_OrderOfAnotherUserCouponOrAmount(t *testing.T) {
	t.Parallel()
	order := wallet.Order{ID: "A", UserCoupon: 2, User: 1, AmountWon: 12_000, State: coupon.OrderReserved, ReservedUntil: at(11)}
	f := wallet.Facts{Now: at(10), Discount: coupon.Discount{DiscountWon: 5000, MinimumWon: 10_000},
		Coupon: wallet.UserCoupon{ID: 1, User: 1, Status: coupon.CouponIssued, ExpiresAt: at(11)}, Order: order}
	call := wallet.Call{Verb: wallet.Reserve, OrderID: "A", User: 1, AmountWon: 12_000}
	require.Equal(t, wallet.OrderHasCoupon, wallet.Decide(f, call).Code)
	call.User = 2
	require.Equal(t, wallet.OrderDiffers, wallet.Decide(f, call).Code)
	for _, state := range []coupon.OrderState{coupon.OrderReleased, coupon.OrderRefunded} {
		f.Order.State = state
		require.Equal(t, wallet.OrderDiffers, wallet.Decide(f, call).Code)
	}
	f.Order, call.User, call.AmountWon = wallet.Order{}, 1, 9_999
	small := wallet.Decide(f, call)
	require.Equal(t, []any{wallet.BelowMinimum, int64(10_000)}, []any{small.Code, small.MinimumWon})
	call.AmountWon = 10_000
	require.Equal(t, wallet.Done, wallet.Decide(f, call).Code)
}

func TestDecide_ReissueTakesTheFreedSeatBack(t *testing.T) {
	t.Parallel()
	for _, freed := range []bool{true, false} {
		f := wallet.Facts{Coupon: wallet.UserCoupon{ID: 1, Status: coupon.CouponIssued}}
		revoked := wallet.Decide(f, wallet.Call{Verb: wallet.Revoke, FreeSeat: freed})
		f.Coupon, f.FreedSeat = revoked.Coupon, freed
		reissued := wallet.Decide(f, wallet.Call{Verb: wallet.Reissue})
		require.Equal(t, freed, revoked.Entries[0].Seats == 1)
		require.Zero(t, revoked.Entries[0].Seats+reissued.Entries[0].Seats)
	}
}
