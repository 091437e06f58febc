package systemtest

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Immediate runs, and coupons that are frozen.

// reaches reports whether a run looks at the coupon at all. An immediate run does not if nobody has ever applied.
func (o order) reaches(c *couponModel) bool {
	return o.verb != issuing || c.immediate && !c.finalised && o.Cutoff.After(nobodyApplied)
}

// nobodyApplied is the cutoff of a coupon without an arrival.
var nobodyApplied = coupon.Arrival(1).Time()

// concerns reports whether a run may change the coupon.
func (o order) concerns(c *couponModel) bool { return o.reaches(c) && !c.frozen }

func (m *machine) setCadence(t *rapid.T, c *couponModel, immediate bool) {
	cadence := coupon.Nightly
	if c.immediate = immediate; immediate {
		cadence = coupon.Immediate
	}
	t.Logf("the cadence of %s is %s now", c.name, cadence)
	// The verb refuses that for an open coupon.
	m.Exec("UPDATE coupon SET cadence = ? WHERE id = ?", string(cadence), c.id)
}

func (m *machine) cadenceChanges(t *rapid.T) {
	c := m.someCoupon(t)
	m.setCadence(t, c, rapid.IntRange(0, 3).Draw(t, "immediate") > 0)
}

// couponIsFrozen freezes a coupon, or ends that.
func (m *machine) couponIsFrozen(t *rapid.T) {
	c := m.someCoupon(t)
	c.frozen = !c.frozen && rapid.IntRange(0, 2).Draw(t, "frozen") == 0 // mostly not, so that much happens
	t.Logf("%s is frozen: %t", c.name, c.frozen)
	change := m.admin.Unfreeze
	if c.frozen {
		change = m.admin.Freeze
	}
	m.change(change(m.T.Context(), c.id))
}

func (m *machine) immediateRun(t *rapid.T) {
	m.execute(t, m.drawImmediate(t), m.byServer)
}

// immediateRuns alternates applications and immediate runs, as the process that stays does.
func (m *machine) immediateRuns(t *rapid.T) {
	c := m.someCoupon(t)
	for range rapid.IntRange(2, 4).Draw(t, "runs") {
		m.apply(t, c, m.someUser(t))
		m.execute(t, m.immediateRunOf(t, c), m.byServer)
	}
}

func (m *machine) drawImmediate(t *rapid.T) order { return m.immediateRunOf(t, m.someCoupon(t)) }

// immediateRunOf is an immediate run up to the newest arrival.
func (m *machine) immediateRunOf(t *rapid.T, c *couponModel) order {
	t.Logf("an immediate run of %s", c.name)
	return order{verb: issuing, chosen: []*couponModel{c}, Order: settle.Order{
		Trigger: coupon.ImmediateRun, Cutoff: m.afterNewest(c).Time(), Coupons: []coupon.CouponID{c.id}}}
}

// afterNewest is the cutoff of an immediate run. It is not below an arrival or a settled cutoff that the model knows.
func (m *machine) afterNewest(c *couponModel) coupon.Arrival {
	last, err := m.Redis.HGet(m.T.Context(), m.Key("state", c.id), "last").Int64()
	if err != nil { // a coupon for which nobody has applied, or which is finalised
		return c.highest + 1
	}
	return max(coupon.Arrival(last), c.highest) + 1
}

// byServer executes an immediate run in one of the processes that stay. Each remembers what it has read.
func (m *machine) byServer(t *rapid.T, o order) *settle.Report {
	report, err := m.executeBy(m.servers[rapid.IntRange(0, 1).Draw(t, "server")], o)
	if err != nil {
		t.Log(err)
		m.fail(t, "the immediate run failed")
	}
	return report
}

// issueBy does an immediate run. While pods put applications back, or a killed process still holds the coupon, the run
// is BUSY and changes nothing.
func (m *machine) issueBy(s *settle.Settler, o order) (*settle.Report, error) {
	id, before := o.Coupons[0], m.lastRun()
	var done settle.Issuance
	state := m.readState(id)
	testenv.Eventually(m.T, "the immediate run is not BUSY", func() bool {
		done = s.IssueNow(m.T.Context(), id)
		if done.Status == coupon.Busy {
			require.Equal(m.T, state, m.readState(id), "a run that is BUSY changed the coupon")
		}
		return done.Status != coupon.Busy
	})
	report := &settle.Report{Trigger: o.Trigger, Cutoff: o.Cutoff, Status: coupon.RunSucceeded,
		Coupons: []settle.Result{done.Result}}
	if run := m.lastRun(); run != before {
		report.Run = run
		require.NoError(m.T, m.DB.QueryRow("SELECT cutoff FROM settlement_run WHERE id = ?", run).Scan(&report.Cutoff))
	}
	switch done.Status {
	case coupon.Failed:
		return nil, done.Err()
	case coupon.HeldBack:
		report.Status = coupon.RunHeld
	}
	require.Len(m.T, done.Delays, done.Issued)
	require.Equal(m.T, done.Status == coupon.Settled, report.Run != 0, "only a run that changes something is recorded")
	require.False(m.T, report.Cutoff.Before(o.Cutoff), "the cutoff is below the newest arrival")
	return report, nil
}
