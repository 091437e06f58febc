package candidates

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestPositionsAreRightAmongHandwrittenEntries(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	first := µs(noon)
	c.addByHand(t, c.queue, place{decimal(first + 2), "0"}, place{"+inf", "77"}, place{"-5", "78"})
	receipts := c.applyAll(t, 11, 12, 13, 14, 15, 77, 78)
	for i, user := range []coupon.UserID{11, 12, 13, 14, 15} {
		rank := c.rdb.ZRank(t.Context(), c.queue, fmt.Sprint(user)).Val()
		require.Equal(t, rank+1, receipts[i].Position, "user %d", user)
	}
	require.EqualValues(t, coupon.MaxArrival, receipts[5].Arrival)
	require.Zero(t, receipts[6].Arrival)
	w, err := c.Watch(t.Context(), c.id, 0, 77)
	require.NoError(t, err)
	require.EqualValues(t, coupon.MaxArrival, w.Users[0].Entries[0].Arrival)
}

func TestBatchStopsBeforeTheEndOfTheWindow(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	c.freeze(w.Closes.Add(-3 * time.Microsecond))
	receipts := c.applyAll(t, 1, 2, 3, 4, 5, 2)
	var codes []Code
	for _, r := range receipts {
		codes = append(codes, r.Code)
		require.Less(t, r.Arrival, µs(w.Closes))
	}
	require.Equal(t, []Code{Accepted, Accepted, Accepted, Closed, Closed, Duplicate}, codes)
	require.Equal(t, "3", c.get(t, "accepted"))
	require.Equal(t, Closed, c.apply(t, 6).Code)
}

func TestBatchAnswersLikeSingleApplications(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	at := c.accept(t, 1, 2)
	c.addByHand(t, c.dlq, place{"2000000", "3"})
	c.markIssued(t, "4")
	c.markRejected(t, "5")
	later := noon.Add(time.Second)
	c.freeze(later)
	receipts := c.applyAll(t, 9, 2, 3, 8, 4, 9, 5, 7, 8, 18446744073709551615)
	first := µs(later)
	want := []Receipt{
		{Code: Accepted, Arrival: first, Position: 3},
		{Code: Duplicate, Arrival: at[1].Arrival, Position: 2},
		{Code: UnderReview, Arrival: 2000000},
		{Code: Accepted, Arrival: first + 1, Position: 4},
		{Code: AlreadyIssued},
		{Code: Duplicate, Arrival: first, Position: 3},
		{Code: Rejected},
		{Code: Accepted, Arrival: first + 2, Position: 5},
		{Code: Duplicate, Arrival: first + 1, Position: 4},
		{Code: Accepted, Arrival: first + 3, Position: 6},
	}
	for i := range want {
		want[i].Now, want[i].OpensAt = later, w.Opens
	}
	require.Equal(t, want, receipts)
	require.Equal(t, map[string]float64{
		"1": float64(at[0].Arrival), "2": float64(at[1].Arrival), "9": float64(first), "8": float64(first + 1),
		"7":                    float64(first + 2),
		"18446744073709551615": float64(first + 3),
	}, c.scores(t, c.queue))
	require.Equal(t, "6", c.get(t, "accepted"))
	require.Equal(t, decimal(first+3), c.get(t, "last"))

	c.set(t, "sold", 1)
	receipts = c.applyAll(t, 10, 9)
	require.Equal(t, []Code{SoldOut, Duplicate}, []Code{receipts[0].Code, receipts[1].Code})
	c.freeze(w.Closes)
	receipts = c.applyAll(t, 10, 9)
	require.Equal(t, []Code{Closed, Closed}, []Code{receipts[0].Code, receipts[1].Code})
}
