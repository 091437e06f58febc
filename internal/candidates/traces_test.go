package candidates

import (
	"testing"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

func TestTracesOfEverythingAUserCanLeave(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	traces := func(user coupon.UserID) Traces {
		got, err := c.Traces(t.Context(), c.id, user)
		require.NoError(t, err)
		return got
	}
	blank := traces(1)
	require.False(t, blank.Door.Known)
	require.Empty(t, blank.Stands)

	c.open(t)
	receipts := c.accept(t, 1, 2, 3)
	c.stand(t, c.dlq, place{"4000", "4"}, place{"5000", "5"}, place{"2000.5", "2"})
	c.add(t, c.issued, "3")
	c.add(t, c.rejected, "6")
	_, err := c.rdb.HSet(t.Context(), c.reason, "5", `{"cause":"BAD_ROW","message":"no","retryable":true,"attempts":3,"run":8}`, "4", "no JSON").Result()
	require.NoError(t, err)

	at := func(entries ...coupon.Application) []coupon.Application { return entries }
	for user, want := range map[uint64]Traces{
		1: {Stands: at(entry("1", receipts[0].Arrival, coupon.SourceQueue)), Position: 1},
		2: {Stands: at(entry("2", receipts[1].Arrival, coupon.SourceQueue), entry("2", 2000, coupon.SourceHeld)), Position: 2},
		3: {Stands: at(entry("3", receipts[2].Arrival, coupon.SourceQueue)), Position: 3, MarkedIssued: true},
		4: {Stands: at(entry("4", 4000, coupon.SourceHeld))},
		5: {Stands: at(entry("5", 5000, coupon.SourceRetryable)), Reason: &Reason{Cause: "BAD_ROW", Message: "no", Retryable: true, Attempts: 3, Run: 8}},
		6: {MarkedRejected: true},
		7: {},
	} {
		got := traces(user)
		require.True(t, got.Door.Known)
		require.False(t, got.Door.Paused)
		require.False(t, got.Door.Sold)
		require.EqualValues(t, 3, got.Door.Accepted)
		require.Equal(t, receipts[2].Arrival, got.Door.LastArrival)
		require.True(t, got.Door.Opens.Before(got.Now) && got.Now.Before(got.Door.Closes))
		require.EqualValues(t, 3, got.Waiting)
		got.Now, got.Door, got.Waiting = blank.Now, Door{}, 0
		want.Now = blank.Now
		require.Equal(t, want, got, "user %d", user)
	}
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	require.True(t, traces(7).Door.Sold)
}
