package wallet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/wallet"
)

// The sizes of a model: one user has some coupons and places some orders.
const (
	modelCoupons = 3
	modelOrders  = 4
	modelMinimum = 1_000 // an order below it gets no discount
)

// model is what the rules say, written from the side of the orders: a coupon has no status of its own. Times are
// numbers.
type model struct {
	orders  [modelOrders]modelOrder
	revoked [modelCoupons]bool
	freed   [modelCoupons]bool
	expires [modelCoupons]int64
}

type modelOrder struct {
	life   byte // 0: never had a coupon, 'r'eserved, 'u'sed, 'b'ack, 'f': refunded
	coupon int
	amount int64
	until  int64
}

// op is a call in terms of the model.
type op struct {
	verb          wallet.Verb
	order, coupon int // coupon is that of Reserve and of the operator's verbs
	amount        int64
	ttl           int64
	expires       int64
	freeSeat      bool
}

func (o op) String() string {
	names := []string{"", "reserve", "confirm", "release", "refund", "read", "revoke", "reissue", "extend"}
	return fmt.Sprintf("%s(order %d, coupon %d, %d won, ttl %d, expires %d, free seat %v)", names[o.verb], o.order,
		o.coupon, o.amount, o.ttl, o.expires, o.freeSeat)
}

// holder is the order that has the coupon, or nil.
func (m *model) holder(coupon int) *modelOrder {
	for i := range m.orders {
		if o := &m.orders[i]; o.coupon == coupon && (o.life == 'r' || o.life == 'u') {
			return o
		}
	}
	return nil
}

// apply returns the result of a call at an instant, and changes the model.
func (m *model) apply(now int64, c op) wallet.Code {
	o := &m.orders[c.order]
	switch c.verb {
	case wallet.Reserve:
		return m.reserve(now, c)
	case wallet.Confirm:
		switch o.life {
		case 'r':
			o.life = 'u'
			return wallet.Done
		default:
			return map[byte]wallet.Code{0: wallet.OrderNotFound, 'u': wallet.Repeated, 'b': wallet.ReservationLost,
				'f': wallet.OrderRefunded}[o.life]
		}
	case wallet.Release:
		switch o.life {
		case 'r':
			o.life = 'b'
			return wallet.Done
		default:
			return map[byte]wallet.Code{0: wallet.Nothing, 'u': wallet.Used, 'b': wallet.Repeated,
				'f': wallet.OrderRefunded}[o.life]
		}
	case wallet.Refund:
		switch o.life {
		case 'u':
			o.life = 'f'
			return wallet.Done
		default:
			return map[byte]wallet.Code{0: wallet.OrderNotFound, 'r': wallet.NotUsed, 'b': wallet.NotUsed,
				'f': wallet.Repeated}[o.life]
		}
	case wallet.Read:
		if o.life == 0 {
			return wallet.OrderNotFound
		}
		return wallet.Repeated
	default:
		return m.operate(now, c)
	}
}

func (m *model) reserve(now int64, c op) wallet.Code {
	o, holder := &m.orders[c.order], m.holder(c.coupon)
	if o.life == 'f' {
		return wallet.OrderRefunded
	}
	if o.life == 'r' || o.life == 'u' {
		if o.coupon != c.coupon {
			return wallet.OrderHasCoupon
		}
		if o.amount != c.amount {
			return wallet.OrderDiffers
		}
		return wallet.Repeated
	}
	if m.revoked[c.coupon] {
		return wallet.Revoked
	}
	if holder != nil && holder.life == 'u' {
		return wallet.Used
	}
	if holder != nil && holder.until > now {
		return wallet.ReservedElsewhere
	}
	if m.expires[c.coupon] <= now {
		return wallet.Expired
	}
	if c.amount < modelMinimum {
		return wallet.BelowMinimum
	}
	if holder != nil {
		holder.life = 'b'
	}
	*o = modelOrder{life: 'r', coupon: c.coupon, amount: c.amount, until: now + c.ttl}
	return wallet.Done
}

