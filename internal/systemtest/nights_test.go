package systemtest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Nightly runs and retries with canaries skip some DLQ entries.

func (m *machine) night(t *rapid.T) {
	m.execute(t, m.drawNight(t, rapid.Bool().Draw(t, "a new night")), m.inThisProcess)
}

// drawNight is the nightly run of a new cutoff, or of the last one again.
func (m *machine) drawNight(t *rapid.T, isNew bool) order {
	description := "the last nightly run again"
	if m.lastNight.IsZero() || isNew {
		m.lastNight, description = m.Now(), "a nightly run"
	}
	t.Log(description)
	return order{verb: settling, chosen: m.due(), Order: settle.Order{Trigger: coupon.Cron, Cutoff: m.lastNight}}
}

// nightWithRefusedRows repeats a nightly run that met refused rows, after seats were added or MySQL accepts the rows.
func (m *machine) nightWithRefusedRows(t *rapid.T) {
	c := m.someCoupon(t)
	m.refuseSomeRows(t, c)
	m.execute(t, m.drawNight(t, true), m.inThisProcess)
	for range rapid.IntRange(1, 2).Draw(t, "more runs") {
		switch rapid.IntRange(0, 2).Draw(t, "meanwhile") {
		case 0:
			m.addSeats(t, c, rapid.IntRange(1, maxSeats).Draw(t, "more seats"))
		case 1:
			m.refuseRow(t, m.someUser(t), false)
		}
		m.execute(t, m.drawNight(t, false), m.inThisProcess)
	}
}

// refuseSomeRows lets several users apply, and MySQL refuse the rows of some whose applications are open.
func (m *machine) refuseSomeRows(t *rapid.T, c *couponModel) {
	m.severalApply(t, c)
	for _, a := range c.byArrival() {
		if is := c.applications[a]; is.outcome == undecided || is.outcome == notSelected {
			m.refuseRow(t, a.user, rapid.Bool().Draw(t, "refused"))
		}
	}
}

// canaries retries one or two of several entries with refused rows, some of which MySQL accepts by now.
func (m *machine) canaries(t *rapid.T) {
	c := m.someCoupon(t)
	m.refuseSomeRows(t, c)
	m.execute(t, m.drawNight(t, true), m.inThisProcess)
	m.refuseRow(t, m.someUser(t), false)
	reviewed := c.underReview()
	if len(reviewed) < 2 {
		return
	}
	o := m.reviewOf(c, retrying)
	if o.Cutoff, o.CutoffNow = m.lastNight, rapid.Bool().Draw(t, "now"); o.CutoffNow {
		o.Cutoff = time.Time{}
	}
	from := rapid.IntRange(0, len(reviewed)-1).Draw(t, "from")
	for _, user := range reviewed[from:min(len(reviewed), from+rapid.IntRange(1, 2).Draw(t, "how many"))] {
		t.Logf("%s of %s is a canary", m.name(user), c.name)
		o.members = append(o.members, user)
	}
	o.Canaries = o.names()
	m.execute(t, o, m.inThisProcess)
}
