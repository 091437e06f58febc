package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/runmetrics"
	"github.com/jajeong/jajeong/internal/settle"
)

// settleSomething settles now or what came before somebody, everything that is due or one coupon.
func (m *machine) settleSomething(t *rapid.T) { m.settles(t, m.draw(t, false), m.byItself) }

func (m *machine) settleAcceptingGaps(t *rapid.T) { m.settles(t, m.draw(t, true), m.byItself) }

func (m *machine) settleByTheProgram(t *rapid.T) {
	m.settles(t, m.draw(t, rapid.Bool().Draw(t, "accept gaps")), m.byTheProgram)
	m.verifyByTheProgram(t)
}

// order is what a run is asked for.
type order struct {
	settle.Order
	verb   verbOf
	users  []coupon.UserID // whom a person decides about; none is everybody under review
	chosen []*modelCoupon
}

type verbOf string

const (
	toSettle verbOf = "settle"
	toRetry  verbOf = "retry"
	toDrop   verbOf = "drop"
)

// args are how a person asks the program for it.
func (o order) args() (args []string) {
	switch o.verb {
	case toSettle:
		args = []string{"run", "--cutoff=" + o.Cutoff.Format(time.RFC3339Nano)}
	case toRetry:
		args = []string{"dlq", "retry", "--cutoff=now"}
	case toDrop:
		args = []string{"dlq", "drop"}
	}
	for _, id := range o.Coupons {
		args = append(args, fmt.Sprintf("--coupon=%d", id))
	}
	for _, user := range o.members() {
		args = append(args, "--user="+user)
	}
	if o.AcceptGap {
		args = append(args, "--accept-gap")
	}
	return append(args, "--operator="+o.Operator, "--reason="+o.Reason, "--output=json")
}

func (o order) members() (members []string) {
	for _, user := range o.users {
		members = append(members, user.Member())
	}
	return members
}

// give gives the order to a settler.
func (o order) give(s *settle.Settler, w *world) (*settle.Report, error) {
	switch o.verb {
	case toRetry:
		return s.Retry(w.t.Context(), o.Order.Coupons[0], o.Order, o.members())
	case toDrop:
		return s.Drop(w.t.Context(), o.Order.Coupons[0], o.Order, o.members())
	default:
		return s.RunOnce(w.t.Context(), o.Order)
	}
}

// inModel does it in the model, and says whether the coupon is held.
func (o order) inModel(c *modelCoupon, run coupon.RunID, cutoff coupon.Arrival, users map[coupon.UserID]person) (isHeld bool) {
	switch o.verb {
	case toRetry:
		o.release(c)
	case toDrop:
		c.drop(run, o.users)
		return false
	}
	return c.settle(run, cutoff, users, o.kind())
}

func (o order) kind() kind {
	k := kind{acceptGap: o.AcceptGap, isRetry: o.verb == toRetry, isNight: o.Trigger == coupon.Cron}
	if o.Canaries != nil {
		k.canaries = o.users
	}
	return k
}

func (o order) release(c *modelCoupon) {
	if len(o.users) > 0 {
		c.release(o.users)
	} else {
		c.release(c.underReview())
	}
}

// drawDecision is a person's decision about some who are under review for one coupon; ok is false when nobody is.
func (m *machine) drawDecision(t *rapid.T, verb verbOf) (o order, ok bool) {
	c := m.someCoupon(t)
	n := rapid.IntRange(0, 2).Draw(t, "how many")
	o = order{verb: verb, chosen: []*modelCoupon{c}, Order: settle.Order{
		Trigger: coupon.Manual, Cutoff: m.now(), Coupons: []coupon.CouponID{c.id}, Operator: "lee", Reason: "model",
	}}
	reviewed := c.underReview()
	if n == 0 && verb == toRetry {
		t.Logf("retry everybody under review for %s", c.name)
		return o, true
	}
	for _, user := range reviewed[:min(max(1, n), len(reviewed))] {
		t.Logf("%s %s of %s", verb, m.name(user), c.name)
		o.users = append(o.users, user)
	}
	if verb == toRetry && len(o.users) > 0 && rapid.Bool().Draw(t, "as canaries") {
		t.Log("as canaries: nobody else who is under review is tried")
		o.Canaries = o.members()
	}
	return o, len(o.users) > 0
}

func (m *machine) retry(t *rapid.T) { m.decides(t, toRetry) }

func (m *machine) drop(t *rapid.T) { m.decides(t, toDrop) }

