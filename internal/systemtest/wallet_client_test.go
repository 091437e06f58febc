package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// shopClient is a checkout that places one order after another for one user. No other client knows its orders.
type shopClient struct {
	*shop
	number int
	user   coupon.UserID
	http   *http.Client
	orders []*shopOrder
}

// shopOrder is an order as its client knows it. Without being told, its reservation may have been lost.
type shopOrder struct {
	id     string
	user   coupon.UserID
	amount int64

	coupon coupon.CouponID // the last that it had
	state  coupon.OrderState
	until  time.Time // end of its last reservation
	lost   bool      // a reservation had no answer, once at least
	told   []fact    // what its answers say, in order
}

// fact is a change of an order, as in coupon_log.
type fact struct {
	kind             coupon.LogKind
	coupon           coupon.CouponID
	user             coupon.UserID
	amount, discount int64
	at               time.Time // of an answer: known of a reservation only
	ranOut           bool      // of an answer: another order or an operator took the coupon
}

type shopAnswer struct {
	status      int
	Code        string
	OrderID     string
	CouponID    coupon.CouponID
	UserID      coupon.UserID
	State       coupon.OrderState
	AmountWon   int64
	DiscountWon int64

	ReservedUntil, Now time.Time
}

func (c *shopClient) keepOrdering(over context.Context) {
	for over.Err() == nil && !c.T.Failed() {
		o := &shopOrder{id: fmt.Sprintf("주문/%d:%d", c.number, len(c.orders)), user: c.user, amount: 10_000 +
			c.chance.Int64N(50_000)}
		if len(c.orders) > 0 && c.chance.IntN(8) == 0 {
			o = c.orders[max(0, len(c.orders)-1-c.chance.IntN(10))]
		} else {
			c.orders = append(c.orders, o)
		}
		c.process(over, o)
	}
}

// process makes calls about an order. It leaves some reservations to run out. A used coupon is refunded, unless the
// test is over.
func (c *shopClient) process(over context.Context, o *shopOrder) {
	for step := 0; over.Err() == nil && !c.T.Failed(); step++ {
		pause(over, c.upTo(10*time.Millisecond))
		draw := c.chance.IntN(100)
		switch o.state {
		case coupon.OrderReserved:
			switch {
			case draw < 50:
				c.confirm(o)
			case draw < 75:
				c.release(o)
			case draw < 90:
				c.reserve(o, o.coupon)
			case draw < 95:
				c.refund(o)
			default:
				return
			}
		case coupon.OrderUsed:
			switch {
			case draw < 70:
				c.refund(o)
			case draw < 80:
				c.confirm(o)
			case draw < 90:
				c.release(o)
			default:
				c.reserve(o, o.coupon)
			}
		default:
			if step > 4 {
				return
			}
			switch {
			case draw < 15:
				c.reserveBoth(o)
			case draw < 75:
				c.reserve(o, c.coupons[c.chance.IntN(len(c.coupons))])
			case draw < 83:
				c.confirm(o)
			case draw < 91:
				c.release(o)
			default:
				c.refund(o)
			}
		}
	}
}

// call makes a call until it is answered, at one pod or the other.
func (c *shopClient) call(o *shopOrder, method, path string, body string) (a shopAnswer, repeated bool) {
	for ; ; repeated = true {
		a, err := c.ask(method, "/v1/orders/"+url.PathEscape(o.id)+"/coupon"+path, body)
		switch {
		case err == nil && a.status < http.StatusInternalServerError:
			c.answered.Add(1)
			return a, repeated
		case err == nil && a.Code != "UNAVAILABLE", c.ctx.Err() != nil:
			c.T.Errorf("%s %s%s: %v, %+v", method, o.id, path, err, a)
			return a, repeated
		}
		c.unanswered.Add(1)
		pause(c.ctx, c.upTo(50*time.Millisecond))
	}
}

func (c *shopClient) ask(method, path, body string) (a shopAnswer, err error) {
	address := c.pods[c.chance.IntN(shopPods)].address.Load().(string)
	request, err := http.NewRequestWithContext(c.ctx, method, "http://"+address+path, bytes.NewBufferString(body))
	if err != nil {
		return a, err
	}
	request.GetBody = nil // the client repeats, not its transport
	request.Header.Set("Authorization", "Bearer "+shopKey)
	response, err := c.http.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && len(content) > 0 {
		var document struct {
			shopAnswer
			Status int // of a problem
		}
		err = json.Unmarshal(content, &document)
		a = document.shopAnswer
	}
	a.status = response.StatusCode
	return a, err
}

