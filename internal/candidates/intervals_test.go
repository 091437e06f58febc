package candidates

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSpanCountsFromTheFirstToBeforeTheLast(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	count := func(from, to int64) [2]int64 {
		waiting, dlq, err := c.CountByInterval(t.Context(), c.id, []int64{from, to})
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		require.Len(t, dlq, 1)
		return [2]int64{waiting[0], dlq[0]}
	}
	const first = 1795143600000000 // µs, which a double still tells apart
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

	// More spans than a call counts, each with its own.
	bounds := []int64{first - 2*maxIntervals}
	for len(bounds) <= 2*maxIntervals+5 {
		bounds = append(bounds, bounds[len(bounds)-1]+1)
	}
	waiting, dlq, err := c.CountByInterval(t.Context(), c.id, bounds)
	require.NoError(t, err)
	want := make([]int64, 2*maxIntervals)
	require.Equal(t, append(want, 1, 1, 1, 0, 0), waiting)
	require.Equal(t, append(want, 0, 1, 0, 0, 0), dlq)
	for _, bounds := range [][]int64{nil, {first}} {
		waiting, dlq, err = c.CountByInterval(t.Context(), c.id, bounds)
		require.NoError(t, err)
		require.Empty(t, waiting)
		require.Empty(t, dlq)
	}

	require.NoError(t, c.rdb.Del(t.Context(), c.queue).Err())
	require.NoError(t, c.rdb.Set(t.Context(), c.queue, "taken by something else", 0).Err())
	_, _, err = c.CountByInterval(t.Context(), c.id, []int64{0, first})
	require.ErrorContains(t, err, "count intervals of coupon 42")
}
