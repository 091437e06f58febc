package candidates

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// returned reads everybody who was handed over.
func (c *fixture) everyReturned(t testingT) (all []coupon.Application) {
	t.Helper()
	for next, first := uint64(0), true; first || next != 0; first = false {
		page, after, err := c.Returned(t.Context(), c.id, next)
		require.NoError(t, err)
		all, next = append(all, page...), after
	}
	return all
}

func TestHandOverOfThoseWhoDoNotStand(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue, dlq, issued []place
		rejected           []string
		marks              bool
		want               bool
	}{
		"found nowhere":                      {want: true},
		"in the queue at the arrival":        {queue: []place{{"1000", "7"}}},
		"in the queue at an earlier arrival": {queue: []place{{"999", "7"}}},
		"in the queue at a later arrival":    {queue: []place{{"1001", "7"}}, want: true},
		"in the DLQ at the arrival":          {dlq: []place{{"1000", "7"}}},
		"in the DLQ at an earlier arrival":   {dlq: []place{{"999", "7"}}},
		"in the DLQ at a later arrival":      {dlq: []place{{"1001", "7"}}, want: true},
		"later in the queue, earlier in the DLQ": {queue: []place{{"1001", "7"}},
			dlq: []place{{"999", "7"}}},
		"at a fraction, which counts as rounded down": {queue: []place{{"1000.5", "7"}}},
		"issued":                            {issued: []place{{"900", "7"}}, marks: true},
		"issued at a later arrival":         {issued: []place{{"1001", "7"}}, marks: true},
		"issued, in another epoch":          {issued: []place{{"900", "7"}}, want: true},
		"given by hand":                     {issued: []place{{"0", "7"}}, marks: true, want: true},
		"rejected, which the restore knows": {rejected: []string{"7"}, marks: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			w := c.open(t)
			c.addByHand(t, c.queue, tc.queue...)
			c.addByHand(t, c.dlq, tc.dlq...)
			c.addByHand(t, c.issued, tc.issued...)
			c.markRejected(t, tc.rejected...)
			epoch := c.observe(t).Epoch
			var want []int
			if tc.want {
				want = []int{0}
			}
			for range 2 {
				answers := []coupon.Answer{{User: 7, Arrival: 1000}}
				now, handed, err := c.HandOver(t.Context(), c.id, epoch, tc.marks, answers)
				require.NoError(t, err)
				require.Equal(t, epoch, now)
				require.Equal(t, want, handed)
				if tc.want {
					require.Equal(t, map[string]float64{"7": 1000}, c.scores(t, c.returned))
					require.Equal(t, w.Closes.Add(testTTL).Unix(), c.expires(t, c.returned))
				} else {
					c.requireExists(t, false, c.returned)
				}
			}
			require.EqualValues(t, len(want), c.observe(t).Returned)
		})
	}
}

// Indexes are those of the list, and the lowest arrival that a user was told counts.
func TestHandOverNamesThoseHandedOver(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	c.addByHand(t, c.queue, place{"1000", "2"}, place{"1000", "4"})
	require.Equal(t, []int{0, 2, 4}, c.handOver(t, []coupon.Answer{{User: 1, Arrival: 1000}, {User: 2, Arrival: 1000},
		{User: 3, Arrival: 1000}, {User: 4, Arrival: 1000}, {User: 18446744073709551615, Arrival: 8}}...))
	require.Equal(t, []int{0, 1}, c.handOver(t, []coupon.Answer{{User: 1, Arrival: 999}, {User: 3, Arrival: 1001}}...))
	require.Equal(t, map[string]float64{"1": 999, "3": 1000, "18446744073709551615": 8}, c.scores(t, c.returned))
}

func TestHandOverInAnotherEpochChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	old := c.observe(t).Epoch
	hand := func(epoch string) (now string) {
		t.Helper()
		now, handed, err := c.HandOver(t.Context(), c.id, epoch, false, []coupon.Answer{{User: 7, Arrival: 1000}})
		require.NoError(t, err)
		require.Empty(t, handed)
		c.requireExists(t, false, c.returned)
		return now
	}
	require.Equal(t, old, hand("another:1"))
	require.Equal(t, old, hand(""))
	c.set(t, "run_id", "of the server before")
	now := hand(old)
	require.Equal(t, c.look(t, coupon.Known{}).Epoch, now, "it has begun an epoch")
	require.NotEqual(t, old, now)
	require.False(t, c.observe(t).Restored)
}

