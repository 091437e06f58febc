package cli

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// crashed is an error after which a run tries nothing again, as a process that is dead.
type crashed struct{}

func (crashed) Error() string { return "crashed" }
func (crashed) Setup() bool   { return true }

// mortal is a line that a process stops talking to at one of its calls, before or after that has been carried out.
type mortal struct {
	*candidates.Store
	last  int // the call at which it dies
	after bool
	calls int
}

func (d *mortal) do(call func() error) error {
	d.calls++
	if d.calls > d.last || d.calls == d.last && !d.after {
		return crashed{}
	}
	if err := call(); err != nil {
		return err
	}
	if d.calls == d.last {
		return crashed{}
	}
	return nil
}

func (d *mortal) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) (page []coupon.Application, next coupon.Cursor, err error) {
	err = d.do(func() error {
		page, next, err = d.Store.Page(ctx, couponID, after, cutoff)
		return err
	})
	return page, next, err
}

func (d *mortal) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark, settled []coupon.Application) (int64, error) {
	var n int64
	err := d.do(func() (err error) {
		n, err = d.Store.Remove(ctx, couponID, closes, mark, settled)
		return err
	})
	return n, err
}

func (d *mortal) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failed []coupon.Failure) (n int64, err error) {
	err = d.do(func() error {
		n, err = d.Store.Review(ctx, couponID, run, at, failed)
		return err
	})
	return n, err
}

func (d *mortal) Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error {
	return d.do(func() error { return d.Store.Renew(ctx, couponID, closes) })
}

func (d *mortal) Fence(ctx context.Context, couponID coupon.CouponID, cutoff time.Time, promised coupon.Promise) (wait, forPods time.Duration, err error) {
	err = d.do(func() error {
		wait, forPods, err = d.Store.Fence(ctx, couponID, cutoff, promised)
		return err
	})
	return wait, forPods, err
}

func (d *mortal) SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error {
	return d.do(func() error { return d.Store.SetSold(ctx, couponID, sold) })
}

func (d *mortal) Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (swept bool, err error) {
	err = d.do(func() error {
		swept, err = d.Store.Sweep(ctx, couponID, closes)
		return err
	})
	return swept, err
}

func (d *mortal) UnderReview(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor) (page []coupon.Application, next coupon.Cursor, err error) {
	err = d.do(func() error {
		page, next, err = d.Store.UnderReview(ctx, couponID, after)
		return err
	})
	return page, next, err
}

func (d *mortal) Release(ctx context.Context, couponID coupon.CouponID, held []coupon.Application) (n int64, err error) {
	err = d.do(func() error {
		n, err = d.Store.Release(ctx, couponID, held)
		return err
	})
	return n, err
}

// crash is a run that ends at one of its calls to Redis.
func (m *machine) crash(t *rapid.T) {
	o, ok := m.drawAny(t)
	if rapid.IntRange(0, 2).Draw(t, "of a night") == 2 {
		o, ok = m.drawNight(t, rapid.Bool().Draw(t, "a new night")), true
	}
	if !ok {
		return
	}
	d := &mortal{Store: m.store, last: rapid.IntRange(1, 24).Draw(t, "at call"), after: rapid.Bool().Draw(t, "after")}
	s := m.inProcess()
	s.Line, s.Door, s.DLQ = d, d, d
	m.breaksOff(t, o, func() {
		if _, err := o.give(s, m.world); err != nil && !errors.As(err, new(crashed)) {
			t.Log(err)
			m.disagree(t, "the run failed of something else than its crash")
		}
		if d.calls < d.last || d.calls == d.last && !d.after {
			t.Logf("it ended before its crash, with %d calls", d.calls)
		} else {
			t.Logf("it crashed at call %d, which was carried out: %t", d.last, d.after)
		}
	})
}

