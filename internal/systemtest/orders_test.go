package systemtest

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

// order is an order for a settler, with its meaning for the model.
type order struct {
	settle.Order
	verb    verb
	members []coupon.UserID // the DLQ entries of a retry or a drop; none: all entries
	chosen  []*couponModel
}

type verb string

const (
	settling verb = "settle"
	retrying verb = "retry"
	dropping verb = "drop"
	issuing  verb = "issue now"
)

// args are the arguments of the program for the order.
func (o order) args() (args []string) {
	switch o.verb {
	case settling:
		args = []string{"run", "--cutoff=" + o.Cutoff.Format(time.RFC3339Nano)}
	case retrying:
		args = []string{"dlq", "retry", "--cutoff=now"}
	case dropping:
		args = []string{"dlq", "drop"}
	}
	for _, id := range o.Coupons {
		args = append(args, fmt.Sprintf("--coupon=%d", id))
	}
	for _, member := range o.names() {
		args = append(args, "--user="+member)
	}
	if o.AcceptGap {
		args = append(args, "--accept-gap")
	}
	return append(args, "--operator="+o.Operator, "--reason="+o.Reason, "--output=json")
}

func (o order) names() (names []string) {
	for _, user := range o.members {
		names = append(names, user.Member())
	}
	return names
}

// executeBy executes the order.
func (m *machine) executeBy(s *settle.Settler, o order) (*settle.Report, error) {
	switch o.verb {
	case retrying:
		return s.Retry(m.T.Context(), o.Coupons[0], o.Order, o.names())
	case dropping:
		return s.Drop(m.T.Context(), o.Coupons[0], o.Order, o.names())
	case issuing:
		return m.issueBy(s, o)
	default:
		return s.RunOnce(m.T.Context(), o.Order)
	}
}

// apply executes the order in the model. heldBack reports that the coupon was held.
func (o order) apply(c *couponModel, run coupon.RunID, cutoff coupon.Arrival, known users) (heldBack bool) {
	if !o.concerns(c) {
		return false
	}
	switch o.verb {
	case retrying:
		o.release(c)
	case dropping:
		c.drop(run, o.members)
		return false
	}
	return c.settle(run, cutoff, known, o.kind())
}

func (o order) kind() runKind {
	k := runKind{acceptGap: o.AcceptGap, isRetry: o.verb == retrying, isNight: o.Trigger == coupon.Cron,
		isImmediate: o.verb == issuing}
	if o.Canaries != nil {
		k.canaries = o.members
	}
	return k
}

func (o order) release(c *couponModel) {
	if len(o.members) > 0 {
		c.release(o.members)
	} else {
		c.release(c.underReview())
	}
}

// reviewOf is an order of an operator about DLQ entries of a coupon.
func (m *machine) reviewOf(c *couponModel, verb verb, members ...coupon.UserID) order {
	return order{verb: verb, members: members, chosen: []*couponModel{c}, Order: settle.Order{
		Trigger: coupon.Manual, Cutoff: m.Now(), Coupons: []coupon.CouponID{c.id}, Operator: "lee", Reason: "model",
	}}
}

// drawReview draws an order about DLQ entries; ok is false when there are none.
func (m *machine) drawReview(t *rapid.T, verb verb) (o order, ok bool) {
	c := m.someCoupon(t)
	n := rapid.IntRange(0, 2).Draw(t, "how many")
	o = m.reviewOf(c, verb)
	if n == 0 && verb == retrying {
		t.Logf("retry all DLQ entries of %s", c.name)
		return o, true
	}
	reviewed := c.underReview()
	for _, user := range reviewed[:min(max(1, n), len(reviewed))] {
		t.Logf("%s %s of %s", verb, m.name(user), c.name)
		o.members = append(o.members, user)
	}
	if verb == retrying && len(o.members) > 0 && rapid.Bool().Draw(t, "as canaries") {
		t.Log("as canaries")
		o.Canaries = o.names()
	}
	return o, len(o.members) > 0
}

