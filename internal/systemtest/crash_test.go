package systemtest

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
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/verify"
)

// crashed is an error after which a run retries nothing, like a process that has died.
type crashed struct{}

func (crashed) Error() string { return "crashed" }
func (crashed) Setup() bool   { return true }

// crashingStore is a store that fails from one of its calls on, before or after that call has been carried out.
type crashingStore struct {
	*candidates.Store
	last  int // the call of the crash
	after bool
	calls int
}

func (s *crashingStore) do(call func() error) error {
	s.calls++
	if s.calls > s.last || s.calls == s.last && !s.after {
		return crashed{}
	}
	if err := call(); err != nil {
		return err
	}
	if s.calls == s.last {
		return crashed{}
	}
	return nil
}

func call1[A any](s *crashingStore, call func() (A, error)) (a A, err error) {
	err = s.do(func() (err error) {
		a, err = call()
		return err
	})
	return a, err
}

func call2[A, B any](s *crashingStore, call func() (A, B, error)) (a A, b B, err error) {
	err = s.do(func() (err error) {
		a, b, err = call()
		return err
	})
	return a, b, err
}

func (s *crashingStore) Page(ctx context.Context, id coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	return call2(s, func() ([]coupon.Application, coupon.Cursor, error) { return s.Store.Page(ctx, id, after, cutoff) })
}

func (s *crashingStore) Remove(ctx context.Context, id coupon.CouponID, closes time.Time, mark coupon.Mark,
	settled []coupon.Application) (int64, error) {
	return call1(s, func() (int64, error) { return s.Store.Remove(ctx, id, closes, mark, settled) })
}

func (s *crashingStore) Review(ctx context.Context, id coupon.CouponID, run coupon.RunID, at time.Time,
	failed []coupon.Failure) (int64, error) {
	return call1(s, func() (int64, error) { return s.Store.Review(ctx, id, run, at, failed) })
}

func (s *crashingStore) Renew(ctx context.Context, id coupon.CouponID, closes time.Time) error {
	return s.do(func() error { return s.Store.Renew(ctx, id, closes) })
}

func (s *crashingStore) Look(ctx context.Context, id coupon.CouponID,
	known coupon.Known) (coupon.Look, error) {
	return call1(s, func() (coupon.Look, error) { return s.Store.Look(ctx, id, known) })
}

func (s *crashingStore) SetSold(ctx context.Context, id coupon.CouponID, sold bool) error {
	return s.do(func() error { return s.Store.SetSold(ctx, id, sold) })
}

func (s *crashingStore) Sweep(ctx context.Context, id coupon.CouponID, closes time.Time) (bool, error) {
	return call1(s, func() (bool, error) { return s.Store.Sweep(ctx, id, closes) })
}

func (s *crashingStore) UnderReview(ctx context.Context, id coupon.CouponID,
	after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error) {
	return call2(s, func() ([]coupon.Application, coupon.Cursor, error) { return s.Store.UnderReview(ctx, id, after) })
}

func (s *crashingStore) Release(ctx context.Context, id coupon.CouponID, held []coupon.Application) (int64, error) {
	return call1(s, func() (int64, error) { return s.Store.Release(ctx, id, held) })
}

// crash interrupts a run at one of its calls to Redis.
func (m *machine) crash(t *rapid.T) {
	o, ok := m.drawAny(t)
	switch rapid.IntRange(0, 3).Draw(t, "instead") {
	case 2:
		o, ok = m.drawNight(t, rapid.Bool().Draw(t, "a new night")), true
	case 3:
		o, ok = m.drawImmediate(t), true
	}
	if !ok {
		return
	}
	store := &crashingStore{Store: m.Store, last: rapid.IntRange(1, 24).Draw(t, "at call"),
		after: rapid.Bool().Draw(t, "after")}
	settler := m.settler()
	settler.Line, settler.Door = store, store
	m.interrupt(t, o, func() {
		if _, err := m.executeBy(settler, o); err != nil && !errors.As(err, new(crashed)) {
			t.Log(err)
			m.fail(t, "the run failed for another reason than its crash")
		}
		t.Logf("the run made %d calls, the crash is at call %d, after it was carried out: %t", store.calls, store.last,
			store.after)
	})
}