func (m *machine) decides(t *rapid.T, verb verbOf) {
	o, ok := m.drawDecision(t, verb)
	if !ok {
		m.mustRefuse(t, verb)
		return
	}
	how := m.byItself
	if rapid.IntRange(0, 4).Draw(t, "by the program") == 4 && o.Canaries == nil { // by which a retry of all would follow
		how = m.byTheProgram
	}
	m.settles(t, o, how)
}

// mustRefuse: nobody can decide about an application that is not under review.
func (m *machine) mustRefuse(t *rapid.T, verb verbOf) {
	c, user := m.someCoupon(t), m.someUser(t)
	if slices.Contains(c.underReview(), user) {
		return
	}
	t.Logf("%s %s of %s, who is not under review", verb, m.name(user), c.name)
	o := order{verb: verb, users: []coupon.UserID{user}, Order: settle.Order{
		Trigger: coupon.Manual, Cutoff: m.now(), Coupons: []coupon.CouponID{c.id}, Operator: "lee", Reason: "model",
	}}
	if _, err := o.give(m.inProcess(), m.world); mysqltx.ClassOf(err) != coupon.Setup || err == nil {
		m.disagree(t, "nobody refused to %s somebody who is not under review", verb)
	}
	m.compare(t, "after what was refused")
}

func (m *machine) draw(t *rapid.T, acceptGap bool) order {
	o := order{verb: toSettle, chosen: m.due(), Order: settle.Order{
		Trigger: coupon.Manual, Cutoff: m.now(), AcceptGap: acceptGap, Operator: "kim", Reason: "model",
	}}
	words := "settle"
	if rapid.Bool().Draw(t, "one coupon") {
		c := m.someCoupon(t)
		o.chosen, o.Coupons = []*modelCoupon{c}, []coupon.CouponID{c.id}
		words += " " + c.name
	}
	if rapid.Bool().Draw(t, "earlier") && len(o.chosen) > 0 {
		o.Cutoff, words = m.earlier(t, o.Cutoff, o.chosen[0], words)
	}
	if acceptGap {
		words += ", accepting gaps"
	}
	t.Log(words)
	return o
}

// earlier is the instant at which somebody arrived who is still to be settled, and who is not before that. Arrivals ahead
// of the clock cannot be settled yet.
func (m *machine) earlier(t *rapid.T, now time.Time, c *modelCoupon, words string) (time.Time, string) {
	line := slices.DeleteFunc(c.before(coupon.ArrivalAt(now)), func(a applied) bool {
		return c.line[a].outcome != undecided && c.line[a].outcome != notSelected
	})
	if len(line) == 0 {
		return now, words
	}
	n := rapid.IntRange(0, len(line)-1).Draw(t, "before")
	words += fmt.Sprintf(" what came before %s's application for %s", m.name(line[n].user), c.name)
	return line[n].arrival.Time().UTC(), words
}

// due are the coupons that a run without --coupon settles.
func (m *machine) due() (due []*modelCoupon) {
	for _, c := range m.coupons {
		if !c.finalised {
			due = append(due, c)
		}
	}
	return due
}

func (m *machine) settles(t *rapid.T, o order, how func(*rapid.T, order) (settle.Report, int)) {
	var foreseen *settle.Report
	if o.verb == toSettle && rapid.Bool().Draw(t, "previewed") {
		foreseen = m.previews(t, &o)
	}
	report, code := how(t, o)
	m.foreseen(t, foreseen, report)
	m.settleModel(t, o, report, code)
	m.compare(t, "after the settlement")
	m.knock(t)
	m.verify(t)
	m.explains(t, m.base+1+coupon.UserID(m.steps%modelUsers)) // one each time: all of them would cost more than the settlement
}

// previews looks what the order would do, which changes nothing, and pins it.
func (m *machine) previews(t *rapid.T, o *order) *settle.Report {
	order := o.Order
	order.List = true
	m.unclean = map[coupon.CouponID]bool{}
	for _, id := range jajeongtest.Column[coupon.CouponID](m.d(), "SELECT DISTINCT coupon_id FROM settlement WHERE cleaned_at IS NULL") {
		m.unclean[id] = true
	}
	report, err := m.inProcess().Preview(m.world.t.Context(), order)
	if err != nil {
		t.Log(err)
		m.disagree(t, "the preview failed")
	}
	m.compare(t, "after the preview")
	o.Expect = map[coupon.CouponID]string{}
	for _, c := range report.Coupons {
		if c.Preview != nil && c.Error == "" {
			o.Expect[c.Coupon] = c.Preview.Digest
		}
	}
	return report
}