func (c *shopClient) put(o *shopOrder, id coupon.CouponID) (a shopAnswer, repeated bool) {
	return c.call(o, http.MethodPut, "", fmt.Sprintf(`{"couponId":%d,"userId":%d,"amountWon":%d}`, id, o.user,
		o.amount))
}

func (c *shopClient) reserve(o *shopOrder, id coupon.CouponID) {
	a, repeated := c.put(o, id)
	o.lost = o.lost || repeated
	if !o.reserved(a, id, repeated) {
		c.surprised("reserve", o, a)
	}
}

// reserveBoth asks for two coupons with one order at once. Two answers that it has one are true only one after the
// other.
func (c *shopClient) reserveBoth(o *shopOrder) {
	var answers [2]shopAnswer
	var repeated [2]bool
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { answers[i], repeated[i] = c.put(o, c.coupons[i]) })
	}
	asking.Wait()
	o.lost = o.lost || repeated[0] || repeated[1]
	ordered := []int{0, 1}
	if answers[1].ok() && (!answers[0].ok() || answers[1].Now.Before(answers[0].Now)) {
		ordered = []int{1, 0}
	}
	first, second := answers[ordered[0]], answers[ordered[1]]
	if second.ok() && second.Now.Before(first.ReservedUntil) {
		c.surprised("reserve with two coupons", o, answers)
	}
	for _, i := range ordered {
		a, good := answers[i], false
		switch {
		case a.Code == "ORDER_HAS_COUPON":
			good = first.ok() || o.lost
		case i == ordered[1] && first.ok() && a.taken():
			good = true
		default:
			good = o.reserved(a, c.coupons[i], repeated[i])
		}
		if !good {
			c.surprised("reserve with two coupons", o, answers)
		}
	}
}

// taken reports that another order has the coupon, or nobody.
func (a shopAnswer) taken() bool {
	return a.Code == "RESERVED_ELSEWHERE" || a.Code == "USED" || a.Code == "REVOKED"
}

func (a shopAnswer) ok() bool { return a.status == http.StatusOK || a.status == http.StatusCreated }

// reserved notes the answer to a reservation, and reports whether it may be.
func (o *shopOrder) reserved(a shopAnswer, id coupon.CouponID, repeated bool) bool {
	switch {
	case o.state == coupon.OrderRefunded:
		return a.Code == "ORDER_REFUNDED"
	case o.state == coupon.OrderUsed:
		return a.status == http.StatusOK && a.State == coupon.OrderUsed && o.same(a, o.coupon)
	case a.taken() && o.state == coupon.OrderReserved:
		o.note(fact{kind: coupon.LogReleased, ranOut: true})
		return true
	case a.taken():
		return true
	case !o.same(a, id) || a.State != coupon.OrderReserved:
		return false
	case a.ReservedUntil.Equal(o.until):
		return a.status == http.StatusOK && o.state == coupon.OrderReserved
	}
	o.coupon, o.until = id, a.ReservedUntil
	o.note(fact{kind: coupon.LogReserved, coupon: id, discount: a.DiscountWon, at: a.ReservedUntil.Add(-shopTTL)})
	return a.status == http.StatusCreated || a.status == http.StatusOK && repeated
}

// same reports whether an answer is about the order with this coupon.
func (o *shopOrder) same(a shopAnswer, id coupon.CouponID) bool {
	return a.ok() && a.OrderID == o.id && a.CouponID == id && a.UserID == o.user && a.AmountWon == o.amount
}

// note notes a change that an answer tells. Without a coupon, it is that of the reservation.
func (o *shopOrder) note(f fact) {
	if f.coupon == 0 {
		f.coupon, f.discount = o.coupon, o.told[len(o.told)-1].discount
	}
	f.user, f.amount = o.user, o.amount
	o.told = append(o.told, f)
	o.state = coupon.OrderState(f.kind)
}