// processIsKilled kills a process of the program at one of its requests to MySQL or Redis.
func (m *machine) processIsKilled(t *rapid.T) {
	o, ok := m.drawAny(t)
	if !ok {
		return
	}
	o.Canaries = nil // the program would retry the other entries, too
	at, after := rapid.IntRange(0, 50).Draw(t, "at request"), rapid.Bool().Draw(t, "after")
	m.interrupt(t, o, func() {
		if code := m.killAt(o, at, after); code == -1 {
			t.Logf("its process was killed at request %d, after it was carried out: %t", at, after)
		} else {
			t.Logf("its process ended before that with exit code %d", code)
		}
	})
}

// killAt kills the program at a request, counted from the first one that reads a coupon: connecting takes a varying
// number.
func (m *machine) killAt(o order, at int, after bool) (code int) {
	started := make(chan struct{})
	var cmd *exec.Cmd
	var proxies []*faultproxy.Proxy
	kill := func() {
		_ = cmd.Process.Kill() // the process may have ended
		for _, p := range proxies {
			p.Down()
		}
	}
	first := 0
	proxies, proxied := m.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		<-started
		if first == 0 && turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte("FROM coupon")) {
			first = turn.Number
		}
		switch {
		case first == 0 || turn.Number < first+at:
			return faultproxy.Pass()
		case after && turn.Number == first+at:
			return faultproxy.DropReply(kill)
		default:
			return faultproxy.DropRequest(kill)
		}
	})
	cmd = exec.CommandContext(m.T.Context(), testenv.Build(m.T, "./cmd/settle"),
		append(append(o.args(), "--parallel=1"), m.Flags(proxied.Job)...)...)
	require.NoError(m.T, cmd.Start())
	close(started)
	_ = cmd.Wait()
	for _, p := range proxies {
		p.Down()
	}
	return cmd.ProcessState.ExitCode()
}

// drawAny draws an order of an operator; ok is false for a decision about no DLQ entry.
func (m *machine) drawAny(t *rapid.T) (o order, ok bool) {
	switch rapid.IntRange(0, 5).Draw(t, "verb") {
	case 4:
		return m.drawReview(t, retrying)
	case 5:
		return m.drawReview(t, dropping)
	default:
		return m.drawRun(t, rapid.Bool().Draw(t, "accept gaps")), true
	}
}

// interrupt executes an order that may not complete. Its effects must be a part of the effects of the complete order.
// The model adopts that state, so that anything may happen before the next run. If the order is repeated immediately,
// the result must be as without the interruption.
func (m *machine) interrupt(t *rapid.T, o order, execute func()) {
	before := map[*couponModel][]verify.Code{}
	for _, c := range m.coupons {
		before[c] = c.findings(m.users)
	}
	last := m.lastRun()
	execute()
	run, cutoff := m.lastRun(), coupon.ArrivalAt(o.Cutoff)
	if run == last {
		run = 0
	} else {
		var at time.Time
		require.NoError(m.T, m.DB.QueryRow("SELECT cutoff FROM settlement_run WHERE id = ?", run).Scan(&at))
		cutoff = coupon.ArrivalAt(at)
	}
	undisturbed := map[*couponModel]state{}
	for _, c := range o.chosen {
		undisturbed[c] = m.adopt(t, c, o, run, cutoff)
		for _, code := range c.findings(m.users) {
			if code != verify.CleanUpToDo && !slices.Contains(before[c], code) {
				m.fail(t, "after the crash verify would find %s in %s", code, c.name)
			}
		}
	}
	m.compare(t, "after the crash")
	m.verify(t)
	if o.verb != settling && o.verb != issuing || !rapid.Bool().Draw(t, "repeat immediately") {
		return
	}
	t.Log("the order is repeated")
	if len(o.Coupons) == 0 {
		o.chosen = m.due() // the interrupted run may have finalised a coupon
	}
	m.execute(t, o, m.inThisProcess)
	for c, want := range undisturbed {
		want.markAgain(c.state)
		if withoutCrash(want).describe(m.name) != withoutCrash(c.state).describe(m.name) {
			t.Logf("without a crash %s would be:\n%s", c.name, want.describe(m.name))
			m.fail(t, "the crash changed the result of %s", c.name)
		}
	}
}