func (m *model) operate(now int64, c op) wallet.Code {
	holder, revoked := m.holder(c.coupon), &m.revoked[c.coupon]
	used := holder != nil && holder.life == 'u'
	switch {
	case c.verb == wallet.Reissue && !*revoked:
		return wallet.Repeated
	case c.verb == wallet.Reissue:
		*revoked, m.freed[c.coupon] = false, false
	case c.verb == wallet.Revoke && *revoked:
		return wallet.Repeated
	case *revoked:
		return wallet.Revoked
	case used:
		return wallet.Used
	case c.verb == wallet.Extend && c.expires <= m.expires[c.coupon]:
		return wallet.Repeated
	case c.verb == wallet.Extend:
		m.expires[c.coupon] = c.expires
	case holder != nil && holder.until > now:
		return wallet.ReservedElsewhere
	default:
		if holder != nil {
			holder.life = 'b'
		}
		*revoked, m.freed[c.coupon] = true, c.freeSeat
	}
	return wallet.Done
}

func (m *model) status(c int) coupon.UserCouponStatus {
	holder := m.holder(c)
	switch {
	case m.revoked[c]:
		return coupon.CouponRevoked
	case holder == nil:
		return coupon.CouponIssued
	case holder.life == 'u':
		return coupon.CouponUsed
	default:
		return coupon.CouponReserved
	}
}

var modelStates = map[byte]coupon.OrderState{'r': coupon.OrderReserved, 'u': coupon.OrderUsed,
	'b': coupon.OrderReleased, 'f': coupon.OrderRefunded}

func ops() *rapid.Generator[op] {
	return rapid.Custom(func(t *rapid.T) op {
		verbs := []wallet.Verb{wallet.Reserve, wallet.Reserve, wallet.Reserve, wallet.Confirm, wallet.Confirm,
			wallet.Release, wallet.Refund, wallet.Read, wallet.Revoke, wallet.Reissue, wallet.Extend}
		return op{
			verb:     rapid.SampledFrom(verbs).Draw(t, "verb"),
			order:    rapid.IntRange(0, modelOrders-1).Draw(t, "order"),
			coupon:   rapid.IntRange(0, modelCoupons-1).Draw(t, "coupon"),
			amount:   rapid.SampledFrom([]int64{12_000, 12_000, 12_000, 12_000, 13_000, 999}).Draw(t, "amount"),
			ttl:      rapid.SampledFrom([]int64{0, 3, 10}).Draw(t, "ttl"),
			expires:  rapid.Int64Range(1, 60).Draw(t, "expires"),
			freeSeat: rapid.Bool().Draw(t, "free seat"),
		}
	})
}

// inMemory is the tables of user_coupon, coupon_order and coupon_log without a server.
type inMemory struct {
	coupons [modelCoupons]wallet.UserCoupon
	orders  map[string]wallet.Order
	log     [modelCoupons][]wallet.Entry
	freed   [modelCoupons]bool
}

var epoch = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

func at(n int64) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

func orderID(n int) string { return fmt.Sprint("O-", n) }

const modelDiscount = 5_000

func (w *inMemory) call(now int64, c op) wallet.Code {
	order := w.orders[orderID(c.order)]
	call := wallet.Call{Verb: c.verb, Actor: "test", OrderID: orderID(c.order), User: 1, AmountWon: c.amount,
		TTL:       time.Duration(c.ttl) * time.Second,
		ExpiresAt: at(c.expires), FreeSeat: c.freeSeat}
	place := c.coupon
	switch c.verb {
	case wallet.Confirm, wallet.Release, wallet.Refund, wallet.Read:
		place = max(int(order.UserCoupon)-1, 0)
	case wallet.Reserve:
	default:
		order, call.OrderID = wallet.Order{}, ""
	}
	was := w.coupons[place]
	d := wallet.Decide(wallet.Facts{Now: at(now),
		Discount: coupon.Discount{DiscountWon: modelDiscount, MinimumWon: modelMinimum}, Coupon: was,
		Order: order, Holder: w.orders[was.OrderID], FreedSeat: w.freed[place]}, call)
	w.coupons[place] = d.Coupon
	w.log[place] = append(w.log[place], d.Entries...)
	for _, o := range []wallet.Order{d.Lost, d.Order} {
		if o.ID != "" {
			w.orders[o.ID] = o
		}
	}
	if d.Code == wallet.Done && c.verb == wallet.Revoke {
		w.freed[place] = c.freeSeat
	}
	return d.Code
}