func (m *machine) review(t *rapid.T, verb verb) {
	o, ok := m.drawReview(t, verb)
	if !ok {
		m.checkRefusal(t, verb)
		return
	}
	how := m.inThisProcess
	// The program would retry the other entries, too.
	if rapid.IntRange(0, 4).Draw(t, "by the program") == 4 && o.Canaries == nil {
		how = m.byProgram
	}
	m.execute(t, o, how)
}

// checkRefusal requires that an order about an application outside the DLQ is refused.
func (m *machine) checkRefusal(t *rapid.T, verb verb) {
	c, user := m.someCoupon(t), m.someUser(t)
	if slices.Contains(c.underReview(), user) {
		return
	}
	t.Logf("%s %s of %s, who is not under review", verb, m.name(user), c.name)
	if _, err := m.executeBy(m.settler(), m.reviewOf(c, verb, user)); mysqltx.ClassOf(err) != coupon.Setup ||
		err == nil {
		m.fail(t, "%s of an application that is not under review was not refused", verb)
	}
	m.compare(t, "after the refusal")
}

// drawRun draws a manual run up to now or an earlier cutoff, of one coupon or all.
func (m *machine) drawRun(t *rapid.T, acceptGap bool) order {
	o := order{verb: settling, chosen: m.due(), Order: settle.Order{
		Trigger: coupon.Manual, Cutoff: m.Now(), AcceptGap: acceptGap, Operator: "kim", Reason: "model",
	}}
	description := "settle"
	if rapid.Bool().Draw(t, "one coupon") {
		c := m.someCoupon(t)
		o.chosen, o.Coupons = []*couponModel{c}, []coupon.CouponID{c.id}
		description += " " + c.name
	}
	if rapid.Bool().Draw(t, "earlier") && len(o.chosen) > 0 {
		if a, found := drawOpenApplication(t, o.chosen[0], o.Cutoff); found {
			o.Cutoff = a.arrival.Time()
			description += fmt.Sprintf(" up to the application of %s for %s", m.name(a.user), o.chosen[0].name)
		}
	}
	if acceptGap {
		description += ", accepting gaps"
	}
	t.Log(description)
	return o
}

// drawOpenApplication draws an application that a run up to now may decide. Arrivals ahead of the clock cannot be
// settled yet.
func drawOpenApplication(t *rapid.T, c *couponModel, now time.Time) (a applicationKey, found bool) {
	open := slices.DeleteFunc(c.before(coupon.ArrivalAt(now)), func(a applicationKey) bool {
		return c.applications[a].outcome != undecided && c.applications[a].outcome != notSelected
	})
	if len(open) == 0 {
		return a, false
	}
	return open[rapid.IntRange(0, len(open)-1).Draw(t, "before")], true
}

// due are the coupons that a run without --coupon settles.
func (m *machine) due() []*couponModel {
	return slices.DeleteFunc(slices.Clone(m.coupons), func(c *couponModel) bool { return c.finalised })
}

// execute executes an order on the servers and in the model, and compares everything.
func (m *machine) execute(t *rapid.T, o order, how func(*rapid.T, order) *settle.Report) {
	var preview *settle.Report
	if o.verb == settling && rapid.Bool().Draw(t, "previewed") {
		preview = m.preview(t, &o)
	}
	report := how(t, o)
	if preview != nil {
		m.checkPreview(t, preview, report)
	}
	m.checkReport(t, o, report)
	m.compare(t, "after the settlement")
	m.checkAnswers(t)
	m.verify(t)
	// All users would take longer than the settlement.
	m.checkExplanations(t, m.base+1+coupon.UserID(m.steps%modelUsers))
}

