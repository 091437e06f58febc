package candidates

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestAbsentAreThoseWhoDoNotStand(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.addByHand(t, c.queue, place{"1000", "1"}, place{"999", "2"}, place{"1001", "3"}, place{"1001", "6"})
	c.addByHand(t, c.dlq, place{"1000", "4"}, place{"1001", "5"}, place{"999", "6"})
	c.markIssued(t, "7")
	var all []coupon.Answer
	for user := range coupon.UserID(8) {
		all = append(all, coupon.Answer{User: user + 1, Arrival: 1000})
	}
	absent, err := c.Absent(t.Context(), c.id, all)
	require.NoError(t, err)
	require.Equal(t, []coupon.Answer{all[2], all[4], all[6], all[7]}, absent)
	absent, err = c.Absent(t.Context(), c.id, nil)
	require.NoError(t, err)
	require.Empty(t, absent)
	for range 2 * MaxCompared {
		all = append(all, coupon.Answer{User: coupon.UserID(1000 + len(all)), Arrival: 1})
	}
	absent, err = c.Absent(t.Context(), c.id, all[8:8+MaxCompared])
	require.NoError(t, err)
	require.Equal(t, all[8:8+MaxCompared], absent)

	require.NoError(t, c.rdb.Del(t.Context(), c.dlq).Err())
	require.NoError(t, c.rdb.Set(t.Context(), c.dlq, "in the way", 0).Err())
	_, err = c.Absent(t.Context(), c.id, all[:1])
	require.ErrorContains(t, err, "coupon 42")
}

func TestEnterOfOneWhoStands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue, dlq         string // the score there; "": none
		wantQueue, wantDLQ string
		moved              int64
	}{
		"at the arrival":               {queue: "1000", wantQueue: "1000"},
		"earlier":                      {queue: "999", wantQueue: "999"},
		"later":                        {queue: "1001", wantQueue: "1000", moved: 1},
		"in the DLQ at the arrival":    {dlq: "1000", wantDLQ: "1000"},
		"in the DLQ earlier":           {dlq: "999", wantDLQ: "999"},
		"in the DLQ later":             {dlq: "1001", wantDLQ: "1000", moved: 1},
		"in both, one of them earlier": {queue: "1001", dlq: "999", wantQueue: "1001", wantDLQ: "999"},
		"in both, and later in both": {queue: "1001", dlq: "1002", wantQueue: "1000", wantDLQ: "1002",
			moved: 1},
		"at a fraction that is rounded down": {queue: "1000.5", wantQueue: "1000.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			scores := func(score string) map[string]float64 {
				if score == "" {
					return map[string]float64{}
				}
				var n float64
				_, err := fmt.Sscan(score, &n)
				require.NoError(t, err)
				return map[string]float64{"7": n}
			}
			if tc.queue != "" {
				c.addByHand(t, c.queue, place{tc.queue, "7"})
			}
			if tc.dlq != "" {
				c.addToDLQ(t, place{tc.dlq, "7"}, `{"cause":"BAD_ROW"}`)
			} else { // of a DLQ entry that is lost; the user has applied again
				require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "7", "{}").Err())
			}
			c.markRejected(t, "7")
			before := c.observe(t)
			for range 2 {
				require.Equal(t, Entered{Epoch: before.Epoch, Moved: tc.moved}, c.enter(t, entryOf(7, 1000)))
				require.Equal(t, scores(tc.wantQueue), c.scores(t, c.queue))
				require.Equal(t, scores(tc.wantDLQ), c.scores(t, c.dlq))
				tc.moved = 0
			}
			after := c.observe(t)
			require.Equal(t, before.Last, after.Last)
			require.Equal(t, before.Accepted, after.Accepted)
			require.Equal(t, []string{"7"}, c.marked(t, coupon.MarkRejected), "a mark of one who stands is left alone")
			require.Equal(t, tc.dlq != "", c.rdb.HExists(t.Context(), c.reason, "7").Val(),
				"reasons without an entry go")
			moved := tc.dlq != tc.wantDLQ
			require.Equal(t, moved, after.DLQChanges > before.DLQChanges, "runs read the DLQ again")
		})
	}
}