// processIsKilled is a run in a process of its own that is killed at one of its requests to MySQL or Redis.
func (m *machine) processIsKilled(t *rapid.T) {
	o, ok := m.drawAny(t)
	if !ok {
		return
	}
	o.Canaries = nil // which the program would have followed by a retry of all
	at, after := rapid.IntRange(0, 50).Draw(t, "at request"), rapid.Bool().Draw(t, "after")
	m.breaksOff(t, o, func() {
		if code := m.killed(o, at, after); code == -1 {
			t.Logf("its process was killed at request %d, which was carried out: %t", at, after)
		} else {
			t.Logf("it ended before its process was killed, with exit code %d", code)
		}
	})
}

// killed runs the program until that request, counted from the first that names a coupon: what connecting takes is not
// always the same.
func (m *machine) killed(o order, at int, after bool) (code int) {
	started := make(chan struct{})
	var cmd *exec.Cmd
	var wires []*faultproxy.Proxy
	kill := func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		for _, w := range wires {
			w.Down()
		}
	}
	begun := 0
	wires, servers := m.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		<-started
		if begun == 0 && turn.Proxy == toMySQL && bytes.Contains(turn.Request, []byte("FROM coupon")) {
			begun = turn.Number
		}
		switch {
		case begun == 0 || turn.Number < begun+at:
			return faultproxy.Pass()
		case after && turn.Number == begun+at:
			return faultproxy.DropReply(kill)
		default:
			return faultproxy.DropRequest(kill)
		}
	})
	cmd = exec.CommandContext(m.t.Context(), testenv.Build(m.t, "./cmd/settle"), append(append(o.args(), "--parallel=1"), servers...)...)
	require.NoError(m.t, cmd.Start())
	close(started)
	_ = cmd.Wait() // its state says it all
	for _, w := range wires {
		w.Down()
	}
	return cmd.ProcessState.ExitCode()
}

func (m *machine) drawAny(t *rapid.T) (o order, ok bool) {
	switch rapid.IntRange(0, 5).Draw(t, "verb") {
	case 4:
		return m.drawDecision(t, toRetry)
	case 5:
		return m.drawDecision(t, toDrop)
	default:
		return m.draw(t, rapid.Bool().Draw(t, "accept gaps")), true
	}
}

// breaksOff: whatever a run has done that did not come to its end must be part of what it was to do. The model goes on
// with that, so that anything may happen before the next run; when that comes at once, everything must be as if there
// had been no crash.
func (m *machine) breaksOff(t *rapid.T, o order, run func()) {
	found := map[*modelCoupon][]ledger.Code{}
	for _, c := range m.coupons {
		found[c] = c.findings(m.users)
	}
	last := m.lastRun()
	run()
	id, cutoff := m.lastRun(), coupon.ArrivalAt(o.Cutoff)
	if id == last {
		id = 0
	} else {
		var at time.Time
		require.NoError(m.t, m.db.QueryRow("SELECT cutoff FROM settlement_run WHERE id = ?", id).Scan(&at))
		cutoff = coupon.ArrivalAt(at)
	}
	undisturbed := map[*modelCoupon]facts{}
	for _, c := range o.chosen {
		undisturbed[c] = m.adopt(t, c, o, id, cutoff)
		for _, code := range c.findings(m.users) {
			if code != ledger.CleanUpToDo && !slices.Contains(found[c], code) {
				m.disagree(t, "after the crash verify would call %s violated: %s", c.name, code)
			}
		}
	}
	m.compare(t, "after the crash")
	m.verify(t)
	if o.verb != toSettle || !rapid.Bool().Draw(t, "run again at once") {
		return
	}
	t.Log("the same again")
	if len(o.Coupons) == 0 {
		o.chosen = m.due() // the crash may have come behind the end of a coupon
	}
	m.settles(t, o, m.byItself)
	for c, want := range undisturbed {
		if alike(want).told(m.name) != alike(c.facts).told(m.name) {
			t.Logf("without a crash %s would be:\n%s", c.name, want.told(m.name))
			m.disagree(t, "the crash made a difference to %s", c.name)
		}
	}
}

