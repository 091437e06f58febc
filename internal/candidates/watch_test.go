package candidates

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestWatch_FindsMarksAndEntries(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	watch := func(users ...coupon.UserID) Watch {
		got, err := c.Watch(t.Context(), c.id, 0, users...)
		require.NoError(t, err)
		return got
	}
	blank := watch(1)
	require.Zero(t, blank.Opens)
	require.Equal(t, []Found{{}}, blank.Users)

	window := c.open(t)
	receipts := c.accept(t, 1, 2, 3)
	c.addByHand(t, c.dlq, place{"4000", "4"}, place{"5000", "5"}, place{"2000.5", "2"}, place{"0", "3"})
	c.markIssued(t, "9", "1", "8") // 1 is issued and not cleaned up yet
	c.markRejected(t, "6", "8")
	const reason = `{"cause":"BAD_ROW","note":"no","retryable":true,"attempts":3,"run":8}`
	_, err := c.rdb.HSet(t.Context(), c.reason, "5", reason, "4", "no JSON", "7", `{"cause":"OF_NO_ENTRY"}`).Result()
	require.NoError(t, err)

	at := func(entries ...coupon.Application) []coupon.Application { return entries }
	want := []Found{
		{Entries: at(entry("1", receipts[0].Arrival, coupon.SourceQueue)), Position: 1, MarkedIssued: true},
		{Entries: at(entry("2", receipts[1].Arrival, coupon.SourceQueue), entry("2", 2000, coupon.SourceHeld)),
			Position: 2},
		{Entries: at(entry("3", receipts[2].Arrival, coupon.SourceQueue), entry("3", 0, coupon.SourceHeld)),
			Position: 3},
		{Entries: at(entry("4", 4000, coupon.SourceHeld))},
		{Entries: at(entry("5", 5000, coupon.SourceRetryable)),
			Reason: &Reason{Cause: "BAD_ROW", Note: "no", Retryable: true, Attempts: 3, Run: 8}},
		{MarkedRejected: true},
		{},
		{MarkedIssued: true, MarkedRejected: true},
		{MarkedIssued: true},
	}
	got := watch(1, 2, 3, 4, 5, 6, 7, 8, 9)
	require.Equal(t, want, got.Users)
	require.Equal(t, []any{noon, µs(window.Opens), µs(window.Closes), false, false},
		[]any{got.Now, got.Opens, got.Closes, got.Paused, got.Sold})
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	require.NoError(t, c.rdb.HSet(t.Context(), c.state, "status", "PAUSED").Err())
	got = watch(7)
	require.True(t, got.Sold && got.Paused)
	require.Empty(t, watch().Users)
}

// The entries of chosen members are those that a walk through the DLQ finds.
func TestFindUnderReview_FindsWhatAWalkFinds(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.openNow(t)
	c.accept(t, 9500, 1)
	var all []string
	for i := range 2*MaxWatched + 10 {
		member := fmt.Sprint(i + 1)
		all = append(all, member)
		c.addByHand(t, c.dlq, place{fmt.Sprint(1000 + i/2), member})
	}
	c.addByHand(t, c.dlq, place{"999", "no user"})
	require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "7", `{"cause":"BAD_ROW","retryable":true}`).Err())
	walked := map[string]coupon.Application{}
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := c.UnderReview(t.Context(), c.id, cursor)
		require.NoError(t, err)
		if cursor = next; len(page) == 0 {
			break
		}
		for _, a := range page {
			walked[a.Member] = a
		}
	}
	require.Len(t, walked, len(all)+1)

	found, err := c.FindUnderReview(t.Context(), c.id, append(all, "no user", "9500", "9000", "7"))
	require.NoError(t, err)
	require.Len(t, found, len(walked), "each once; 9500 is in the queue alone")
	require.Equal(t, "no user", found[0].Member, "by arrival")
	for _, a := range found {
		require.Equal(t, walked[a.Member], a)
	}
	found, err = c.FindUnderReview(t.Context(), c.id, nil)
	require.NoError(t, err)
	require.Empty(t, found)
}

// What a process needs to know whether applications are lost comes with each answer.
func TestWatch_HasThePromises(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	watch := func(users ...coupon.UserID) coupon.Line {
		t.Helper()
		w, err := c.Watch(t.Context(), c.id, 0, users...)
		require.NoError(t, err)
		return w.Line
	}
	require.Equal(t, coupon.Line{}, watch(7), "the server is new to the coupon")

	c.open(t)
	at := c.accept(t, 1, 2, 3)
	c.review(t, failed{Application: entry("1", at[0].Arrival, coupon.SourceQueue)})
	require.Len(t, c.handOver(t, coupon.Answer{User: 9, Arrival: 9}), 1)
	want := coupon.Line{Epoch: c.observe(t).Epoch, Since: µs(noon), Accepted: 3, Last: at[2].Arrival, Waiting: 2,
		DLQ: 1, Returned: 1}
	require.Equal(t, want, watch(7))
	ended, err := c.EndRestore(t.Context(), c.id, Ending{Compare: true, Epoch: c.observe(t).Epoch, Settled: 1,
		InBoth: 0, Began: 1})
	require.NoError(t, err)
	require.True(t, ended.Done)
	c.set(t, "left", 5)
	want.Restored, want.Restores, want.Left, want.Accepted = true, 1, 5, 4
	require.Equal(t, want, watch(7))

	c.set(t, "run_id", strings.Repeat("a", 40))
	want.Epoch = fmt.Sprintf("%s:%d", strings.Repeat("a", 40), want.Since)
	require.Equal(t, want, watch(2, 1), "nobody asks the server while all users are found")
	want.Epoch, want.Since, want.Restored = "", 0, false
	require.Equal(t, want, watch(2, 7), "another server has written the state")
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
	require.Equal(t, []Found{
		{Entries: []coupon.Application{entry("3", receipts[2].Arrival, coupon.SourceQueue)}, Position: 3},
		{},
		{Entries: []coupon.Application{entry("1", receipts[0].Arrival, coupon.SourceQueue)}, Position: 1},
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
