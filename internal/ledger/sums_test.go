package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestWalks_CountsRowsAtIntervals(t *testing.T) {
	t.Parallel()
	var w walks
	noon := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	require.True(t, w.countsRows(1, noon), "also right after the start of the process")
	require.True(t, w.countsRows(1, noon), "until a count was right")
	w.countedRows(1, noon)
	require.True(t, w.countsRows(2, noon))
	require.False(t, w.countsRows(1, noon.Add(countInterval-1)))
	require.True(t, w.countsRows(1, noon.Add(countInterval)))
	for id := range coupon.CouponID(maxWalked + 10) {
		w.countedRows(id, noon)
	}
	require.LessOrEqual(t, len(w.counted), maxWalked)
}

func TestWalks_KnowAnUnchangedDLQ(t *testing.T) {
	t.Parallel()
	var w walks
	look := func(since coupon.Arrival, changes int64) coupon.Look {
		return coupon.Look{Line: coupon.Line{DLQ: 3, Since: since}, DLQChanges: changes}
	}
	now := look(10, 5)
	_, known := w.inBoth(1, now)
	require.False(t, known)
	w.keep(1, now, 2)
	still, known := w.inBoth(1, now)
	require.True(t, known)
	require.EqualValues(t, 2, still)
	for name, other := range map[string]coupon.Look{
		"a change":       look(10, 6),
		"another server": look(11, 5),
	} {
		_, known = w.inBoth(1, other)
		require.False(t, known, name)
	}
	_, known = w.inBoth(2, coupon.Look{})
	require.True(t, known, "an empty DLQ")
	lost := coupon.Look{Line: coupon.Line{DLQ: 1}}
	w.keep(3, lost, 0)
	_, known = w.inBoth(3, lost)
	require.False(t, known, "without a state, changes are not counted")
}
