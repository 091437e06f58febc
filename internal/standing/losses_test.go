package standing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
)

// Each line is one look and one reading; the clock of the process and that of Redis go on by the time before it.
func TestLosses(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)
	since := coupon.ArrivalAt(began)
	compared := coupon.Line{Since: since, Restored: true}
	with := func(line coupon.Line, change func(l *coupon.Line)) coupon.Line {
		change(&line)
		return line
	}
	lost := with(compared, func(l *coupon.Line) { l.Accepted = 3 })
	left := with(lost, func(l *coupon.Line) { l.Left, l.Restores = 3, 1 })
	uncompared := coupon.Line{Since: since}
	const second, almost, minute = time.Second, time.Minute - time.Second, time.Minute
	type look struct {
		after time.Duration
		line  coupon.Line
		books promise.Books
		want  standing.Verdict
	}
	none := promise.Books{}
	for name, looks := range map[string][]look{
		"nobody is missing": {{0, compared, none, standing.NotApplied}},
		"all are settled":   {{0, lost, promise.Books{Issued: 2, Concluded: 1}, standing.NotApplied}},
		"all wait": {{0, with(lost, func(l *coupon.Line) { l.Waiting, l.DLQ = 2, 1 }), none,
			standing.NotApplied}},
		"missing, for a minute": {{0, lost, none, standing.Restoring}, {almost, lost, none, standing.Restoring},
			{second, lost, none, standing.MayBeLost}},
		"missing again": {{0, lost, none, standing.Restoring}, {minute, lost, promise.Books{Issued: 3},
			standing.NotApplied}, {minute, lost, none, standing.Restoring}},
		"missing after another restore": {{0, lost, none, standing.Restoring},
			{minute, with(left, func(l *coupon.Line) { l.Left = 2 }), none, standing.Restoring}},
		"missing after the restore": {{0, left, none, standing.MayBeLost}},
		"written off":               {{0, left, promise.Books{WrittenOff: 3}, standing.MayBeLost}},
		"unknown":                   {{0, compared, promise.Books{Unfound: 1}, standing.MayBeLost}},
		"without a state": {{0, coupon.Line{}, none, standing.Restoring},
			{minute, coupon.Line{}, none, standing.NotApplied}},
		"without a state, promised": {{minute, coupon.Line{}, promise.Books{Accepted: 1}, standing.Restoring},
			{minute, coupon.Line{}, promise.Books{Accepted: 1}, standing.MayBeLost}},
		"a new epoch": {{almost, uncompared, none, standing.Restoring},
			{second, uncompared, none, standing.NotApplied}},
		"a new epoch, seen late": {{minute, uncompared, promise.Books{Accepted: 1}, standing.MayBeLost},
			{0, uncompared, none, standing.NotApplied}},
		"handed over": {{0, with(compared, func(l *coupon.Line) { l.Returned = 1 }), none, standing.Restoring},
			{minute, with(compared, func(l *coupon.Line) { l.Returned = 1 }), none, standing.MayBeLost}},
		"asked for": {{0, compared, promise.Books{Asked: 1}, standing.Restoring},
			{minute, compared, promise.Books{Asked: 1}, standing.MayBeLost}},
	} {
		now := began
		losses := standing.NewLosses(func() time.Time { return now })
		for i, l := range looks {
			now = now.Add(l.after)
			w := candidates.Watch{Line: l.line, Now: now}
			require.Equal(t, l.want, losses.Judge(coupon.Coupon{ID: 42}, w, l.books), "%s: look %d", name, i+1)
		}
	}
}

// A coupon that is finalised has nobody to restore.
func TestLosses_Finalised(t *testing.T) {
	t.Parallel()
	losses := standing.NewLosses(time.Now)
	of := coupon.Coupon{ID: 42, FinalisedAt: time.Now()}
	for want, books := range map[standing.Verdict]promise.Books{
		standing.NotApplied: {Accepted: 3}, standing.MayBeLost: {WrittenOff: 1}} {
		require.Equal(t, want, losses.Judge(of, candidates.Watch{}, books))
	}
	require.Equal(t, standing.MayBeLost, losses.Judge(of, candidates.Watch{}, promise.Books{Unfound: 1}))
}

// MySQL is asked if it may know the user, or if promises may be missing, and in no other case.
func TestMustAsk(t *testing.T) {
	t.Parallel()
	fine := coupon.Line{Since: 1, Restored: true, Accepted: 5, Waiting: 4, DLQ: 1}
	with := func(change func(l *coupon.Line)) candidates.Watch {
		line := fine
		change(&line)
		return candidates.Watch{Line: line}
	}
	seats := coupon.Coupon{TotalQuantity: 9}
	issued, finalised := seats, seats
	issued.IssuedCount, finalised.FinalisedAt = 1, time.Now()
	isNew := with(func(l *coupon.Line) { l.Since = 0 })
	uncompared := with(func(l *coupon.Line) { l.Restored = false })
	const none, pending, review = coupon.StandingNone, coupon.StandingPending, coupon.StandingUnderReview
	for name, c := range map[string]struct {
		of    coupon.Coupon
		watch candidates.Watch
		is    coupon.Standing
		want  bool
	}{
		"nobody is missing":     {seats, with(func(*coupon.Line) {}), none, false},
		"sold out":              {seats, candidates.Watch{Line: fine, Sold: true}, none, true},
		"issued":                {issued, candidates.Watch{Line: fine}, none, true},
		"finalised":             {finalised, candidates.Watch{Line: fine}, none, true},
		"new server":            {seats, isNew, none, true},
		"uncompared":            {seats, uncompared, none, true},
		"some are gone":         {seats, with(func(l *coupon.Line) { l.Waiting = 3 }), none, true},
		"handed over":           {seats, with(func(l *coupon.Line) { l.Returned = 1 }), none, true},
		"restored":              {seats, with(func(l *coupon.Line) { l.Restores = 1 }), none, true},
		"waits":                 {issued, candidates.Watch{Line: fine, Sold: true}, pending, false},
		"waits, uncompared":     {issued, uncompared, pending, true},
		"reviewed, new server":  {issued, isNew, review, true},
		"waits, nothing issued": {seats, uncompared, pending, false},
		"marked, new server":    {issued, isNew, coupon.StandingIssued, false},
	} {
		require.Equal(t, c.want, standing.MustAsk(c.of, c.watch, c.is), name)
	}
}
