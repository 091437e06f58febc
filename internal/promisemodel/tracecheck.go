package promisemodel

import (
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Check plays the trace against the rules of the contract, and returns the first violation. Who may be lost for good,
// because only pods that died knew them, is excepted.
func (t Trace) Check() error {
	c := newChecker(t)
	for i, e := range t.Events {
		if err := e.check(c); err != nil {
			return fmt.Errorf("event %d, %T: %w", i, e, err)
		}
	}
	return c.ends()
}

// checker is the state of the model that a trace tells.
type checker struct {
	Trace
	told    map[coupon.UserID][]Told // in the whole trace
	lowest  map[coupon.UserID]coupon.Arrival
	unheard map[coupon.UserID]bool // had a request without an answer, in the whole trace

	pods    map[int]*memory
	db      Committed // as last seen
	rows    byUser    // lowest arrivals of db.Rows
	settled map[coupon.UserID][]Outcome
	redis   Looked
	quiet   bool                   // no restore was due at redis, and nothing was lost since
	lost    bool                   // something, since db
	exposed map[coupon.Answer]bool // were lost before they were in the journal
	handed  []handing
	mayLack map[coupon.UserID]bool // only pods that died knew them
}

type byUser map[coupon.UserID]coupon.Arrival

type handing struct {
	coupon.Answer
	epoch string
}

// memory is what a pod must remember.
type memory struct {
	told     []Told
	dead     bool
	known    map[coupon.Answer]*remembered
	epoch    string // of its last comparison
	required map[coupon.Answer]bool
}

type remembered struct {
	epoch  string
	until  time.Time // zero: the journal was not seen to have it
	handed bool
}

func newChecker(t Trace) *checker {
	c := &checker{Trace: t, told: map[coupon.UserID][]Told{}, lowest: byUser{}, unheard: map[coupon.UserID]bool{},
		pods: map[int]*memory{}, rows: byUser{}, mayLack: map[coupon.UserID]bool{},
		exposed: map[coupon.Answer]bool{}}
	for _, e := range t.Events {
		switch e := e.(type) {
		case Told:
			c.told[e.User] = append(c.told[e.User], e)
			byUser(c.lowest).add(e.Answer)
		case Unanswered:
			c.unheard[e.User] = true
		}
	}
	return c
}

func (p byUser) add(a coupon.Answer) {
	if at, ok := p[a.User]; !ok || a.Arrival < at {
		p[a.User] = a.Arrival
	}
}

// has reports whether a user is there at this arrival or an earlier one.
func (p byUser) has(a coupon.Answer) bool {
	at, ok := p[a.User]
	return ok && at <= a.Arrival
}

func (c *checker) pod(n int) *memory {
	if c.pods[n] == nil {
		c.pods[n] = &memory{known: map[coupon.Answer]*remembered{}}
	}
	return c.pods[n]
}

// wasGiven demands that somebody told the user this arrival.
func (c *checker) wasGiven(where string, a coupon.Answer) error {
	for _, t := range c.told[a.User] {
		if t.Arrival == a.Arrival {
			return nil
		}
	}
	if a.User == 0 || c.unheard[a.User] {
		return nil
	}
	return fmt.Errorf("user %d is %s at arrival %d, which nobody was told", a.User, where, a.Arrival)
}

func (t Told) check(c *checker) error {
	p := c.pod(t.Pod)
	if t.Epoch == "" {
		return fmt.Errorf("user %d was told %d, and the pod's memory does not know", t.User, t.Arrival)
	}
	for _, before := range p.told {
		if t.New && before.At.Before(t.Asked) && before.Arrival >= t.Arrival {
			return fmt.Errorf("arrival %d is not above %d, which the pod told before", t.Arrival, before.Arrival)
		}
	}
	stood, ok := c.redis.Places[t.User]
	if ok && c.quiet && c.redis.Epoch == t.Epoch && c.redis.At.Before(t.Asked) && stood < t.Arrival {
		return fmt.Errorf("user %d stood at %d, and was told %d in the same epoch", t.User, stood, t.Arrival)
	}
	p.told = append(p.told, t)
	if p.known[t.Answer] == nil && !c.db.covers(t.Epoch, t.Arrival) {
		p.known[t.Answer] = &remembered{epoch: t.Epoch}
	}
	c.lacks(t.User)
	return nil
}

func (m Committed) covers(epoch string, a coupon.Arrival) bool {
	return m.Epoch == epoch && a <= m.UpTo
}

func (Unanswered) check(*checker) error { return nil }

func (d Died) check(c *checker) error {
	p := c.pod(d.Pod)
	p.dead = true
	for _, t := range p.told {
		c.lacks(t.User)
	}
	return nil
}

// lacks notes whether only pods that died know a user.
func (c *checker) lacks(user coupon.UserID) {
	first := coupon.Answer{User: user, Arrival: c.lowest[user]}
	for _, p := range c.pods {
		for _, t := range p.told {
			if t.Answer == first && !p.dead {
				return
			}
		}
	}
	if !c.rows.has(first) && !c.accountsFor(first) {
		c.mayLack[user] = true
	}
}

// accountsFor reports whether MySQL has an outcome of this application.
func (c *checker) accountsFor(a coupon.Answer) bool {
	for _, o := range c.settled[a.User] {
		if a.Arrival < o.Below {
			return true
		}
	}
	return false
}

func (Lost) check(c *checker) error {
	c.quiet, c.lost, c.handed = false, true, nil
	return nil
}

// A pod compares its whole memory with a new server. What it may have forgotten is not demanded.
func (m Compared) check(c *checker) error {
	p := c.pod(m.Pod)
	if p.epoch != m.Epoch {
		p.epoch, p.required = m.Epoch, map[coupon.Answer]bool{}
		for a, k := range p.known {
			until := k.until
			if until.IsZero() {
				until = c.db.At.Add(c.Keep)
			}
			p.required[a] = k.epoch != m.Epoch && !k.handed && m.At.Before(until)
		}
	}
	handed := map[int]bool{}
	for _, i := range m.HandedOver {
		handed[i] = true
	}
	for i, a := range m.Answers {
		delete(p.required, a)
		if err := c.wasGiven("remembered", a); err != nil {
			return err
		}
		if k := p.known[a]; k != nil { // nil: the user is being told
			*k = remembered{epoch: m.Epoch, handed: handed[i]}
		}
		if handed[i] {
			c.handed = append(c.handed, handing{a, m.Epoch})
		}
	}
	return nil
}

// Nobody leaves the journal, and everybody who was told up to up_to in its epoch is in it, or settled.
func (m Committed) check(c *checker) error {
	before := c.db
	c.exposes(m.At)
	now := map[coupon.Answer]bool{}
	c.rows, c.settled = byUser{}, map[coupon.UserID][]Outcome{}
	for _, row := range m.Rows {
		now[row] = true
		c.rows.add(row)
		if err := c.wasGiven("in the journal", row); err != nil {
			return err
		}
	}
	for _, row := range before.Rows {
		if !now[row] {
			return fmt.Errorf("user %d at arrival %d has left the journal", row.User, row.Arrival)
		}
	}
	issued := 0
	for _, o := range m.Outcomes {
		c.settled[o.User] = append(c.settled[o.User], o)
		if err := c.wasGiven(o.Kind, o.Answer); err != nil {
			return err
		}
		if o.Kind == "ISSUED" {
			issued++
		}
	}
	if issued > c.Seats {
		return fmt.Errorf("%d users have one of %d seats", issued, c.Seats)
	}
	c.db = m
	return c.copied(before)
}

// exposes notes who was told before a loss that has just happened, and is not in the journal. No copy can read them.
func (c *checker) exposes(at time.Time) {
	if !c.lost {
		return
	}
	c.lost = false
	for _, all := range c.told {
		for _, t := range all {
			if !t.Asked.After(at) && !c.rows.has(t.Answer) && !c.accountsFor(t.Answer) {
				c.exposed[t.Answer] = true
			}
		}
	}
}

func (c *checker) copied(before Committed) error {
	for user, all := range c.told {
		for _, t := range all {
			if c.db.covers(t.Epoch, t.Arrival) && !c.rows.has(t.Answer) && !c.accountsFor(t.Answer) &&
				!c.exposed[t.Answer] {
				return fmt.Errorf("the journal is complete up to %d, and lacks user %d at arrival %d",
					c.db.UpTo, user, t.Arrival)
			}
		}
	}
	for _, p := range c.pods {
		for a, k := range p.known {
			if k.until.IsZero() && c.db.covers(k.epoch, a.Arrival) {
				k.until = before.At.Add(c.Keep) // no pod can have read it before
			}
		}
	}
	return nil
}

// If no restore is due, and no clean-up is to come, everybody in the journal, and whom pods have handed over, stands or
// is settled.
func (l Looked) check(c *checker) error {
	c.redis, c.quiet = l, !c.db.Pending && !c.due(l)
	for user, at := range l.Places {
		if err := c.wasGiven("standing", coupon.Answer{User: user, Arrival: at}); err != nil {
			return err
		}
	}
	if !c.quiet {
		return nil
	}
	for _, row := range c.db.Rows {
		if !byUser(l.Places).has(row) && !c.accountsFor(row) {
			return fmt.Errorf("no restore is due, and user %d of the journal, arrival %d, is nowhere",
				row.User, row.Arrival)
		}
	}
	for _, h := range c.handed {
		if h.epoch == l.Epoch && !byUser(l.Places).has(h.Answer) && !c.accountsFor(h.Answer) {
			return fmt.Errorf("no restore is due, and user %d, handed over at arrival %d, is nowhere",
				h.User, h.Arrival)
		}
	}
	return nil
}

// due reports whether a restore is due. Who is settled and still stands counts once.
func (c *checker) due(l Looked) bool {
	accounted := c.db.WrittenOff + int64(len(c.db.Outcomes)) + l.Strangers
	for user, at := range l.Places {
		both := false
		for _, o := range c.settled[user] {
			both = both || at <= o.Arrival
		}
		if !both {
			accounted++
		}
	}
	other := c.db.Epoch != "" && c.db.Epoch != l.Epoch
	return !strings.HasPrefix(l.Epoch, l.Server+":") || !l.Restored || other || l.Returned > 0 || c.db.Asked > 0 ||
		l.Accepted-accounted > l.Left
}

// ends checks what must be true in the end.
func (c *checker) ends() error {
	for n, p := range c.pods {
		for a, required := range p.required {
			if required && !p.dead {
				return fmt.Errorf("pod %d did not compare user %d at arrival %d in epoch %s",
					n, a.User, a.Arrival, p.epoch)
			}
		}
	}
	last := coupon.Arrival(0)
	for _, o := range c.db.Outcomes {
		if o.Kind == "ISSUED" {
			last = max(last, o.Arrival)
		}
	}
	for user, at := range c.lowest {
		if err := c.passedOver(user, at, last); err != nil && !c.mayLack[user] {
			return err
		}
	}
	return nil
}

// passedOver demands that a user who was told an arrival before the last seat has one, or a reason not to have it.
func (c *checker) passedOver(user coupon.UserID, at, last coupon.Arrival) error {
	settled := c.redis.InDLQ[user]
	for _, o := range c.settled[user] {
		settled = settled || o.Kind != "NOT_SELECTED"
		if o.Kind == "ISSUED" && o.Arrival > at {
			return fmt.Errorf("user %d was told %d, and has a seat at %d", user, at, o.Arrival)
		}
	}
	if at < last && !settled {
		return fmt.Errorf("user %d was told %d, and is passed over: the last seat is at %d", user, at, last)
	}
	return nil
}
