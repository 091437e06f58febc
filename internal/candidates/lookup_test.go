package candidates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestLookupUserReadsEveryState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	lookUp := func(user coupon.UserID) UserLookup {
		got, err := c.LookupUser(t.Context(), c.id, user)
		require.NoError(t, err)
		return got
	}
	blank := lookUp(1)
	require.False(t, blank.Window.Known)
	require.Empty(t, blank.Entries)

	c.open(t)
	receipts := c.accept(t, 1, 2, 3)
	c.addByHand(t, c.dlq, place{"4000", "4"}, place{"5000", "5"}, place{"2000.5", "2"})
	c.add(t, c.issued, "3")
	c.add(t, c.rejected, "6")
	_, err := c.rdb.HSet(t.Context(), c.reason, "5", `{"cause":"BAD_ROW","note":"no","retryable":true,"attempts":3,"run":8}`, "4", "no JSON").Result()
	require.NoError(t, err)

	at := func(entries ...coupon.Application) []coupon.Application { return entries }
	for user, want := range map[coupon.UserID]UserLookup{
		1: {Entries: at(entry("1", receipts[0].Arrival, coupon.SourceQueue)), Position: 1},
		2: {Entries: at(entry("2", receipts[1].Arrival, coupon.SourceQueue), entry("2", 2000, coupon.SourceHeld)), Position: 2},
		3: {Entries: at(entry("3", receipts[2].Arrival, coupon.SourceQueue)), Position: 3, MarkedIssued: true},
		4: {Entries: at(entry("4", 4000, coupon.SourceHeld))},
		5: {Entries: at(entry("5", 5000, coupon.SourceRetryable)), Reason: &Reason{Cause: "BAD_ROW", Note: "no", Retryable: true, Attempts: 3, Run: 8}},
		6: {MarkedRejected: true},
		7: {},
	} {
		got := lookUp(user)
		require.True(t, got.Window.Known)
		require.False(t, got.Window.Paused)
		require.False(t, got.Window.Sold)
		require.EqualValues(t, 3, got.Window.Accepted)
		require.Equal(t, receipts[2].Arrival, got.Window.LastArrival)
		require.True(t, got.Window.Opens.Before(got.Now) && got.Now.Before(got.Window.Closes))
		require.EqualValues(t, 3, got.Waiting)
		got.Now, got.Window, got.Waiting = blank.Now, WindowState{}, 0
		want.Now = blank.Now
		require.Equal(t, want, got, "user %d", user)
	}
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	require.True(t, lookUp(7).Window.Sold)
}