func (c *shopClient) confirm(o *shopOrder) {
	a, _ := c.call(o, http.MethodPost, "/confirm", "")
	good := false
	switch o.state {
	case coupon.OrderReserved:
		switch {
		case o.same(a, o.coupon) && a.State == coupon.OrderUsed:
			o.note(fact{kind: coupon.LogUsed})
			good = true
		case a.Code == "RESERVATION_LOST":
			o.note(fact{kind: coupon.LogReleased, ranOut: true})
			good = true
		}
	case coupon.OrderUsed:
		good = o.same(a, o.coupon) && a.State == coupon.OrderUsed
	case coupon.OrderReleased:
		good = a.Code == "RESERVATION_LOST"
	case coupon.OrderRefunded:
		good = a.Code == "ORDER_REFUNDED"
	default:
		good = a.Code == "ORDER_NOT_FOUND" || o.lost && a.Code == "RESERVATION_LOST"
	}
	if !good {
		c.surprised("confirm", o, a)
	}
}

func (c *shopClient) release(o *shopOrder) {
	a, _ := c.call(o, http.MethodDelete, "", "")
	good := false
	switch o.state {
	case coupon.OrderReserved:
		good = o.same(a, o.coupon) && a.State == coupon.OrderReleased
		o.note(fact{kind: coupon.LogReleased})
	case coupon.OrderUsed:
		good = a.Code == "USED"
	case coupon.OrderReleased:
		good = a.status == http.StatusOK && a.State == coupon.OrderReleased
	case coupon.OrderRefunded:
		good = a.Code == "ORDER_REFUNDED"
	default:
		good = a.status == http.StatusNoContent || o.lost && a.State == coupon.OrderReleased
	}
	if !good {
		c.surprised("release", o, a)
	}
}

func (c *shopClient) refund(o *shopOrder) {
	a, _ := c.call(o, http.MethodPost, "/refund", "")
	good := false
	switch o.state {
	case coupon.OrderUsed:
		good = o.same(a, o.coupon) && a.State == coupon.OrderRefunded
		o.note(fact{kind: coupon.LogRefunded})
	case coupon.OrderRefunded:
		good = o.same(a, o.coupon) && a.State == coupon.OrderRefunded
	case coupon.OrderReserved, coupon.OrderReleased:
		good = a.Code == "NOT_USED"
	default:
		good = a.Code == "ORDER_NOT_FOUND" || o.lost && a.Code == "NOT_USED"
	}
	if !good {
		c.surprised("refund", o, a)
	}
}

func (c *shopClient) surprised(verb string, o *shopOrder, got any) {
	c.T.Errorf("%s: order %+v\ngot %+v", verb, *o, got)
}

// check compares what the client was told about an order with the log. The log has more than that if a reservation ran
// out: its end, or all of a reservation whose answer was lost.
func (o *shopOrder) check(t testing.TB, log []fact, state coupon.OrderState) {
	t.Helper()
	told, last, unknown := o.told, fact{}, false
	for _, f := range log {
		ranOut := f.kind == coupon.LogReleased && last.kind == coupon.LogReserved && !f.at.Before(last.at.Add(shopTTL))
		switch {
		case len(told) > 0 && told[0].is(f) && !unknown:
			require.True(t, ranOut || !told[0].ranOut, "order %s lost a live reservation: %+v", o.id, log)
			told = told[1:]
		case ranOut:
			unknown = false
		case f.kind == coupon.LogReserved && o.lost &&
			slices.Contains([]coupon.LogKind{"", coupon.LogReleased}, last.kind):
			unknown = true
		default:
			require.Fail(t, "nobody was told", "order %s: %+v of %+v, told %+v", o.id, f, log, o.told)
		}
		last = f
	}
	require.Empty(t, told, "order %s: not in the log %+v", o.id, log)
	require.False(t, unknown, "order %s: %+v", o.id, log)
	require.Equal(t, coupon.OrderState(last.kind), state, "order %s", o.id)
}

func (f fact) is(logged fact) bool {
	return f.kind == logged.kind && f.coupon == logged.coupon && f.user == logged.user && f.amount == logged.amount &&
		f.discount == logged.discount && (f.at.IsZero() || f.at.Equal(logged.at))
}
