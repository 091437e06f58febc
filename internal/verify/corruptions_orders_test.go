package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/verify"
	"github.com/jajeong/jajeong/internal/wallet"
)

// order is the id of the n-th user's order.
func (c *fixture) order(n uint64) string { return fmt.Sprintf("order-%d-%d", c.id, n) }

// checkout makes calls for an order of the n-th user.
func (c *fixture) checkout(n uint64, order string, verbs ...wallet.Verb) {
	c.T.Helper()
	for _, verb := range verbs {
		d, err := wallet.Redeem(c.T.Context(), mysqltx.New(c.DB), c.id, wallet.Call{Verb: verb, Actor: "checkout",
			OrderID: order, User: c.user(n), AmountWon: 12_000, TTL: time.Hour})
		require.NoError(c.T, err)
		require.Equal(c.T, wallet.Done, d.Code)
	}
}

// byOperator makes calls of customer service about the n-th user's coupon.
func (c *fixture) byOperator(n uint64, calls ...wallet.Call) {
	c.T.Helper()
	for _, call := range calls {
		tx, err := c.DB.Begin()
		require.NoError(c.T, err)
		f, found, err := wallet.LockForOperator(c.T.Context(), tx, c.id, c.user(n))
		require.NoError(c.T, err)
		require.True(c.T, found)
		d := wallet.Decide(f, call)
		require.Equal(c.T, wallet.Done, d.Code)
		require.NoError(c.T, wallet.Write(c.T.Context(), tx, f, d, "kim"))
		require.NoError(c.T, tx.Commit())
	}
}

func redeemed(n uint64, verbs ...wallet.Verb) func(*fixture) {
	return func(c *fixture) { c.checkout(n, c.order(n), verbs...) }
}

const (
	reserve = wallet.Reserve
	confirm = wallet.Confirm
	refund  = wallet.Refund
)

// alterLog changes the row seq of coupon_log of the n-th user's coupon.
func alterLog(n uint64, seq int, set string) func(*fixture) {
	return func(c *fixture) {
		c.change(1,
			"UPDATE coupon_log SET "+set+" WHERE seq = ? AND user_coupon_id = (SELECT id FROM user_coupon WHERE "+
				"coupon_id = ? AND user_id = ?)", seq, c.id, c.user(n))
	}
}

func alterOrder(n uint64, set string) func(*fixture) {
	return func(c *fixture) { c.change(1, "UPDATE coupon_order SET "+set+" WHERE order_id = ?", c.order(n)) }
}

func removeLog(n uint64, seq int) func(*fixture) {
	return func(c *fixture) {
		c.change(1,
			"DELETE FROM coupon_log WHERE seq = ? AND user_coupon_id = (SELECT id FROM user_coupon WHERE coupon_id = "+
				"? AND user_id = ?)", seq, c.id, c.user(n))
	}
}