// A mark that MySQL does not know goes; that of a coupon given by hand stays.
func TestEnterOfOneWhoIsLost(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	at := c.accept(t, 1)[0].Arrival
	c.markIssued(t, "2", "3")
	c.addByHand(t, c.issued, place{"0", "4"})
	c.markRejected(t, "2", "5", "9")
	require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "2", "{}", "8", "{}").Err())
	require.NoError(t, c.rdb.Persist(t.Context(), c.queue).Err())
	before := c.observe(t)
	byHand := entryOf(4, at+3)
	byHand.ByHand = true
	entries := []Entry{entryOf(2, at-1), entryOf(3, at+2), byHand, entryOf(5, at+4), entryOf(1, at), entryOf(2, at)}
	require.Equal(t, Entered{before.Epoch, 4, 0}, c.enter(t, entries...))
	require.Equal(t, map[string]float64{"2": float64(at - 1), "1": float64(at), "3": float64(at + 2),
		"4": float64(at + 3), "5": float64(at + 4)}, c.scores(t, c.queue))
	require.Equal(t, []string{"4"}, c.marked(t, coupon.MarkIssued))
	require.Equal(t, []string{"9"}, c.marked(t, coupon.MarkRejected))
	require.Equal(t, map[string]string{"8": "{}"}, c.rdb.HGetAll(t.Context(), c.reason).Val(),
		"of a DLQ entry that is lost")
	after := c.observe(t)
	require.Equal(t, at+4, after.Last, "no later arrival is below one that exists")
	require.EqualValues(t, 1, after.Accepted, "nobody is accepted anew")
	require.Equal(t, w.Closes.Add(testTTL).Unix(), c.expires(t, c.queue))
	for i, user := range []coupon.UserID{2, 1, 3, 4, 5} {
		require.Equal(t, []any{Duplicate, int64(i + 1)}, []any{c.apply(t, user).Code, c.apply(t, user).Position})
	}

	content := c.content(t)
	require.Equal(t, Entered{Epoch: before.Epoch}, c.enter(t, entries...))
	require.Equal(t, content, c.content(t), "a repetition changes nothing")
	require.Equal(t, at+5, c.accept(t, 10)[0].Arrival)
}

func TestEnterIntoAnotherEpochChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 1)[0].Arrival
	c.markIssued(t, "2")
	enter := func(epoch string) Entered {
		t.Helper()
		before := c.content(t)
		entered, err := c.Enter(t.Context(), c.id, epoch, []Entry{entryOf(2, 5), entryOf(1, at-1)})
		require.NoError(t, err)
		require.Equal(t, before, c.content(t))
		return entered
	}
	old := c.observe(t).Epoch
	require.Equal(t, Entered{Epoch: old}, enter("another:1"))
	c.set(t, "run_id", "of the server before")
	require.Equal(t, Entered{}, enter(old), "nobody has told an epoch of this server yet")
	require.Equal(t, Entered{}, enter(""))
	require.Equal(t, Entered{Epoch: c.look(t, coupon.Known{}).Epoch}, enter(old))
}

