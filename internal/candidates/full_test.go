package candidates

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// fill exhausts the memory of the coupon's own Redis, or restores it.
func (c *fixture) fill(t *testing.T, full bool) {
	t.Helper()
	limit := "0"
	if full {
		limit = "1"
	}
	require.NoError(t, c.rdb.ConfigSet(t.Context(), "maxmemory", limit).Err())
}

// Settlements, windows and clean-ups need no memory: they free it.
func TestFullRedisServesAllButNewApplications(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	ctx := t.Context()
	c.openNow(t)
	at := c.accept(t, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	entry := func(user int) coupon.Application {
		return coupon.Application{Member: decimal(int64(user)), Arrival: at[user-1].Arrival, Source: coupon.SourceQueue}
	}
	now, err := c.Now(ctx)
	require.NoError(t, err)
	c.fill(t, true)

	before := c.content(t)
	receipt, err := c.Apply(ctx, c.id, 10)
	require.ErrorContains(t, err, "OOM")
	require.Zero(t, receipt)
	require.Equal(t, before, c.content(t))
	require.Equal(t, Duplicate, c.apply(t, 1).Code, "a queued user gets an answer")

	cutoff := now.Add(time.Microsecond) // Redis has passed it
	require.GreaterOrEqual(t, c.fence(t, cutoff).Last, µs(cutoff)-1)
	epoch := c.observe(t).Epoch
	_, handed, err := c.HandOver(ctx, c.id, epoch, false, []coupon.Answer{{User: 20, Arrival: at[8].Arrival}})
	require.NoError(t, err)
	require.Equal(t, []int{0}, handed)
	entered, err := c.Enter(ctx, c.id, epoch, []Entry{{Answer: coupon.Answer{User: 20, Arrival: at[8].Arrival}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, entered.Entered)
	require.NoError(t, c.TakeReturned(ctx, c.id, []coupon.Application{{Member: "20", Arrival: at[8].Arrival}}))
	c.endRestore(t)
	done, err := c.AddExcess(ctx, c.id, epoch, 0)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, c.Renew(ctx, c.id, now.Add(time.Hour)))
	require.EqualValues(t, 3, c.remove(t, now, coupon.MarkIssued, entry(1), entry(2), entry(3)), "neighbours")
	require.EqualValues(t, 2, c.remove(t, now, coupon.MarkIssued, entry(4), entry(6)), "one by one")
	require.EqualValues(t, 1, c.review(t, failed{Application: entry(5)}))
	require.EqualValues(t, 1, c.release(t, entry(5)))
	require.EqualValues(t, 1, c.remove(t, now, coupon.MarkRejected, entry(5)))
	require.EqualValues(t, 4, c.remove(t, now, coupon.MarkNone, entry(7), entry(8), entry(9), coupon.Application{
		Member: "20", Arrival: at[8].Arrival}))
	require.NoError(t, c.SetSold(ctx, c.id, true))
	version, end, err := c.stopApplying(ctx, c.id, 2, false)
	require.NoError(t, err)
	require.EqualValues(t, 2, version)
	c.publish(t, coupon.Window{Coupon: c.id, Version: 3, Opens: now.Add(-time.Hour), Closes: end})

	f := c.observe(t)
	require.EqualValues(t, []int64{0, 0, 5, 1}, []int64{f.Waiting, f.DLQ, f.Issued, f.Rejected})
	c.sweep(t, true, end)
	c.requireExists(t, false, c.queue, c.dlq, c.rejected)
	require.NoError(t, c.Unmark(ctx, c.id))
	c.requireExists(t, false, c.issued)

	// A coupon without a state gets its window.
	c.publish(t, coupon.Window{Coupon: 43, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)})
	c.fill(t, false)
	receipt, err = c.Apply(ctx, 43, 10)
	require.NoError(t, err)
	require.Equal(t, Accepted, receipt.Code)
}

// A failover pauses writes. The server knows the scripts by then.
func TestReadsWorkWhileWritesArePaused(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	ctx := t.Context()
	c.openNow(t)
	c.accept(t, 1)
	read := func() {
		t.Helper()
		w, err := c.Watch(ctx, c.id, 0, 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, w.Users[0].Position)
		require.EqualValues(t, 1, c.observe(t).Waiting)
		entries, _ := c.page(t, coupon.Cursor{}, time.UnixMicro(9e15))
		require.Len(t, entries, 1)
		require.EqualValues(t, 1, w.Waiting)
		waiting, _, err := c.CountByInterval(ctx, c.id, []coupon.Arrival{0, 9e15})
		require.NoError(t, err)
		require.Equal(t, []int64{1}, waiting)
	}
	read()
	require.NoError(t, c.rdb.Do(ctx, "CLIENT", "PAUSE", "60000", "WRITE").Err())
	read()
}
