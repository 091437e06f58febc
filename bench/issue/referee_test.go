package issue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/load"
)

// good is a contender without mistakes: two coupons with three users each.
func good() (promises []promise, rows []row) {
	for i := range 6 {
		coupon, user := 1+i%2, 1+i
		promises = append(promises, promise{coupon, user, uint64(100 + i), time.Duration(i) * time.Millisecond})
		rows = append(rows, row{coupon, user, uint64(1 + i/2)})
	}
	return promises, rows
}

// Each planted mistake is found, and nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(promises *[]promise, rows *[]row)
		want  verdict
	}{
		"nothing": {func(*[]promise, *[]row) {}, verdict{}},
		"two rows changed places": {func(_ *[]promise, rows *[]row) {
			r := *rows
			r[0].place, r[2].place = r[2].place, r[0].place
		}, verdict{Inversions: 1, Overtaken: 2 * time.Millisecond}},
		"the first came last": {func(_ *[]promise, rows *[]row) { (*rows)[0].place = 9 }, verdict{Inversions: 1,
			Overtaken: 4 * time.Millisecond}},
		"the last came first": {func(_ *[]promise, rows *[]row) { (*rows)[5].place = 0 }, verdict{Inversions: 2,
			Overtaken: 4 * time.Millisecond}},
		"one row too many": {func(promises *[]promise, rows *[]row) {
			*promises = append(*promises, promise{1, 7, 200, time.Second})
			*rows = append(*rows, row{1, 7, 4})
		}, verdict{Oversold: 1}},
		"a user has two rows": {func(_ *[]promise, rows *[]row) { *rows = append((*rows)[:5], row{2, 4, 9}) },
			verdict{Twice: 1, Lost: 1}},
		"a user was told yes twice": {func(promises *[]promise, _ *[]row) {
			*promises = append(*promises,
				(*promises)[0])
		}, verdict{Twice: 1}},
		"a row is missing":     {func(_ *[]promise, rows *[]row) { *rows = (*rows)[1:] }, verdict{Lost: 1}},
		"all rows are missing": {func(_ *[]promise, rows *[]row) { *rows = nil }, verdict{Lost: 6}},
		"a row of the other coupon": {func(_ *[]promise, rows *[]row) { (*rows)[4].coupon = 2 }, verdict{Oversold: 1,
			Lost: 1}},
		"an error that left its row": {func(promises *[]promise, _ *[]row) { *promises = (*promises)[1:] }, verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promises, rows := good()
			c.plant(&promises, &rows)
			require.Equal(t, c.want, judge(3, promises, rows, nil))
		})
	}
}

func TestJudge_NotSelected(t *testing.T) {
	t.Parallel()
	promises, rows := good()
	promises = append(promises, promise{1, 7, 106, 6 * time.Millisecond})
	require.Equal(t, verdict{}, judge(3, promises, rows, map[key]bool{{1, 7}: true}), "the last in line")
	promises, rows = good()
	require.Equal(t, verdict{Inversions: 1}, judge(3, promises, rows[1:], map[key]bool{{1, 1}: true}),
		"the first in line")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	l := plan{rate: 10_000, length: 10 * time.Second}
	presses := l.presses(10)
	require.Len(t, presses, 100_000)
	require.Equal(t, presses, l.presses(10), "each contender gets the same")
	owner := map[int]int{}
	repeated := 0
	for i, p := range presses {
		require.GreaterOrEqual(t, p.due, presses[max(0, i-1)].due)
		require.Equal(t, owner[p.user] != 0, p.repeated)
		if p.repeated {
			repeated++
			require.Equal(t, owner[p.user], p.coupon, "a user presses for one coupon")
		}
		owner[p.user] = p.coupon
		require.LessOrEqual(t, p.user, l.of(10, interval).users-warmUsers)
	}
	require.Equal(t, len(presses)/repeatEvery, repeated)
	require.InDelta(t, l.length.Seconds(), presses[len(presses)-1].due.Seconds(), 0.5, "the rate in the mean")
}

func TestGrow(t *testing.T) {
	t.Parallel()
	var falling, growing load.Waits
	for i := range 1000 {
		falling = append(falling, time.Duration(1000-i)*time.Millisecond)
		growing = append(growing, time.Duration(i)*time.Millisecond)
	}
	require.False(t, grow(falling))
	require.True(t, grow(growing))
}

func TestAfter(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	o := outcome{events: []event{{ms(10), ms(12)}, {ms(1095), ms(1220)}, {ms(1130), ms(1230)}, {ms(1150), ms(1300)},
		{ms(2201), ms(2500)}}}
	f := o.after(strikes{from: ms(1100), until: ms(1200)})
	require.Equal(t, ms(30), f.first, "the press at 1,095 ms came before the fault")
	require.Equal(t, ms(150), f.longest, "the press at 2,201 ms came long after it")
}
