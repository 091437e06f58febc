package settle

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/stretchr/testify/require"
)

func application(user coupon.UserID, arrival coupon.Arrival, source coupon.Source) coupon.Application {
	return coupon.Application{Member: user.Member(), Arrival: arrival, Source: source}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []decision.Application{
		{Application: application(1, 10, coupon.SourceQueue)},
		{Application: application(2, 11, coupon.SourceNotSelected), Verdict: decision.UnknownUser},
		{Application: application(3, 12, coupon.SourceHeld)},
		{Application: application(4, 13, coupon.SourceRetryable)},
		{Application: application(1, 14, coupon.SourceNotSelected)}, // a second place
		{Application: application(4, 15, coupon.SourceQueue)},       // a second place
		{Application: application(5, 16, coupon.SourceQueue)},
		{Application: application(6, 17, coupon.SourceQueue), Verdict: decision.InactiveUser},
		{Application: application(7, 18, coupon.SourceQueue)},
	}
	chosen := func(s selection) []coupon.UserID { return usersIn(s.chosen) }
	first := run{}.choose(all, 2, newPageUsers(all))
	require.Equal(t, []coupon.UserID{1, 4}, chosen(first))
	require.Equal(t, records.PackSeats(first.chosen), first.rows)
	require.Equal(t, all[1:2], first.ended)
	require.Equal(t, all[4:], first.rest, "it looks no further than the last seat")

	second := run{}.choose(first.rest, 2, first.users)
	require.Equal(t, []coupon.UserID{5, 7}, chosen(second), "the first place of a user counts")
	require.Equal(t, all[4:5], second.second)
	whole := run{}.choose(all, 9, newPageUsers(all))
	require.Equal(t, []coupon.UserID{1, 4, 5, 7}, chosen(whole))
	ended, refused := whole.secondPlaces(whole.chosen)
	require.Equal(t, decision.HoldsAlready, ended[0].Verdict)
	require.Empty(t, refused)
	ended, refused = whole.secondPlaces(whole.chosen[1:])
	require.Empty(t, ended)
	require.Equal(t, []coupon.Application{all[4].Application}, refused, "the row of user 1 was refused")
}

// A score written by hand may be anything from 0 on.
func TestChoose_EndsWhereArrivalsAreYearsApart(t *testing.T) {
	t.Parallel()
	const apart, last = 1 << 50, 1<<53 - 1 // 35 years, in µs
	all := []decision.Application{
		{Application: application(1, 0, coupon.SourceQueue)}, {Application: application(2, 1000, coupon.SourceQueue)},
		{Application: application(3, apart, coupon.SourceQueue)},
		{Application: application(4, last, coupon.SourceQueue)},
	}
	c := run{}.choose(all, 4, nil)
	require.Equal(t, []coupon.UserID{1, 2}, usersIn(c.chosen))
	require.Equal(t, all[2:], c.rest)
	require.Equal(t, []coupon.UserID{3}, usersIn(run{}.choose(c.rest, 2, nil).chosen))
}

func TestPage_CanBePacked(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, pageApplications, records.MaxSeatRows)
}

// memoryLine serves pages of a sorted line; it is only read here.
type memoryLine struct {
	Line
	all  []coupon.Application
	size int
}

func (l memoryLine) Page(_ context.Context, _ coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	from, _ := strconv.Atoi(after.Score)
	page := l.all[from:min(len(l.all), from+l.size)]
	return page, coupon.Cursor{Score: strconv.Itoa(from + len(page))}, nil
}