// preview previews an order and pins its digests.
func (m *machine) preview(t *rapid.T, o *order) *settle.Report {
	order := o.Order
	order.List = true
	report, err := m.settler().Preview(m.T.Context(), order)
	if err != nil {
		t.Log(err)
		m.fail(t, "the preview failed")
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

// checkPreview compares a run with its preview, and the lists of the preview with its counts.
func (m *machine) checkPreview(t *rapid.T, preview, report *settle.Report) {
	for i, would := range preview.Coupons {
		did := report.Coupons[i]
		if p := would.Preview; would.Error == "" && p != nil {
			byCause := 0
			for _, n := range p.Reviews {
				byCause += n
			}
			listed := [4]int{len(p.Winners), len(p.UnderReview), byCause, len(p.Rejected)}
			if counted := [4]int{would.Issued, would.UnderReview, would.UnderReview,
				would.Rejected}; listed != counted {
				m.fail(t, "the preview lists %v, and counts %v", listed, counted)
			}
		}
		would.Preview, would.Millis, did.Millis, did.Earlier = nil, 0, 0, nil // only a run looks for an earlier one
		a, _ := json.Marshal(would)
		b, _ := json.Marshal(did)
		if string(a) != string(b) {
			m.fail(t, "the preview was\n%s\nand the run was\n%s", a, b)
		}
	}
}

func (m *machine) settleByProgram(t *rapid.T) {
	m.execute(t, m.drawRun(t, rapid.Bool().Draw(t, "accept gaps")), m.byProgram)
	m.verifyByProgram(t)
}

// byProgram executes an order by the program. Its connections cost ten times as much as a small settlement.
func (m *machine) byProgram(t *rapid.T, o order) *settle.Report {
	code, stdout, stderr := m.settle(m.Operator, o.args())
	report := new(settle.Report)
	if err := json.Unmarshal([]byte(stdout), report); err != nil {
		t.Logf("%s%s", stdout, stderr)
		m.fail(t, "the run prints no report")
	}
	want := 0
	if report.Status == coupon.RunHeld {
		want = 3
	}
	if code != want {
		m.fail(t, "the run exits with %d, want %d", code, want)
	}
	return report
}

func (m *machine) inThisProcess(t *rapid.T, o order) *settle.Report {
	report, err := m.executeBy(m.settler(), o)
	if err != nil {
		t.Log(err)
		m.fail(t, "the run failed")
	}
	return report
}

func (m *machine) settler() *settle.Settler {
	return &settle.Settler{Config: settle.Config{
		DB: mysqltx.New(m.DB), Catalog: catalog.Snapshot{Store: m.Store}, Clock: m.Store,
		Line: m.Store, Door: m.Store, Auditor: &ledger.Ledger{Store: m.Store}, Users: m.Users,
		Journal: m.journal,
		Zone:    jajeongtest.InZone(time.UTC), Now: time.Now, Logger: zap.NewNop(), Observer: runmetrics.New(time.Now),
		Grace: time.Second, Parallel: 1,
	}}
}

// checkReport executes an order in the model and compares the report.
func (m *machine) checkReport(t *rapid.T, o order, report *settle.Report) {
	want := coupon.RunSucceeded
	if len(report.Coupons) != len(o.chosen) {
		m.fail(t, "the run has results of %d coupons, want %d", len(report.Coupons), len(o.chosen))
	}
	for i, c := range o.chosen {
		result, gap := report.Coupons[i], c.gap()
		if (result.Status == coupon.Frozen) != (c.frozen && o.reaches(c)) {
			m.fail(t, "%s is %s, and frozen is %t", c.name, result.Status, c.frozen)
		}
		if !o.concerns(c) {
			continue
		}
		heldBack := o.apply(c, report.Run, coupon.ArrivalAt(report.Cutoff), m.users)
		if o.verb != dropping && max(0, result.Gap) != int64(gap) {
			m.fail(t, "the run finds a gap of %d in %s, want %d", result.Gap, c.name, gap)
		}
		if (result.Status == coupon.HeldBack) != heldBack {
			m.fail(t, "%s is %s, want it held: %t", c.name, result.Status, heldBack)
		}
		if heldBack {
			want = coupon.RunHeld
			continue
		}
		got := [4]int{result.Issued, result.NotSelected, result.AlreadyIssued, result.SeatsLeft}
		run := report.Run
		if want := [4]int{c.decidedBy(run, issued), c.decidedBy(run, notSelected), c.decidedBy(run, alreadyIssued),
			c.free()}; got != want {
			m.fail(t, "the run counts %v issued, not selected, already issued and free seats in %s, want %v", got,
				c.name, want)
		}
	}
	if report.Status != want {
		m.fail(t, "the run is %s, want %s", report.Status, want)
	}
}
