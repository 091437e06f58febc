package cli

import (
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Nights and canaries, which leave some who are under review out.

// night is a nightly run of everything that is due: of a new night, or one more of the last.
func (m *machine) night(t *rapid.T) {
	m.settles(t, m.drawNight(t, rapid.Bool().Draw(t, "a new night")), m.byItself)
}

func (m *machine) drawNight(t *rapid.T, isNew bool) order {
	words := "one more run of the last night"
	if m.lastNight.IsZero() || isNew {
		m.lastNight, words = m.now(), "a night"
	}
	t.Log(words)
	return order{verb: toSettle, chosen: m.due(), Order: settle.Order{Trigger: coupon.Cron, Cutoff: m.lastNight}}
}

// oddNight is a night to which rows are refused, and which goes on: with more seats for who was not selected, or with
// rows that are taken by then.
func (m *machine) oddNight(t *rapid.T) {
	c := m.someCoupon(t)
	m.refuseSome(t, c)
	m.settles(t, m.drawNight(t, true), m.byItself)
	for range rapid.IntRange(1, 2).Draw(t, "runs more") {
		switch rapid.IntRange(0, 2).Draw(t, "meanwhile") {
		case 0:
			m.changeSeats(t, c, rapid.IntRange(1, maxSeats).Draw(t, "more seats"))
		case 1:
			m.refuse(t, m.someUser(t), false)
		}
		m.settles(t, m.drawNight(t, false), m.byItself)
	}
}

// refuseSome lets several apply and refuses the rows of some who are to be settled.
func (m *machine) refuseSome(t *rapid.T, c *modelCoupon) {
	order := rapid.Permutation(between(1, modelUsers)).Draw(t, "order")
	for _, user := range order[:rapid.IntRange(2, modelUsers).Draw(t, "users")] {
		m.applies(t, c, m.base+user)
	}
	for _, a := range c.byArrival() {
		if is := c.line[a]; is.outcome == undecided || is.outcome == notSelected {
			m.refuse(t, a.user, rapid.Bool().Draw(t, "odd"))
		}
	}
}

// canaries go first of several whose rows were refused, some of which are taken by now.
func (m *machine) canaries(t *rapid.T) {
	c := m.someCoupon(t)
	m.refuseSome(t, c)
	m.settles(t, m.drawNight(t, true), m.byItself)
	m.refuse(t, m.someUser(t), false)
	reviewed := c.underReview()
	if len(reviewed) < 2 {
		return
	}
	o := order{verb: toRetry, chosen: []*modelCoupon{c}, Order: settle.Order{
		Trigger: coupon.Manual, CutoffNow: rapid.Bool().Draw(t, "now"), Coupons: []coupon.CouponID{c.id}, Operator: "lee", Reason: "model",
	}}
	if !o.CutoffNow {
		o.Cutoff = m.lastNight
	}
	from := rapid.IntRange(0, len(reviewed)-1).Draw(t, "from")
	for _, user := range reviewed[from:min(len(reviewed), from+rapid.IntRange(1, 2).Draw(t, "how many"))] {
		t.Logf("%s of %s is a canary", m.name(user), c.name)
		o.users = append(o.users, user)
	}
	o.Canaries = o.members()
	m.settles(t, o, m.byItself)
}
