package candidates

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/coupon"
)

// pod is one process of the API.
type pod struct {
	*Store
	*batch.Batcher[Receipt]
	metrics *prometheus.Registry
	on      *wire
	calls   *callsAtOnce
}

// client does one thing after the other.
type client struct {
	*story
	id     int
	chance *rand.Rand
}

func (c *client) act() {
	at := c.coupons[c.chance.IntN(len(c.coupons))]
	user := coupon.UserID(1 + c.chance.IntN(c.users))
	switch dice := c.chance.IntN(100); {
	case dice < 70:
		for !c.apply(at.id, user) && c.chance.IntN(3) > 0 { // who is not answered mostly asks again, of whoever it may be
		}
	case dice < 90:
		c.look(at.id, user)
	case dice < 96:
		c.read(at.id)
	default:
		c.settle(at)
	}
	if c.chance.IntN(3) == 0 {
		c.late.arrive()
	}
	if c.jumps && c.chance.IntN(3) == 0 {
		c.pod().on.clock.Store(jumpsTo[c.chance.IntN(len(jumpsTo))].UnixMicro())
	}
}

func (c *client) pod() *pod { return c.pods[c.chance.IntN(len(c.pods))] }

// apply says whether it was answered.
func (c *client) apply(couponID coupon.CouponID, user coupon.UserID) bool {
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	if c.chance.IntN(20) == 0 {
		giveUp() // what it asked for goes on
	}
	call := c.clock.Add(1)
	receipt, err := c.pod().Batcher.Apply(ctx, couponID, user)
	var not batch.NotSent
	if errors.As(err, &not) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unasked++
		return true // a breaker rests for longer than a history takes
	}
	c.note(call, asked{coupon: couponID, act: toApply, user: user}, err,
		told{code: string(receipt.Code), arrival: receipt.Arrival, position: receipt.Position})
	return err == nil
}

func (c *client) look(couponID coupon.CouponID, user coupon.UserID) {
	call := c.clock.Add(1)
	status, err := c.pod().Status(context.Background(), couponID, user)
	if err == nil {
		c.note(call, asked{coupon: couponID, act: toLook, user: user}, nil,
			told{code: string(status.Standing), arrival: status.Arrival, position: status.Position})
	}
}

func (c *client) read(couponID coupon.CouponID) (entries []coupon.Application) {
	call := c.clock.Add(1)
	entries, _, err := c.pod().Page(context.Background(), couponID, coupon.Cursor{}, forever)
	if err == nil {
		c.note(call, asked{coupon: couponID, act: toRead}, nil, told{spots: spotsOf(entries)})
	}
	return entries
}

// settle takes the first away as a settlement does: sometimes others have meanwhile.
func (c *client) settle(at *fixture) {
	entries := c.read(at.id)
	if len(entries) == 0 {
		return
	}
	entries = entries[:1+c.chance.IntN(min(5, len(entries)))]
	call := c.clock.Add(1)
	removed, err := c.pod().Remove(context.Background(), at.id, forever, coupon.MarkIssued, entries)
	c.note(call, asked{coupon: at.id, act: toSettle, spots: spotsOf(entries)}, err, told{removed: removed})
}

// note writes down what has just been answered. After an error nothing was: the operation may still happen.
func (c *client) note(call int64, in asked, err error, out told) {
	at := c.clock.Add(1)
	if err != nil {
		at, out = never, told{lost: true}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: out, Return: at})
}

// forever is after all arrivals.
var forever = noon.Add(time.Hour)

func spotsOf(entries []coupon.Application) (spots []spot) {
	for _, e := range entries {
		spots = append(spots, spot{e.User(), e.Arrival})
	}
	return spots
}