// orderCorruptions are of what happens to coupons after they were issued.
var orderCorruptions = map[string]corruption{
	// Invariant 7.
	"used without an order": {
		do:    alter("user_coupon", 1, "status = 'USED'"),
		codes: found{verify.UsedTwice: 1, verify.OrderMismatch: 1, verify.LogWrong: 1}, alone: true},
	"used, but usable again": {
		do:    all(redeemed(1, reserve, confirm), alter("user_coupon", 1, "status = 'ISSUED', order_id = NULL")),
		codes: found{verify.UsedTwice: 1, verify.OrderMismatch: 1, verify.LogWrong: 1}, alone: true},
	"used twice": {
		do: all(redeemed(1, reserve, confirm), func(c *fixture) {
			c.change(1, `INSERT INTO coupon_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, actor,
				at)
				SELECT user_coupon_id, 3, kind, order_id, amount_won, discount_won, actor, at FROM coupon_log
					WHERE seq = 2 AND order_id = ?`, c.order(1))
		}, alter("user_coupon", 1, "seq = 3")),
		codes: found{verify.UsedTwice: 1, verify.LogWrong: 1}, alone: true},
	"refunded without use": {
		do:    all(redeemed(1, reserve, confirm, refund), alterLog(1, 2, "kind = 'RELEASED'")),
		codes: found{verify.UsedTwice: 1, verify.LogWrong: 1}, alone: true},

	// Invariant 8.
	"an order of another coupon": {
		do: all(redeemed(1, reserve), redeemed(2, reserve),
			func(c *fixture) { alter("user_coupon", 2, "order_id = ?", c.order(1))(c) }),
		codes: found{verify.OrderMismatch: 1, verify.LogWrong: 1}, alone: true},
	"an order released, its coupon reserved": {
		do:    all(redeemed(3, reserve), alterOrder(3, "state = 'RELEASED'")),
		codes: found{verify.OrderMismatch: 1, verify.LogWrong: 1}, alone: true},
	"an order of another user": {do: all(redeemed(3, reserve), alterOrder(3, "user_id = user_id + 1")),
		codes: found{verify.OrderMismatch: 1}, alone: true},
	"an order removed": {
		do: all(redeemed(3, reserve), func(c *fixture) {
			c.change(1, "DELETE FROM coupon_order WHERE order_id = ?",
				c.order(3))
		}),
		codes: found{verify.OrderMismatch: 1}, alone: true},
	"a refunded order that still has its coupon": {
		do:    all(redeemed(3, reserve, confirm, refund), alterOrder(3, "state = 'USED'")),
		codes: found{verify.OrderMismatch: 1, verify.LogWrong: 1}, alone: true},

	// Invariant 9.
	"a log row removed": {do: all(redeemed(4, reserve, confirm), removeLog(4, 1)),
		codes: found{verify.LogMissing: 1}, alone: true},
	"the last log row removed": {do: all(redeemed(4, reserve), removeLog(4, 1)),
		codes: found{verify.LogMissing: 1, verify.LogWrong: 1}, alone: true},
	"a log row of no change": {do: all(redeemed(4, reserve), alter("user_coupon", 4, "seq = 0")),
		codes: found{verify.LogMissing: 1}, alone: true},
	"log rows exchanged": {do: all(redeemed(4, reserve, confirm, refund),
		alterLog(4, 1, "seq = 9"), alterLog(4, 2, "seq = 1"), alterLog(4, 9, "seq = 2")), alone: true,
		codes: found{verify.LogWrong: 1}},
	"revoked without a log": {do: alter("user_coupon", 5, "status = 'REVOKED'"),
		codes: found{verify.LogWrong: 1}, alone: true},
	"another amount in the log": {do: all(redeemed(6, reserve, confirm),
		alterLog(6, 2, "amount_won = 11000")), codes: found{verify.LogWrong: 1}, alone: true},
	"another discount": {do: all(redeemed(6, reserve), alterOrder(6, "discount_won = 1")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"a discount above the price": {do: all(redeemed(6, reserve), alterOrder(6, "discount_won = 13000"),
		alterLog(6, 1, "discount_won = 13000")), codes: found{verify.LogWrong: 1}, alone: true},
	"a negative discount": {do: all(redeemed(6, reserve), alterOrder(6, "discount_won = -1"),
		alterLog(6, 1, "discount_won = -1")), codes: found{verify.LogWrong: 1}, alone: true},
	"another discount in both": {do: all(redeemed(6, reserve),
		alterOrder(6, "discount_won = discount_won + 1"), alterLog(6, 1, "discount_won = discount_won + 1")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"a reservation without end": {do: all(redeemed(6, reserve),
		alterOrder(6, "reserved_until = '2031-01-01'")), codes: found{verify.LogWrong: 1}, alone: true},
	"a reservation that adds a seat": {do: all(redeemed(6, reserve), alterLog(6, 1, "seats = 1")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"a reservation after the end of validity": {do: all(redeemed(6, reserve),
		alterLog(6, 1, "at = at + INTERVAL 2 YEAR")), codes: found{verify.LogWrong: 1}, alone: true},
	"an extension undone": {
		do: all(func(c *fixture) {
			c.byOperator(7, wallet.Call{Verb: wallet.Extend, ExpiresAt: c.Now().AddDate(1, 0, 0).Truncate(time.Second)})
		}, alter("user_coupon", 7, "expires_at = expires_at - INTERVAL 1 DAY")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"granted after it was issued": {
		do: all(func(c *fixture) {
			c.byOperator(7, wallet.Call{Verb: wallet.Extend, ExpiresAt: c.Now().AddDate(1, 0, 0).Truncate(time.Second)})
		}, alterLog(7, 1, "kind = 'GRANTED'")),
		codes: found{verify.LogWrong: 1, verify.ValidityWrong: 1}, alone: true},
	"an order in the log of another coupon": {do: all(redeemed(8, reserve), alterLog(8, 1, "order_id = 'other'")),
		codes: found{verify.OrderMismatch: 1, verify.LogWrong: 2}, alone: true},
	"a released order removed": {
		do: all(redeemed(8, reserve, wallet.Release),
			func(c *fixture) { c.change(1, "DELETE FROM coupon_order WHERE order_id = ?", c.order(8)) }),
		codes: found{verify.OrderMismatch: 1}, alone: true},
	"a refunded order moved to another coupon": {
		do: all(redeemed(8, reserve, confirm, refund), redeemed(9, reserve), func(c *fixture) {
			c.change(1,
				"UPDATE coupon_order o JOIN user_coupon u ON u.coupon_id = ? AND u.user_id = ? SET o.user_coupon_id "+
					"= u.id WHERE o.order_id = ?", c.id, c.user(9), c.order(8))
		}),
		codes: found{verify.OrderMismatch: 1, verify.LogWrong: 1}, alone: true},
	"another amount of the order": {do: all(redeemed(8, reserve), alterOrder(8, "amount_won = amount_won + 1")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"orders of four coupons altered": {
		do: all(redeemed(8, reserve), redeemed(9, reserve), redeemed(10, reserve), redeemed(11, reserve),
			alterOrder(8, "user_id = 1"), alterOrder(9, "user_id = 1"),
			alterOrder(10, "discount_won = 1"), alterOrder(11, "discount_won = 1")),
		codes: found{verify.OrderMismatch: 2, verify.LogWrong: 2}, alone: true},
	"log rows altered, of two coupons": {
		do: all(redeemed(8, reserve, confirm), redeemed(9, reserve, confirm), alterLog(8, 2, "amount_won = 1"),
			alterLog(9, 2, "amount_won = 1")),
		codes: found{verify.LogWrong: 2}, alone: true},
	"a reservation with an end of validity": {do: all(redeemed(8, reserve), alterLog(8, 1, "expires_at = at")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"revoked with an end of validity": {
		do: all(func(c *fixture) { c.byOperator(8, wallet.Call{Verb: wallet.Revoke}) },
			alterLog(8, 1, "expires_at = at")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"an extension without its time": {
		do: all(func(c *fixture) {
			c.byOperator(8, wallet.Call{Verb: wallet.Extend, ExpiresAt: c.Now().AddDate(1, 0, 0).Truncate(time.Second)})
		}, alterLog(8, 1, "expires_at = NULL")),
		codes: found{verify.LogWrong: 1}, alone: true},
	"used, and valid for longer": {
		do:    all(redeemed(8, reserve, confirm), alter("user_coupon", 8, "expires_at = expires_at + INTERVAL 3 DAY")),
		codes: found{verify.ValidityWrong: 1}, alone: true},
	"reserved, and issued at another time": {
		do:    all(redeemed(8, reserve), alter("user_coupon", 8, "issued_at = issued_at - INTERVAL 1 SECOND")),
		codes: found{verify.ValidityWrong: 1}, alone: true},
	"reserved, issued at another time, and valid for longer": {
		do: all(redeemed(8, reserve), alter("user_coupon", 8,
			"issued_at = issued_at - INTERVAL 1 SECOND, expires_at = expires_at + INTERVAL 3 DAY"),
			alter("user_coupon", 9,
				"issued_at = issued_at - INTERVAL 1 SECOND, expires_at = expires_at + INTERVAL 3 DAY")),
		codes: found{verify.ValidityWrong: 2}, alone: true},
}

// Every way of a coupon through orders and customer service is healthy.
func TestCheckAcceptsEveryUse(t *testing.T) {
	t.Parallel()
	c := newDeployment(t).populated(t)
	c.checkout(1, "1-a", reserve)
	c.checkout(2, "2-a", reserve, confirm)
	c.checkout(3, "3-a", reserve, wallet.Release, reserve, confirm, refund)
	c.checkout(3, "3-b", reserve)
	c.checkout(4, "4-a", reserve)
	c.Exec("UPDATE coupon_order SET reserved_until = '2026-01-01' WHERE order_id = '4-a'")
	c.checkout(4, "4-b", reserve, confirm)
	c.byOperator(5, wallet.Call{Verb: wallet.Revoke}, wallet.Call{Verb: wallet.Reissue},
		wallet.Call{Verb: wallet.Extend, ExpiresAt: c.Now().AddDate(2, 0, 0)})
	c.checkout(5, "5-a", reserve, confirm, refund)
	c.byOperator(5, wallet.Call{Verb: wallet.Revoke})
	c.checkout(byHand, "6-a", reserve, confirm)
	c.requireHealthy()
	require.NotEmpty(t, c.Number("SELECT COUNT(*) FROM coupon_log"))
}

// An order moves from one coupon of a user to another.
func TestCheckAcceptsAnOrderThatChangedItsCoupon(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 3)
	c.addApplicants(3)
	c.settleNow()
	other := c.newCoupon(t, 1)
	other.Apply(other.id, c.user(1))
	other.settleNow()
	c.checkout(1, "one", reserve, wallet.Release)
	call := wallet.Call{Verb: wallet.Reserve, Actor: "checkout", OrderID: "one", User: c.user(1), AmountWon: 9_000,
		TTL: time.Hour}
	d, err := wallet.Redeem(t.Context(), mysqltx.New(c.DB), other.id, call)
	require.NoError(t, err)
	require.Equal(t, coupon.OrderReserved, d.Order.State)
	c.requireHealthy()
	other.requireHealthy()
}

// wallet-api redeems during checks, and no check finds anything.
func TestCheckFindsNothingWhileCouponsAreUsed(t *testing.T) {
	t.Parallel()
	c := newDeployment(t).populated(t)
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
				c.checkout(uint64(n%6+1), fmt.Sprint("order-", n), reserve, confirm, refund)
			}
		}
	}()
	for range 8 {
		c.requireHealthy()
	}
	close(stop)
	require.Positive(t, <-done)
}