// lossy is a coupon with a queue of five and a DLQ of one, of ten who were accepted.
func lossy(t *testing.T) (c *fixture, epoch string, at []Receipt) {
	t.Helper()
	c = newCoupon(t)
	c.open(t)
	at = c.accept(t, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	c.review(t, failed{Application: entry("6", at[5].Arrival, coupon.SourceQueue)})
	require.NoError(t, c.rdb.ZRem(t.Context(), c.queue, "7", "8", "9", "10").Err())
	return c, c.observe(t).Epoch, at
}

func TestEndRestoreNotesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		forward int
		ending  Ending
		want    Ended
		left    int64
	}{
		"nobody is missing":                    {0, Ending{Settled: 4, Began: 4}, Ended{Missing: 0, Accepted: 10}, 0},
		"some are missing":                     {0, Ending{Settled: 1, Began: 9}, Ended{Missing: 3, Accepted: 10}, 3},
		"some got lost while it ran":           {0, Ending{Settled: 1, Began: 2}, Ended{Missing: 3, Accepted: 10}, 2},
		"one moved":                            {1, Ending{Settled: 1, Began: 9}, Ended{Missing: 2, Accepted: 9}, 2},
		"more moved than are missing":          {7, Ending{Settled: 1, Began: 9}, Ended{Missing: 0, Accepted: 7}, 0},
		"one moved, and nobody is missing":     {1, Ending{Settled: 4, Began: 9}, Ended{Missing: 0, Accepted: 10}, 0},
		"more are accounted for than accepted": {0, Ending{Settled: 7, Began: 1}, Ended{Missing: 0, Accepted: 13}, 0},
		"an excess, but they count once":       {0, Ending{Settled: 7, InBoth: 2}, Ended{Missing: 0, Accepted: 11}, 0},
		"in both, and no excess":               {0, Ending{Settled: 4, InBoth: 4}, Ended{Missing: 0, Accepted: 10}, 0},
		"an excess, and one moved":             {1, Ending{Settled: 7}, Ended{Missing: 0, Accepted: 13}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, epoch, _ := lossy(t)
			c.set(t, "left", 77)
			c.set(t, "restores", 4)
			c.set(t, "final", 1)
			c.set(t, "forward", tc.forward)
			tc.ending.Epoch, tc.ending.Compare, tc.want.Done = epoch, true, true
			before := c.observe(t)
			ended, err := c.EndRestore(t.Context(), c.id, tc.ending)
			require.NoError(t, err)
			require.Equal(t, tc.want, ended)
			want := before
			want.Restored, want.Swept, want.Restores = true, false, 5
			want.Left, want.Accepted = tc.left, tc.want.Accepted
			require.Equal(t, want, c.observe(t))
			for _, field := range []string{"final", "forward"} {
				require.False(t, c.rdb.HExists(t.Context(), c.state, field).Val(), field)
			}

			// A reply may be lost. Lowering accepted again would hide as many losses.
			tc.ending.Began = tc.want.Missing
			again, err := c.EndRestore(t.Context(), c.id, tc.ending)
			require.NoError(t, err)
			require.Equal(t, tc.want, again)
			want.Restores, want.Left = 6, tc.want.Missing
			require.Equal(t, want, c.observe(t))

			// One that only took whom pods had handed over is none that they compare after.
			tc.ending.Compare = false
			_, err = c.EndRestore(t.Context(), c.id, tc.ending)
			require.NoError(t, err)
			require.Equal(t, want, c.observe(t))
		})
	}
}

// Who moves forward has applied again, and is counted twice. A server that is not restored yet has counted them once.
func TestEnterCountsWhoMovesForwardOnARestoredServer(t *testing.T) {
	t.Parallel()
	c, _, at := lossy(t)
	missing := func(settled int64) int64 {
		ended, err := c.EndRestore(t.Context(), c.id, Ending{Compare: true, Epoch: c.observe(t).Epoch,
			Settled: settled, Began: 9})
		require.NoError(t, err)
		require.True(t, ended.Done)
		return ended.Missing
	}
	again := c.accept(t, 7)[0].Arrival
	require.Greater(t, again, at[6].Arrival)
	require.EqualValues(t, 1, c.enter(t, entryOf(7, at[6].Arrival)).Moved)
	require.EqualValues(t, 1, missing(3), "the first restore of an epoch lowers nothing")

	c.accept(t, 8)
	require.EqualValues(t, 1, c.enter(t, entryOf(8, at[7].Arrival)).Moved)
	require.Zero(t, c.enter(t, entryOf(8, at[7].Arrival)).Moved, "a repetition")
	require.EqualValues(t, 1, missing(2))
	require.EqualValues(t, 1, missing(2), "a reply was lost")
}

