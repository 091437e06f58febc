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
	calls   *overlaps
}

// client performs one operation after the other.
type client struct {
	*scenario
	id     int
	chance *rand.Rand
}

func (c *client) act() {
	at := c.coupons[c.chance.IntN(len(c.coupons))]
	user := coupon.UserID(1 + c.chance.IntN(c.users))
	switch dice := c.chance.IntN(100); {
	case dice < 70:
		for !c.apply(at.id, user) && c.chance.IntN(3) > 0 { // after an error it mostly repeats, perhaps at another pod
		}
	case dice < 90:
		c.lookUp(at.id, user)
	case dice < 94:
		c.read(at.id)
	case dice < 97:
		c.count(at.id)
		if c.chance.IntN(4) == 0 {
			c.switchServers(at)
		}
	default:
		c.settle(at)
	}
	if c.chance.IntN(3) == 0 {
		c.delayed.releaseOldest()
	}
	if c.jumps && c.chance.IntN(3) == 0 {
		c.pod().on.clock.Store(jumpsTo[c.chance.IntN(len(jumpsTo))].UnixMicro())
	}
}

func (c *client) pod() *pod { return c.pods[c.chance.IntN(len(c.pods))] }

// apply reports whether a response came.
func (c *client) apply(couponID coupon.CouponID, user coupon.UserID) bool {
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	if c.chance.IntN(20) == 0 {
		giveUp() // the call continues
	}
	call := c.clock.Add(1)
	receipt, err := c.pod().Batcher.Apply(ctx, couponID, user)
	var not batch.NotSent
	if errors.As(err, &not) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unsent++
		return true // the breaker stays open for longer than a history
	}
	c.note(call, input{coupon: couponID, act: toApply, user: user, limit: c.lineLimit}, err,
		output{code: string(receipt.Code), arrival: receipt.Arrival, position: receipt.Position})
	return err == nil
}

func (c *client) lookUp(couponID coupon.CouponID, user coupon.UserID) {
	call := c.clock.Add(1)
	w, err := c.pod().Watch(context.Background(), couponID, 0, user)
	if err == nil {
		c.note(call, input{coupon: couponID, act: toLookUp, user: user}, nil, outputOf(w.Users[0]))
	}
}

// outputOf is the standing of a user whom only applying and settlements have moved.
func outputOf(f Found) output {
	switch {
	case f.MarkedIssued:
		return output{code: string(coupon.StandingIssued)}
	case len(f.Entries) > 0:
		return output{code: string(coupon.StandingPending), arrival: f.Entries[0].Arrival, position: f.Position}
	default:
		return output{code: string(coupon.StandingNone)}
	}
}

func (c *client) read(couponID coupon.CouponID) (entries []coupon.Application) {
	call := c.clock.Add(1)
	entries, _, err := c.pod().Page(context.Background(), couponID, coupon.Cursor{}, forever)
	if err == nil {
		c.note(call, input{coupon: couponID, act: toRead}, nil, output{entries: queueEntries(entries)})
	}
	return entries
}

func (c *client) count(couponID coupon.CouponID) {
	call := c.clock.Add(1)
	l, err := c.pod().Look(context.Background(), couponID, coupon.Known{})
	if err == nil {
		c.note(call, input{coupon: couponID, act: toCount}, nil,
			output{counted: counted{l.Since, l.Accepted, l.Waiting, l.Issued, l.Last}})
	}
}

// switchServers makes the state that of another server, which has lost nothing.
func (c *client) switchServers(at *fixture) {
	call := c.clock.Add(1)
	err := c.server.HSet(context.Background(), at.state, "run_id", "of the server before").Err()
	c.note(call, input{coupon: at.id, act: toSwitch}, err, output{})
}

// settle removes the first entries as a settlement does; another client may have removed some meanwhile.
func (c *client) settle(at *fixture) {
	entries := c.read(at.id)
	if len(entries) == 0 {
		return
	}
	entries = entries[:1+c.chance.IntN(min(5, len(entries)))]
	call := c.clock.Add(1)
	removed, err := c.pod().Remove(context.Background(), at.id, forever, coupon.MarkIssued, entries)
	c.note(call, input{coupon: at.id, act: toSettle, entries: queueEntries(entries)}, err, output{removed: removed})
}

// note records an operation and its output. After an error the operation may still take effect.
func (c *client) note(call int64, in input, err error, out output) {
	at := c.clock.Add(1)
	if err != nil {
		at, out = never, output{lost: true}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: out, Return: at})
}

// forever is after all arrivals.
var forever = noon.Add(time.Hour)

func queueEntries(applications []coupon.Application) (entries []queueEntry) {
	for _, e := range applications {
		entries = append(entries, queueEntry{e.User(), e.Arrival})
	}
	return entries
}