func (m *machine) lastRun() coupon.RunID {
	return jajeongtest.Column[coupon.RunID](m.Deployment, "SELECT COALESCE(MAX(id), 0) FROM settlement_run")[0]
}

// adopt gives the model the state that an interrupted run has left, and returns the state after the complete run.
func (m *machine) adopt(t *rapid.T, c *couponModel, o order, run coupon.RunID, cutoff coupon.Arrival) state {
	after := func(do func(c *couponModel)) state {
		copied := *c
		copied.state = c.clone()
		do(&copied)
		return copied.state
	}
	heldBack := false
	before := c.clone()
	done := after(func(c *couponModel) { heldBack = o.apply(c, run, cutoff, m.users) })
	permitted := []state{before, done}
	if o.verb == retrying && o.concerns(c) {
		permitted = append(permitted, after(o.release))
	}
	if o.verb != dropping && o.concerns(c) && !heldBack {
		permitted = append(permitted, after(func(c *couponModel) { c.issue(run, cutoff, m.users, o.kind()) }))
	}
	left := m.readState(c.id)
	if wrong := left.unexpected(permitted, run); wrong != "" {
		t.Logf("%s was:\n%sand would have become:\n%sbut is:\n%s", c.name, before.describe(m.name),
			done.describe(m.name), left.describe(m.name))
		m.fail(t, "the crashed run left %s in %s", wrong, c.name)
	}
	if left.describe(m.name) != before.describe(m.name) {
		c.settledTo = max(c.settledTo, cutoff)
	}
	if left.writtenOff != before.writtenOff {
		c.backup = nil
	}
	c.state = left
	return done
}

// unexpected names a part of the state that none of the permitted states has. The first permitted state is the one
// before the run, the second the one after it.
func (s state) unexpected(permitted []state, run coupon.RunID) string {
	before, done := permitted[0], permitted[1]
	some := func(as func(state) bool) bool { return slices.ContainsFunc(permitted, as) }
	for a, is := range s.applications {
		switch {
		case !some(func(p state) bool { _, there := p.applications[a]; return there }):
			return "an application that no user made"
		case !some(func(p state) bool { return p.applications[a].inMySQL() == is.inMySQL() }):
			return "an outcome that is neither the old nor the new one"
		case !some(func(p state) bool { return p.applications[a].inRedis() == is.inRedis() }):
			return "an application in a wrong place"
		}
	}
	switch {
	case len(s.applications) != len(before.applications):
		return "a lost application"
	case s.issuedCount() != before.issuedCount() && s.issuedCount() != done.issuedCount():
		return "a part of the issued coupons"
	case s.soldOut != before.soldOut && s.soldOut != done.soldOut:
		return "a wrong answer to new applications"
	case s.finalised && !done.finalised:
		return "a finalised coupon"
	case s.writtenOff != before.writtenOff && s.writtenOff != done.writtenOff:
		return "another gap written off"
	case len(s.anomalies) > 0:
		return s.anomalies[0]
	}
	for user := range s.markedIssued {
		if !before.markedIssued[user] && !done.holds(user) {
			return "a user who is answered ALREADY_ISSUED without a coupon"
		}
	}
	for pending := range s.pendingCleanup {
		if _, was := before.pendingCleanup[pending]; !was && pending != run {
			return "the pending clean-up of another run"
		}
	}
	return ""
}

func (is record) inMySQL() record {
	is.place, is.cause, is.refused, is.night = absent, "", 0, 0
	return is
}

func (is record) inRedis() record { return record{place: is.place, cause: is.cause} }

// withoutCrash removes the parts that a crash may change: the deciding run, the cause of a retryable entry, and how
// often its row was refused, which may hold the entry.
func withoutCrash(s state) state {
	s = s.clone()
	for a, is := range s.applications {
		is.run, is.refused, is.night = 0, 0, 0
		if is.place == held && is.cause == "BAD_ROW" {
			is.place = retryable
		}
		if is.place == retryable {
			is.cause = ""
		}
		s.applications[a] = is
	}
	return s
}