func (m *machine) lastRun() (id coupon.RunID) {
	m.t.Helper()
	require.NoError(m.t, m.db.QueryRow("SELECT COALESCE(MAX(id), 0) FROM settlement_run").Scan(&id))
	return id
}

// adopt takes what a crashed run has done over into the model, and returns what it was to do.
func (m *machine) adopt(t *rapid.T, c *modelCoupon, o order, run coupon.RunID, cutoff coupon.Arrival) facts {
	at := func(do func(c *modelCoupon)) facts {
		then := *c
		then.facts = c.clone()
		do(&then)
		return then.facts
	}
	isHeld := false
	before := c.clone()
	done := at(func(c *modelCoupon) { isHeld = o.inModel(c, run, cutoff, m.users) })
	way := []facts{before, done}
	if o.verb == toRetry {
		way = append(way, at(o.release))
	}
	if o.verb != toDrop && !isHeld {
		way = append(way, at(func(c *modelCoupon) { c.give(run, cutoff, m.users, o.kind()) }))
	}
	seen := m.see(c.id)
	if wrong := seen.beyond(way, run); wrong != "" {
		t.Logf("%s was:\n%sand would have become:\n%sbut is:\n%s", c.name, before.told(m.name), done.told(m.name), seen.told(m.name))
		m.disagree(t, "the crashed run left of %s: %s", c.name, wrong)
	}
	if seen.told(m.name) != before.told(m.name) {
		c.settledTo = max(c.settledTo, cutoff)
	}
	if seen.writtenOff != before.writtenOff {
		c.backup = nil
	}
	c.facts = seen
	return done
}

// beyond says what of these facts is nowhere on the way that a run was to go: from its first facts over the last, which
// come second, to others in between.
func (f facts) beyond(way []facts, run coupon.RunID) string {
	before, done := way[0], way[1]
	was := func(as func(facts) bool) bool { return slices.ContainsFunc(way, as) }
	for a, is := range f.line {
		switch {
		case !was(func(then facts) bool { _, there := then.line[a]; return there }):
			return "an application that nobody made"
		case !was(func(then facts) bool { return then.line[a].decided() == is.decided() }):
			return "an outcome that is neither the old nor the new"
		case !was(func(then facts) bool { return then.line[a].standing() == is.standing() }):
			return "an application where it neither was nor is to be"
		}
	}
	switch {
	case len(f.line) != len(before.line):
		return "a lost application"
	case f.issuedCount() != before.issuedCount() && f.issuedCount() != done.issuedCount():
		return "a part of the coupons"
	case f.soldOut != before.soldOut && f.soldOut != done.soldOut:
		return "a door that says the wrong thing"
	case f.finalised && !done.finalised:
		return "a finalised coupon"
	case f.writtenOff != before.writtenOff && f.writtenOff != done.writtenOff:
		return "another gap accepted"
	case len(f.odd) > 0:
		return f.odd[0]
	}
	for told := range f.toldIssued {
		if !before.toldIssued[told] && !done.holds(told) {
			return "a user told ALREADY_ISSUED who holds nothing"
		}
	}
	for unclean := range f.unclean {
		if _, was := before.unclean[unclean]; !was && unclean != run {
			return "another run to clean up"
		}
	}
	return ""
}

// decided is the part of a fact that the database keeps.
func (is fact) decided() fact {
	is.stands, is.cause, is.refused, is.night = absent, "", 0, 0
	return is
}

// standing is the part of a fact that Redis keeps.
func (is fact) standing() fact { return fact{stands: is.stands, cause: is.cause} }

// alike leaves out what a crash may make a difference to: which run decided, why an application is to be tried again, and
// how often its row was refused, which may lead to its being held.
func alike(f facts) facts {
	f = f.clone()
	for a, is := range f.line {
		is.run, is.refused, is.night = 0, 0, 0
		if is.stands == held && is.cause == "BAD_ROW" {
			is.stands = retryable
		}
		if is.stands == retryable {
			is.cause = ""
		}
		f.line[a] = is
	}
	return f
}
