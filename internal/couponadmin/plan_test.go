package couponadmin

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

var (
	now    = time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)
	opened = coupon.Coupon{ID: 7, Name: "자정", TotalQuantity: 10, IssuedCount: 4, OpensAt: now.Add(-time.Hour),
		ClosesAt: now.Add(time.Hour),
		Status:   coupon.Open, ValidityDays: 30, Version: 3, Cadence: coupon.Nightly}
)

func with(edit func(*coupon.Coupon)) coupon.Coupon {
	c := opened
	edit(&c)
	return c
}

// requireRefused demands a refusal, which says that repeating cannot help.
func requireRefused(t *testing.T, err error, why text.Message, args ...any) {
	t.Helper()
	var refused *text.UsageError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, why, refused.Message)
	require.Equal(t, args, refused.Args)
	require.True(t, refused.Setup())
}

func TestPlanClose(t *testing.T) {
	t.Parallel()
	is, err := planClose(opened, now, facts{})
	require.NoError(t, err)
	require.Equal(t, with(func(c *coupon.Coupon) { c.ClosesAt = now }), is)

	closed := with(func(c *coupon.Coupon) { c.ClosesAt = now.Add(-time.Minute) })
	is, err = planClose(closed, now, facts{})
	require.NoError(t, err)
	require.Equal(t, closed, is, "a closed coupon stays as it is")

	_, err = planClose(with(func(c *coupon.Coupon) { c.OpensAt = now }), now, facts{})
	requireRefused(t, err, text.RefusedNotOpen, opened.ID, now)
	_, err = planClose(with(func(c *coupon.Coupon) { c.FinalisedAt = now }), now, facts{})
	requireRefused(t, err, text.RefusedFinalised, opened.ID, now)
}

func TestPlanExtend(t *testing.T) {
	t.Parallel()
	later := opened.ClosesAt.Add(time.Hour + time.Nanosecond)
	is, err := planExtend(opened, now, facts{}, later)
	require.NoError(t, err)
	require.Equal(t, opened.ClosesAt.Add(time.Hour), is.ClosesAt, "to the microsecond")

	for name, c := range map[string]struct {
		coupon coupon.Coupon
		facts  facts
		closes time.Time
		why    text.Message
		args   []any
	}{
		"finalised": {with(func(c *coupon.Coupon) { c.FinalisedAt = now }), facts{}, later,
			text.RefusedFinalised, []any{opened.ID, now}},
		"finalised before": {opened, facts{swept: true}, later, text.RefusedSwept, []any{opened.ID}},
		"ends before opening": {opened, facts{}, opened.OpensAt, text.RefusedEndsBeforeItOpens,
			[]any{opened.ID, opened.OpensAt, opened.OpensAt}},
		"in the past": {opened, facts{}, now, text.RefusedPast, []any{opened.ID, now, now}},
		"too late":    {opened, facts{}, maxCloses.Add(1), text.RefusedFar, []any{maxCloses.Add(1), maxCloses}},
		"shorter": {opened, facts{}, now.Add(time.Minute), text.RefusedShorter,
			[]any{opened.ID, now.Add(time.Minute), opened.ClosesAt}},
		"marks lost": {opened, facts{marksLost: true}, later, text.RefusedForgotten, []any{opened.ID}},
		"not cleaned up": {opened, facts{marksLost: true, pendingCleanup: true}, later, text.RefusedUnfinished,
			[]any{opened.ID}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := planExtend(c.coupon, now, c.facts, c.closes)
			requireRefused(t, err, c.why, c.args...)
		})
	}
}

func TestPlanSeats(t *testing.T) {
	t.Parallel()
	is, err := planSeats(opened, facts{}, 4)
	require.NoError(t, err)
	require.Equal(t, 4, is.TotalQuantity)
	_, err = planSeats(opened, facts{}, 3)
	requireRefused(t, err, text.RefusedFewerThanIssued, opened.ID, 4, 3)
	_, err = planSeats(opened, facts{}, MaxSeats+1)
	requireRefused(t, err, text.WrongSeats, MaxSeats+1, int64(MaxSeats))
	_, err = planSeats(with(func(c *coupon.Coupon) { c.IssuedCount = 0 }), facts{}, 0)
	requireRefused(t, err, text.WrongSeats, 0, int64(MaxSeats))

	finalised := with(func(c *coupon.Coupon) { c.FinalisedAt, c.TotalQuantity = now, 4 })
	for name, c := range map[string]struct {
		facts facts
		total int
		due   bool
	}{
		"free seats and NOT_SELECTED users": {facts{notSelected: 1}, 5, true},
		"no NOT_SELECTED users":             {facts{}, 5, false},
		"no free seat":                      {facts{notSelected: 1}, 4, false},
	} {
		is, err := planSeats(finalised, c.facts, c.total)
		require.NoError(t, err)
		require.Equal(t, c.due, !is.Finalised(), name)
	}
}

