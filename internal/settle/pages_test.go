package settle

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
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
	require.Equal(t, "[[1,1],[4,98306]]", first.rows.json)
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
	const last = 1<<53 - 1
	all := []decision.Application{
		{Application: application(1, 0, coupon.SourceQueue)}, {Application: application(2, maxLater, coupon.SourceQueue)},
		{Application: application(3, maxLater+1, coupon.SourceQueue)}, {Application: application(4, last, coupon.SourceQueue)},
	}
	c := run{}.choose(all, 4, nil)
	require.Equal(t, []coupon.UserID{1, 2}, usersIn(c.chosen))
	require.Equal(t, all[2:], c.rest)
	require.Equal(t, fmt.Sprintf("[[1,1],[2,%d]]", int64(maxLater)<<placeBits+2), c.rows.json)
	require.Positive(t, int64(maxLater)<<placeBits+2)
	require.Equal(t, []coupon.UserID{3}, usersIn(run{}.choose(c.rest, 2, nil).chosen))
}

// memoryLine serves pages of a sorted line; it is only read here.
type memoryLine struct {
	Line
	all  []coupon.Application
	size int
}

func (l memoryLine) Page(_ context.Context, _ coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	from, _ := strconv.Atoi(after.Score)
	page := l.all[from:min(len(l.all), from+l.size)]
	return page, coupon.Cursor{Score: strconv.Itoa(from + len(page))}, nil
}
