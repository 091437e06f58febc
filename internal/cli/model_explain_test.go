package cli

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
)

// explains demands that what is explained to these users is what the model knows of them.
func (m *machine) explains(t *rapid.T, users ...coupon.UserID) {
	explainer := &explain.Explainer{DB: m.db, Redis: m.store, Users: m.directory, Now: time.Now,
		SettlesAt: func(at time.Time) time.Time { return calendar.NextCutoff(at, time.UTC) }}
	for _, c := range m.coupons {
		for _, user := range users {
			x, err := explainer.Explain(m.t.Context(), c.id, user)
			require.NoError(m.t, err)
			require.Empty(m.t, x.Unread)
			got := string(x.Conclusion.State)
			if want := c.explained(user); !strings.HasPrefix(got, want) {
				m.disagree(t, "%s of %s is explained as %s, want %s", m.name(user), c.name, got, want)
			}
			if int(x.Facts.Gap) != c.gap() {
				m.disagree(t, "a gap of %d of %s is explained, want %d", x.Facts.Gap, c.name, c.gap())
			}
			m.agreeOnApplication(t, c, user, x)
		}
	}
}

// explained is how the state begins that must be explained to the user.
func (c *modelCoupon) explained(user coupon.UserID) string {
	standing, last := absent, undecided
	cause := ""
	for _, a := range c.byArrival() {
		is := c.line[a]
		switch {
		case a.user != user:
		case is.outcome == undecided && (standing == absent || is.stands == waiting):
			standing, cause = is.stands, is.cause
		case is.outcome != undecided && is.outcome != alreadyIssued:
			last = is.outcome
		}
	}
	_, byHand := c.byHand[user]
	switch {
	case byHand:
		return "ISSUED_BY_HAND"
	case c.holds(user):
		return "ISSUED"
	case standing == waiting:
		return "WAITING"
	case standing != absent:
		return "REVIEW_" + cause
	case last != undecided:
		return last
	case c.gap() > 0 || c.writtenOff > 0:
		return "MAYBE_LOST"
	default:
		return "N" // NEVER_APPLIED_…, NO_SUCH_USER, NOT_SURE
	}
}

// agreeOnApplication: what it says of the application it is about.
func (m *machine) agreeOnApplication(t *rapid.T, c *modelCoupon, user coupon.UserID, x *explain.Explanation) {
	about := x.Conclusion.Application
	if about == nil {
		return
	}
	is, known := c.line[applied{user, about.Arrival}]
	if !known || about.Run != is.run || string(about.Outcome) != is.outcome {
		m.disagree(t, "%s of %s is explained by an application that is not theirs, or came out otherwise", m.name(user), c.name)
	}
	if is.stands == waiting && about.Position != c.placeOf(applied{user, about.Arrival}) {
		m.disagree(t, "%s of %s is explained a wrong position", m.name(user), c.name)
	}
	order, rank := 0, 0
	for _, a := range c.before(about.Arrival + 1) {
		if order++; c.line[a].outcome == notSelected {
			rank++
		}
	}
	if about.Order > 0 && int(about.Order) != order {
		m.disagree(t, "%s of %s is explained to be number %d, want %d", m.name(user), c.name, about.Order, order)
	}
	if about.Outcome == notSelected && (int(x.Facts.Missed.Rank) != rank || x.Facts.Missed.Arrival != about.Arrival) {
		m.disagree(t, "%s of %s is explained to be number %d of those not selected, want %d", m.name(user), c.name, x.Facts.Missed.Rank, rank)
	}
	if x.Facts.UserCoupon != nil && is.seat > 0 && int(x.Facts.UserCoupon.Seat) != is.seat {
		m.disagree(t, "%s of %s is explained a wrong seat", m.name(user), c.name)
	}
}