// Whoever hands over has been told an arrival: such a coupon is never without promises.
func TestHandOverBeginsAnEpochThatNeedsARestore(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	now, handed, err := c.HandOver(t.Context(), c.id, "", false, []coupon.Answer{{User: 7, Arrival: 1000}})
	require.NoError(t, err)
	require.Empty(t, handed)
	require.Equal(t, now, c.observe(t).Epoch)
	require.False(t, c.observe(t).Restored)
	require.Equal(t, []int{0}, c.handOver(t, coupon.Answer{User: 7, Arrival: 1000}))
	require.Equal(t, noon.Add(testTTL).Unix(), c.expires(t, c.returned), "without a window")
}

// Every application of a swept coupon has its outcome.
func TestHandOverToASweptCouponChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	c.freeze(w.Closes)
	c.sweep(t, true, w.Closes)
	require.Empty(t, c.handOver(t, coupon.Answer{User: 7, Arrival: 1000}))
	c.requireExists(t, false, c.returned)

	w.Version, w.Closes = 2, w.Closes.Add(time.Hour) // the coupon is reopened
	c.publish(t, w)
	require.Equal(t, []int{0}, c.handOver(t, coupon.Answer{User: 7, Arrival: 1000}))
}

// A user who was handed over again meanwhile, at another arrival, is another matter.
func TestTakeReturnedRemovesWhomARestoreHasHandled(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.addByHand(t, c.returned, place{"1000", "1"}, place{"1000", "2"}, place{"1000", "3"}, place{"0", "0"},
		place{"12.5", "fraction"}, place{"-3", "below"}, place{"+inf", "above"})
	handled := c.everyReturned(t)
	require.ElementsMatch(t, []coupon.Application{{Member: "1", Arrival: 1000}, {Member: "2", Arrival: 1000},
		{Member: "3", Arrival: 1000}, {Member: "0"}, {Member: "fraction", Arrival: 12}, {Member: "below"},
		{Member: "above", Arrival: coupon.MaxArrival}}, handled)
	c.addByHand(t, c.returned, place{"999", "2"}, place{"1001", "3"}, place{"1000", "4"})
	for _, want := range []int64{1, 0} {
		n, err := c.number(t.Context(), takeReturnedScript, c.id, "1", 1000, "2", 1000, "absent", 0)
		require.NoError(t, err)
		require.Equal(t, want, n, "how many were removed")
	}
	require.NoError(t, c.TakeReturned(t.Context(), c.id, handled))
	require.Equal(t, map[string]float64{"2": 999, "3": 1001, "4": 1000}, c.scores(t, c.returned))
	require.NoError(t, c.TakeReturned(t.Context(), c.id, c.everyReturned(t)))
	c.requireExists(t, false, c.returned)
}

func TestReturnedIsReadByPages(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	want := map[string]float64{}
	var all []coupon.Answer
	for i := range coupon.UserID(5 * MaxAnswers) {
		all = append(all, coupon.Answer{User: i + 1, Arrival: coupon.Arrival(i) + 7})
		want[decimal(int64(i+1))] = float64(i + 7)
	}
	for some := range slices.Chunk(all, MaxAnswers) {
		require.Len(t, c.handOver(t, some...), MaxAnswers)
	}
	got := map[string]float64{}
	pages := 0
	for next := uint64(0); pages == 0 || next != 0; pages++ {
		page, after, err := c.Returned(t.Context(), c.id, next)
		require.NoError(t, err)
		require.NoError(t, c.TakeReturned(t.Context(), c.id, page), "as a restore does it, page by page")
		next = after
		for _, a := range page {
			got[a.Member] = float64(a.Arrival)
		}
	}
	require.Equal(t, want, got)
	require.Greater(t, pages, 1)
	c.requireExists(t, false, c.returned)

	require.NoError(t, c.rdb.Set(t.Context(), c.returned, "in the way", 0).Err())
	_, _, err := c.Returned(t.Context(), c.id, 0)
	require.ErrorContains(t, err, "coupon 42")
}