// foreseen: the run did what its preview said, and the preview names as many as it counts.
func (m *machine) foreseen(t *rapid.T, preview *settle.Report, report settle.Report) {
	if preview == nil {
		return
	}
	for i, would := range preview.Coupons {
		did := report.Coupons[i]
		if p := would.Preview; would.Error == "" && p != nil {
			rejected := 0
			for _, n := range p.Causes {
				rejected += n
			}
			if len(p.Winners) != would.Issued || len(p.Rejected) != would.UnderReview+would.Rejected || rejected != len(p.Rejected) {
				m.disagree(t, "the preview names %d and %d, and counts %d issued and %d rejected", len(p.Winners), len(p.Rejected), would.Issued, would.UnderReview+would.Rejected)
			}
		}
		would.Preview, would.Millis, did.Millis, did.Earlier = nil, 0, 0, nil // a run alone looks for an earlier one
		if did.UnderReview > 0 && did.Read-would.Read <= did.UnderReview {
			would.Read = did.Read // whose row is refused stands in the DLQ when the run walks the rest, and may be read once more
		}
		if would.Read > did.Read && m.unclean[would.Coupon] {
			would.Read = did.Read // whom a run that died has issued still stood there
		}
		a, _ := json.Marshal(would)
		b, _ := json.Marshal(did)
		if string(a) != string(b) {
			m.disagree(t, "the preview said\n%s\nand the run did\n%s", a, b)
		}
	}
}

// byTheProgram runs settle as a person does; opening its connections costs ten times what a small settlement costs.
func (m *machine) byTheProgram(t *rapid.T, o order) (report settle.Report, code int) {
	code, stdout, stderr := m.world.settle(o.args()...)
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Logf("%s%s", stdout, stderr)
		m.disagree(t, "the run brings no report")
	}
	return report, code
}

// byItself runs within this process, on connections that are open.
func (m *machine) byItself(t *rapid.T, o order) (settle.Report, int) {
	report, err := o.give(m.inProcess(), m.world)
	if err != nil {
		t.Log(err)
		m.disagree(t, "the run failed")
	}
	if err := worst(report.Classes()); err != nil {
		return *report, exitCode(err)
	}
	return *report, exitDone
}

func (m *machine) inProcess() *settle.Settler {
	return &settle.Settler{Config: settle.Config{
		DB: mysqltx.New(m.db), Catalog: catalog.Snapshot{Store: m.store}, Clock: m.store,
		Line: m.store, Door: m.store, DLQ: m.store, Auditor: &ledger.Ledger{Store: m.store, Users: m.directory}, Users: m.directory,
		Zone: time.UTC, Now: time.Now, Logger: zap.NewNop(), Observer: runmetrics.New(time.Now), Grace: time.Second, Parallel: 1,
	}}
}

// settleModel settles in the model and compares what the run says of itself.
func (m *machine) settleModel(t *rapid.T, o order, report settle.Report, code int) {
	anyHeld := false
	if len(report.Coupons) != len(o.chosen) {
		m.disagree(t, "the run dealt with %d coupons, want %d", len(report.Coupons), len(o.chosen))
	}
	for i, c := range o.chosen {
		result := report.Coupons[i]
		gap := c.gap()
		isHeld := o.inModel(c, report.Run, coupon.ArrivalAt(report.Cutoff), m.users)
		anyHeld = anyHeld || isHeld
		if o.verb != toDrop && max(0, result.Gap) != int64(gap) {
			m.disagree(t, "the run finds a gap of %d for %s, want %d", result.Gap, c.name, gap)
		}
		if (result.Status == coupon.HeldBack) != isHeld {
			m.disagree(t, "%s is %s, want it held: %t", c.name, result.Status, isHeld)
		}
		if isHeld {
			continue
		}
		given, not, already := c.decidedBy(report.Run)
		if result.Issued != given || result.NotSelected != not || result.AlreadyIssued != already {
			m.disagree(t, "the run says of %s that %d were issued, %d not selected and %d held it before, want %d, %d and %d",
				c.name, result.Issued, result.NotSelected, result.AlreadyIssued, given, not, already)
		}
		if result.SeatsLeft != c.free() {
			m.disagree(t, "the run says that %d seats of %s are left, want %d", result.SeatsLeft, c.name, c.free())
		}
	}
	if want := map[bool]int{false: exitDone, true: exitInvariant}[anyHeld]; code != want {
		m.disagree(t, "the run exits %d, want %d", code, want)
	}
}