func TestEndRestoreOfAnotherEpochChangesNothing(t *testing.T) {
	t.Parallel()
	c, old, _ := lossy(t)
	c.set(t, "final", 1)
	end := func(epoch string) {
		t.Helper()
		before := c.content(t)
		ended, err := c.EndRestore(t.Context(), c.id, Ending{Compare: true, Epoch: epoch, Settled: 9})
		require.NoError(t, err)
		require.Zero(t, ended)
		require.Equal(t, before, c.content(t))
	}
	end("another:1")
	end("")
	c.set(t, "run_id", "of the server before")
	end(old)
	end("")
	c.look(t, coupon.Known{})
	end(old)
}

// Nobody could apply any more if an arrival that somebody wrote by hand stayed the last one.
func TestEndRestoreSetsBackALastArrivalAheadOfTheClock(t *testing.T) {
	t.Parallel()
	last := µs(noon) + 9 // of the ten accepted applications
	for name, tc := range map[string]struct {
		last, highest, want coupon.Arrival
		queue, dlq          []place
	}{
		"as it is":                   {last: last, highest: last + 99, want: last},
		"a little ahead":             {last: µs(noon) + 5000000, want: µs(noon) + 5000000},
		"ahead":                      {last: µs(noon) + 5000001, highest: 1, want: µs(noon) + 5}, // that of the DLQ
		"above all arrivals":         {last: coupon.MaxArrival, highest: 1, want: µs(noon) + 5},
		"journal or mysql know more": {last: µs(noon) + 3600e6, highest: last, want: last},
		"the queue has a later entry": {last: µs(noon) + 3600e6, queue: []place{{decimal(last + 7), "x"}},
			want: last + 7},
		"the DLQ has a later entry": {last: µs(noon) + 3600e6, dlq: []place{{decimal(last + 8), "x"}},
			want: last + 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, epoch, _ := lossy(t)
			c.addByHand(t, c.queue, tc.queue...)
			c.addByHand(t, c.dlq, tc.dlq...)
			c.set(t, "last", tc.last)
			ended, err := c.EndRestore(t.Context(), c.id, Ending{Compare: true, Epoch: epoch, Settled: 4,
				Highest: tc.highest})
			require.NoError(t, err)
			require.True(t, ended.Done)
			require.Equal(t, tc.want, c.observe(t).Last)
			require.Equal(t, max(µs(noon), tc.want+1), c.accept(t, 20)[0].Arrival)
		})
	}
}

func TestAddExcessRaisesAccepted(t *testing.T) {
	t.Parallel()
	for settled, want := range map[int64]int64{0: 10, 3: 10, 4: 10, 5: 11, 90: 96} {
		t.Run(fmt.Sprint(settled), func(t *testing.T) {
			t.Parallel()
			c, epoch, _ := lossy(t)
			before := c.observe(t)
			for range 2 {
				done, err := c.AddExcess(t.Context(), c.id, epoch, settled)
				require.NoError(t, err)
				require.True(t, done)
				before.Accepted = want
				require.Equal(t, before, c.observe(t))
			}
		})
	}
	t.Run("in another epoch", func(t *testing.T) {
		t.Parallel()
		c, old, _ := lossy(t)
		for _, epoch := range []string{"another:1", ""} {
			before := c.content(t)
			done, err := c.AddExcess(t.Context(), c.id, epoch, 90)
			require.NoError(t, err)
			require.False(t, done)
			require.Equal(t, before, c.content(t))
		}
		c.set(t, "run_id", "of the server before")
		for _, epoch := range []string{old, ""} {
			before := c.content(t)
			done, err := c.AddExcess(t.Context(), c.id, epoch, 90)
			require.NoError(t, err)
			require.False(t, done)
			require.Equal(t, before, c.content(t))
		}
	})
}
