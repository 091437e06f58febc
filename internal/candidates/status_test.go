package candidates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestStatusOfEveryStanding(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	receipts := c.accept(t, 1, 2, 3)
	c.addByHand(t, c.dlq, place{"4000", "4"})
	c.add(t, c.issued, "5", "1") // 1 is issued and not cleaned up yet
	c.add(t, c.rejected, "6")

	for user, want := range map[coupon.UserID]Status{
		1: {Standing: coupon.StandingIssued},
		2: {Standing: coupon.StandingPending, Arrival: receipts[1].Arrival, Position: 2},
		4: {Standing: coupon.StandingUnderReview, Arrival: 4000},
		5: {Standing: coupon.StandingIssued},
		6: {Standing: coupon.StandingRejected},
		7: {Standing: coupon.StandingNone},
	} {
		got, err := c.Status(t.Context(), c.id, user)
		require.NoError(t, err)
		want.Now, want.Line = noon, got.Line
		require.Equal(t, want, got, "user %d", user)
	}
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	got, err := c.Status(t.Context(), c.id, 7)
	require.NoError(t, err)
	require.Equal(t, Status{Standing: coupon.StandingNone, Sold: true, Now: noon, Line: got.Line}, got)
}

// What a process needs to know whether applications are lost comes with each answer.
func TestStatusHasThePromises(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	lost, err := c.Status(t.Context(), c.id, 7)
	require.NoError(t, err)
	require.Equal(t, Line{}, lost.Line, "redis has no window")

	c.open(t)
	receipts := c.accept(t, 1, 2, 3)
	_, err = c.moveToDLQ(t.Context(), c.id, []failed{{Application: coupon.Application{Member: "1", Arrival: receipts[0].Arrival, Source: coupon.SourceQueue}}})
	require.NoError(t, err)
	require.NoError(t, c.rdb.HSet(t.Context(), c.state, "base", 2, "twice", 1, "restored", 5, "missing", 4).Err())
	got, err := c.Status(t.Context(), c.id, 7)
	require.NoError(t, err)
	require.Positive(t, got.Line.Since)
	require.Equal(t, Line{Window: true, Last: receipts[2].Arrival, Since: got.Line.Since, Restored: 5, Accepted: 3, Twice: 1, Base: 2, Missing: 4,
		Waiting: 2, DLQ: 1}, got.Line)
	lines, err := c.Lines(t.Context(), []coupon.CouponID{c.id})
	require.NoError(t, err)
	require.Equal(t, lines[c.id], got.Line)
}

func TestWatchCountsEntriesUpToAnArrival(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	w, err := c.Watch(t.Context(), c.id, 0)
	require.NoError(t, err)
	require.Zero(t, w.Lowest)
	require.Zero(t, w.Highest)
	require.Zero(t, w.Waiting)
	require.Zero(t, w.Last)

	receipts := c.accept(t, 1, 2, 3)
	w, err = c.Watch(t.Context(), c.id, receipts[1].Arrival, 3, 9, 1)
	require.NoError(t, err)
	require.Equal(t, receipts[0].Arrival, w.Lowest)
	require.Equal(t, receipts[2].Arrival, w.Highest)
	require.EqualValues(t, 3, w.Waiting)
	require.EqualValues(t, 2, w.UpTo, "the bound is included")
	require.Equal(t, []Status{
		{Standing: coupon.StandingPending, Arrival: receipts[2].Arrival, Position: 3, Now: noon},
		{Standing: coupon.StandingNone, Now: noon},
		{Standing: coupon.StandingPending, Arrival: receipts[0].Arrival, Position: 1, Now: noon},
	}, w.Users)
	require.Positive(t, w.Since)

	require.NoError(t, c.rdb.Del(t.Context(), c.queue).Err())
	w, err = c.Watch(t.Context(), c.id, 0)
	require.NoError(t, err)
	require.Zero(t, w.Highest)
	require.Equal(t, receipts[2].Arrival, w.Last, "the queue forgets it")
}

func TestWatchAsksAboutManyUsers(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	users := make([]coupon.UserID, MaxWatched)
	for i := range users {
		users[i] = coupon.UserID(i + 1)
	}
	c.accept(t, users...)
	w, err := c.Watch(t.Context(), c.id, 0, users...)
	require.NoError(t, err)
	for i, u := range w.Users {
		require.EqualValues(t, i+1, u.Position)
	}
}
