package systemtest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// checkExplanations compares the explanations for these users with the model.
func (m *machine) checkExplanations(t *rapid.T, users ...coupon.UserID) {
	explainer := &explain.Explainer{DB: m.DB, Redis: m.Store, Users: m.Users, Now: time.Now,
		Zone: jajeongtest.InZone(time.UTC)}
	for _, c := range m.coupons {
		for _, user := range users {
			x, err := explainer.Explain(m.T.Context(), c.id, user)
			require.NoError(m.T, err)
			require.Empty(m.T, x.Unread)
			got := string(x.Conclusion.State)
			if want := c.expectedState(user); !strings.HasPrefix(got, want) {
				m.fail(t, "explain says %s of %s for %s, want %s", got, m.name(user), c.name, want)
			}
			if int(x.Facts.Gap) != c.gap() {
				m.fail(t, "explain finds a gap of %d in %s, want %d", x.Facts.Gap, c.name, c.gap())
			}
			m.checkApplication(t, c, user, x)
		}
	}
}

// expectedState is the beginning of the state that explain has to conclude.
func (c *couponModel) expectedState(user coupon.UserID) string {
	found, last, cause := absent, undecided, ""
	for _, a := range c.byArrival() {
		is := c.applications[a]
		switch {
		case a.user != user:
		case is.outcome == undecided && (found == absent || is.place == waiting):
			found, cause = is.place, is.cause
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
	case found == waiting:
		return "WAITING"
	case found != absent:
		return "REVIEW_" + cause
	case last != undecided:
		return last
	case c.gap() > 0 || c.writtenOff > 0:
		return "MAYBE_LOST"
	default:
		return "N" // NEVER_APPLIED_…, NO_SUCH_USER, NOT_SURE
	}
}

// checkApplication compares the application that explain concludes about.
func (m *machine) checkApplication(t *rapid.T, c *couponModel, user coupon.UserID, x *explain.Explanation) {
	about := x.Conclusion.Application
	if about == nil {
		return
	}
	key := applicationKey{user, about.Arrival}
	is, known := c.applications[key]
	order, rank := 0, 0
	for _, a := range c.before(about.Arrival + 1) {
		if order++; c.applications[a].outcome == notSelected {
			rank++
		}
	}
	missed := x.Facts.Missed
	for part, wrong := range map[string]bool{
		"application": !known || about.Run != is.run || string(about.Outcome) != is.outcome,
		"position":    is.place == waiting && about.Position != c.position(key),
		"order":       about.Order > 0 && int(about.Order) != order,
		"rank of the unselected": about.Outcome == notSelected &&
			(int(missed.Rank) != rank || missed.Arrival != about.Arrival),
		"seat": x.Facts.UserCoupon != nil && is.seat > 0 && int(x.Facts.UserCoupon.Seat) != is.seat,
	} {
		if wrong {
			m.fail(t, "explain has a wrong %s of %s for %s", part, m.name(user), c.name)
		}
	}
}