// replay returns the row of a coupon that follows from its log. It fails at a step that cannot follow the one before.
func replay(t require.TestingT, expires time.Time,
	log []wallet.Entry) (status coupon.UserCouponStatus, order string, end time.Time, used, seats int) {
	status, end = coupon.CouponIssued, expires
	for i, e := range log {
		step := fmt.Sprintf("step %d: %s of order %q after %s of order %q", i+1, e.Kind, e.OrderID, status, order)
		switch e.Kind {
		case coupon.LogReserved:
			require.Equal(t, coupon.CouponIssued, status, step)
			require.LessOrEqual(t, e.DiscountWon, e.AmountWon, step)
			status, order = coupon.CouponReserved, e.OrderID
		case coupon.LogUsed:
			require.Equal(t, []any{coupon.CouponReserved, order}, []any{status, e.OrderID}, step)
			status, used = coupon.CouponUsed, used+1
		case coupon.LogReleased:
			require.Equal(t, []any{coupon.CouponReserved, order}, []any{status, e.OrderID}, step)
			status, order = coupon.CouponIssued, ""
		case coupon.LogRefunded:
			require.Equal(t, []any{coupon.CouponUsed, order}, []any{status, e.OrderID}, step)
			status, order, used = coupon.CouponIssued, "", used-1
		case coupon.LogRevoked:
			require.Equal(t, coupon.CouponIssued, status, step)
			status = coupon.CouponRevoked
		case coupon.LogReissued:
			require.Equal(t, coupon.CouponRevoked, status, step)
			status = coupon.CouponIssued
		case coupon.LogExtended:
			require.True(t, e.ExpiresAt.After(end), step)
			end = e.ExpiresAt
		default:
			require.Fail(t, step)
		}
		seats += e.Seats
	}
	return status, order, end, used, seats
}

const modelExpires = 20

func TestModelOfDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, m, now := &inMemory{orders: map[string]wallet.Order{}}, &model{}, int64(0)
		for c := range w.coupons {
			m.expires[c] = modelExpires
			w.coupons[c] = wallet.UserCoupon{ID: coupon.UserCouponID(c + 1), Coupon: 7, User: 1,
				Status: coupon.CouponIssued, ExpiresAt: at(modelExpires)}
		}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.SampledFrom([]int64{0, 0, 0, 1, 3, 7}).Draw(t, "time")
			c := ops().Draw(t, "call")
			require.Equal(t, m.apply(now, c), w.call(now, c), "%v at %d", c, now)
			w.requireSame(t, m)
		}
	})
}

func (w *inMemory) requireSame(t require.TestingT, m *model) {
	for i, u := range w.coupons {
		require.Equal(t, m.status(i), u.Status)
		require.Equal(t, at(m.expires[i]), u.ExpiresAt)
		require.EqualValues(t, len(w.log[i]), u.Seq)
		status, order, end, used, seats := replay(t, at(modelExpires), w.log[i])
		require.Equal(t, []any{u.Status, u.OrderID, u.ExpiresAt}, []any{status, order, end})
		require.Equal(t, u.Status == coupon.CouponUsed, used == 1)
		require.Equal(t, m.revoked[i] && m.freed[i], seats == 1)
	}
	for i, o := range m.orders {
		have, known := w.orders[orderID(i)]
		require.Equal(t, o.life != 0, known)
		if !known {
			continue
		}
		require.Equal(t, modelStates[o.life], have.State)
		require.Equal(t, []int64{int64(o.coupon + 1), o.amount, modelDiscount},
			[]int64{int64(have.UserCoupon), have.AmountWon, have.DiscountWon})
		require.Equal(t, at(o.until), have.ReservedUntil)
		require.Equal(t, have.Has(), w.coupons[o.coupon].OrderID == have.ID, "both tables agree")
	}
}