func TestPlanRecount(t *testing.T) {
	t.Parallel()
	is, err := planRecount(opened, now, facts{holders: 6})
	require.NoError(t, err)
	require.Equal(t, with(func(c *coupon.Coupon) { c.IssuedCount = 6 }), is)
	_, err = planRecount(opened, now, facts{holders: 11})
	requireRefused(t, err, text.RefusedMoreThanSeats, opened.ID, 11, 10)
}

func TestNewCoupon_Refusals(t *testing.T) {
	t.Parallel()
	right := NewCoupon{Name: "자정", Seats: 1, Opens: now, Closes: now.Add(time.Hour), ValidityDays: 1}
	require.NoError(t, right.refusal())
	for name, edit := range map[string]func(*NewCoupon){
		"blank name":           func(n *NewCoupon) { n.Name = " " },
		"name too long":        func(n *NewCoupon) { n.Name = strings.Repeat("가", maxNameLetters+1) },
		"name with line break": func(n *NewCoupon) { n.Name = "a\nb" },
		"no seat":              func(n *NewCoupon) { n.Seats = 0 },
		"no day":               func(n *NewCoupon) { n.ValidityDays = 0 },
		"negative discount":    func(n *NewCoupon) { n.DiscountWon = -1 },
		"negative line limit":  func(n *NewCoupon) { n.LineLimit = -1 },
		"key with a space":     func(n *NewCoupon) { n.Key = "BF 2026" },
		"key too long":         func(n *NewCoupon) { n.Key = strings.Repeat("k", 65) },
		"absurd line limit":    func(n *NewCoupon) { n.LineLimit = maxLine + 1 },
	} {
		n := right
		edit(&n)
		require.Len(t, n.Problems(), 1, name)
		var classed *coupon.Error
		require.ErrorAs(t, n.refusal(), &classed, name)
		require.Equal(t, coupon.Setup, classed.Class, name)
	}
	requireRefused(t, checkEnd(text.NewCoupon, now, now, now), text.RefusedEndsBeforeItOpens, text.NewCoupon, now, now)
	requireRefused(t, checkEnd(text.NewCoupon, now, right.Closes, right.Closes), text.RefusedPast, text.NewCoupon,
		right.Closes, right.Closes)
}

func TestPlanCadence(t *testing.T) {
	t.Parallel()
	paused := func(c *coupon.Coupon) { c.Status = coupon.Paused }
	for name, c := range map[string]coupon.Coupon{
		"paused":       with(paused),
		"not open yet": with(func(c *coupon.Coupon) { c.OpensAt = now.Add(10 * time.Second) }),
		"paused, opens soon": with(func(c *coupon.Coupon) {
			c.Status, c.OpensAt = coupon.Paused,
				now.Add(time.Second)
		}),
		"closed": with(func(c *coupon.Coupon) { c.ClosesAt = now }),
	} {
		is, err := planCadence(c, now, facts{}, coupon.Immediate)
		require.NoError(t, err, name)
		require.Equal(t, coupon.Immediate, is.Cadence, name)
		is.Cadence = coupon.Nightly
		require.Equal(t, c, is, "%s: nothing else", name)

		_, err = planCadence(c, now, facts{waiting: 1}, coupon.Immediate)
		requireRefused(t, err, text.RefusedCadenceWaiting, opened.ID, int64(1), int64(0))
		_, err = planCadence(c, now, facts{dlq: 2}, coupon.Immediate)
		requireRefused(t, err, text.RefusedCadenceWaiting, opened.ID, int64(0), int64(2))
	}
	_, err := planCadence(opened, now, facts{}, coupon.Immediate)
	requireRefused(t, err, text.RefusedCadenceOpen, opened.ID, opened.ClosesAt)
	_, err = planCadence(with(func(c *coupon.Coupon) { c.OpensAt = now }), now, facts{}, coupon.Immediate)
	requireRefused(t, err, text.RefusedCadenceOpen, opened.ID, opened.ClosesAt)
	soon := now.Add(10*time.Second - time.Microsecond)
	_, err = planCadence(with(func(c *coupon.Coupon) { c.OpensAt = soon }), now, facts{}, coupon.Immediate)
	requireRefused(t, err, text.RefusedCadenceSoon, opened.ID, soon)
	_, err = planCadence(with(func(c *coupon.Coupon) { c.FinalisedAt = now }), now, facts{}, coupon.Nightly)
	requireRefused(t, err, text.RefusedFinalised, opened.ID, now)
	is, err := planCadence(opened, now, facts{waiting: 1}, coupon.Nightly)
	require.NoError(t, err)
	require.Equal(t, opened, is, "it has this cadence already")
}
