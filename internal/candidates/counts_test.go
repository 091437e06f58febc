package candidates

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestCountsOfEverything(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	require.Equal(t, Counts{Now: noon, PutBackWait: defaultPutBackTime, MaxPutBackWait: defaultPutBackTime},
		c.counts(t), "an unknown coupon")

	c.open(t)
	at := c.accept(t, 1, 2, 3, 4, 5, 6, 7)
	closes := noon.Add(time.Hour)
	remove := func(mark coupon.Mark, i int) {
		c.remove(t, closes, mark, coupon.Application{Member: strconv.Itoa(i + 1), Arrival: at[i].Arrival})
	}
	remove(coupon.MarkIssued, 0)
	remove(coupon.MarkIssued, 1)
	remove(coupon.MarkRejected, 2)
	remove(coupon.MarkNone, 3)
	c.review(t, failed{Application: coupon.Application{Member: "7", Arrival: at[6].Arrival,
		Source: coupon.SourceQueue}})
	require.Equal(t, Counts{
		Since: µs(noon), PutBackWait: defaultPutBackTime, MaxPutBackWait: defaultPutBackTime,
		Now: noon, Accepted: 7, LastArrival: at[6].Arrival, Waiting: 2, DLQ: 1, Issued: 2, Rejected: 1, DLQChanges: 1,
		Highest:      at[6].Arrival,
		WaitingAfter: 2, DLQAfter: 1,
	}, c.counts(t), "the highest arrival is in the DLQ")
	for behind, want := range map[coupon.Arrival][2]int64{at[4].Arrival: {1, 1}, at[5].Arrival: {0, 1},
		at[6].Arrival: {0, 0}} {
		f, err := c.Counts(t.Context(), c.id, behind)
		require.NoError(t, err)
		require.Equal(t, want, [2]int64{f.WaitingAfter, f.DLQAfter})
	}

	c.remove(t, closes, coupon.MarkNone, coupon.Application{Member: "7", Arrival: at[6].Arrival})
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	require.Equal(t, Counts{
		Since: µs(noon), PutBackWait: defaultPutBackTime, MaxPutBackWait: defaultPutBackTime,
		Now: noon, Accepted: 7, LastArrival: at[6].Arrival, Waiting: 2, Issued: 2, Rejected: 1, DLQChanges: 2,
		Sold: true, Highest: at[5].Arrival,
		WaitingAfter: 2,
	}, c.counts(t))
}

func TestCountsMatchHandwrittenScores(t *testing.T) {
	t.Parallel()
	for score, want := range map[string]coupon.Arrival{
		"-inf": 0, "-5": 0, "0": 0, "12.75": 12, "8999999999999999": 8999999999999999, "1e300": 1<<53 - 1,
		"+inf": 1<<53 - 1,
	} {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.addByHand(t, c.queue, place{score, "x"})
			require.Equal(t, want, c.counts(t).Highest)
		})
	}
}

func TestCountByIntervalIncludesLowerBounds(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	count := func(from, to coupon.Arrival) [2]int64 {
		waiting, dlq, err := c.CountByInterval(t.Context(), c.id, []coupon.Arrival{from, to})
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		require.Len(t, dlq, 1)
		return [2]int64{waiting[0], dlq[0]}
	}
	const first = 1795143600000000 // µs, which a double holds exactly
	require.Equal(t, [2]int64{}, count(0, first), "no keys")
	for i, member := range []string{"1", "2", "3"} {
		require.NoError(t, c.rdb.ZAdd(t.Context(), c.queue, redis.Z{Score: float64(first + i), Member: member}).Err())
	}
	require.NoError(t, c.rdb.ZAdd(t.Context(), c.dlq, redis.Z{Score: first + 1, Member: "4"}).Err())
	require.Equal(t, [2]int64{3, 1}, count(first, first+3))
	require.Equal(t, [2]int64{2, 1}, count(first+1, first+3))
	require.Equal(t, [2]int64{2, 1}, count(first, first+2))
	require.Equal(t, [2]int64{1, 0}, count(first, first+1))
	require.Equal(t, [2]int64{}, count(first+3, first+9))
	require.Equal(t, [2]int64{}, count(first+2, first+2))
	require.Equal(t, [2]int64{}, count(first+2, first+1))

	// More intervals than one call takes.
	bounds := []coupon.Arrival{first - 2*maxIntervals}
	for len(bounds) <= 2*maxIntervals+5 {
		bounds = append(bounds, bounds[len(bounds)-1]+1)
	}
	waiting, dlq, err := c.CountByInterval(t.Context(), c.id, bounds)
	require.NoError(t, err)
	want := make([]int64, 2*maxIntervals)
	require.Equal(t, append(want, 1, 1, 1, 0, 0), waiting)
	require.Equal(t, append(want, 0, 1, 0, 0, 0), dlq)
	for _, bounds := range [][]coupon.Arrival{nil, {first}} {
		waiting, dlq, err = c.CountByInterval(t.Context(), c.id, bounds)
		require.NoError(t, err)
		require.Empty(t, waiting)
		require.Empty(t, dlq)
	}

	require.NoError(t, c.rdb.Del(t.Context(), c.queue).Err())
	require.NoError(t, c.rdb.Set(t.Context(), c.queue, "taken by something else", 0).Err())
	_, _, err = c.CountByInterval(t.Context(), c.id, []coupon.Arrival{0, first})
	require.ErrorContains(t, err, "count_by_interval for coupon 42")
}
