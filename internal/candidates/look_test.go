package candidates

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestLookOfEverything(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	require.Equal(t, coupon.Look{Now: noon, Paused: true}, c.observe(t), "an unknown coupon")
	require.Empty(t, c.content(t))

	w := c.open(t)
	at := c.accept(t, 1, 2, 3, 4, 5, 6, 7)
	settled := func(i int) coupon.Application {
		return coupon.Application{Member: strconv.Itoa(i + 1), Arrival: at[i].Arrival}
	}
	c.remove(t, w.Closes, coupon.MarkIssued, settled(0), settled(1))
	c.remove(t, w.Closes, coupon.MarkRejected, settled(2))
	c.remove(t, w.Closes, coupon.MarkNone, settled(3))
	c.review(t, failed{Application: entry("7", at[6].Arrival, coupon.SourceQueue)})
	c.handOver(t, coupon.Answer{User: 8, Arrival: 8}, coupon.Answer{User: 9, Arrival: 9})
	want := coupon.Look{
		Line: coupon.Line{Epoch: c.runID(t) + ":" + decimal(µs(noon)), Since: µs(noon), Accepted: 7,
			Last: at[6].Arrival, Waiting: 2, DLQ: 1, Issued: 2, Returned: 2},
		Now: noon, WaitingAfter: 2, DLQAfter: 1, Rejected: 1, Highest: at[6].Arrival, DLQChanges: 1, Opens: µs(w.Opens),
		Closes: µs(w.Closes), RestoresIn: HandOverTime,
	}
	before := c.content(t)
	require.Equal(t, want, c.look(t, coupon.Known{}), "the highest arrival is in the DLQ")
	require.Equal(t, want, c.observe(t))
	require.Equal(t, want, c.look(t, coupon.Known{Observe: true, Cutoff: noon, Settled: 99, Highest: 5}), "likewise")
	require.Equal(t, before, c.content(t), "none changes anything")
	for after, above := range map[coupon.Arrival][2]int64{
		at[4].Arrival: {1, 1}, at[5].Arrival: {0, 1}, at[6].Arrival: {0, 0},
	} {
		observed, err := c.Observe(t.Context(), c.id, after)
		require.NoError(t, err)
		for _, look := range []coupon.Look{observed, c.look(t, coupon.Known{After: after})} {
			require.Equal(t, above, [2]int64{look.WaitingAfter, look.DLQAfter})
		}
	}

	c.remove(t, w.Closes, coupon.MarkNone, settled(6))
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	c.set(t, "status", "PAUSED")
	want.DLQ, want.DLQAfter, want.DLQChanges, want.Highest = 0, 0, 2, at[5].Arrival
	want.Sold, want.Paused = true, true
	require.Equal(t, want, c.observe(t))
	issued, rejected, err := c.CountMarked(t.Context(), c.id)
	require.NoError(t, err)
	waiting, dlq, err := c.CountUndecided(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 1, 2, 0}, []int64{issued, rejected, waiting, dlq})
}

// Whoever only reads is told that the server is new, and leaves the beginning of an epoch to others.
func TestObserveBeginsNoEpoch(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	c.accept(t, 1)
	c.endRestore(t)
	c.set(t, "left", 3)
	known := c.observe(t)
	require.Equal(t, []any{true, int64(3)}, []any{known.Restored, known.Left})
	c.set(t, "run_id", "another")
	before := c.content(t)
	look := c.observe(t)
	require.Equal(t, before, c.content(t))
	require.Equal(t, coupon.Line{Restores: 1, Accepted: 1, Last: known.Last, Waiting: 1}, look.Line)
	require.Zero(t, look.RestoresIn)

	look = c.look(t, coupon.Known{})
	require.Equal(t, coupon.Line{Epoch: c.runID(t) + ":" + decimal(µs(noon)+1), Since: µs(noon) + 1, Restores: 1,
		Accepted: 1, Last: known.Last, Waiting: 1}, look.Line, "a later epoch, of which nothing is known")
	require.Equal(t, look.Line, c.observe(t).Line)
}

func TestLookMatchesHandwrittenScores(t *testing.T) {
	t.Parallel()
	for score, want := range map[string]coupon.Arrival{
		"-inf": 0, "-5": 0, "0": 0, "12.75": 12, "8999999999999999": 8999999999999999, "1e300": 1<<53 - 1,
		"+inf": 1<<53 - 1,
	} {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.addByHand(t, c.queue, place{score, "x"})
			require.Equal(t, want, c.observe(t).Highest)
		})
	}
}

// A later loss of as many promises would be taken for the old one.
func TestLookLowersWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ settled, left, want int64 }{
		"unknown, and none is found":  {0, 3, 3},
		"as many are missing":         {2, 3, 3},
		"fewer are missing":           {3, 3, 2},
		"none is missing":             {5, 3, 0},
		"more are accounted for":      {9, 3, 0},
		"more are missing than left":  {1, 3, 3},
		"fewer, though unknown":       {0, 9, 5},
		"none was left, all are here": {5, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			at := c.accept(t, 1, 2, 3, 4, 5, 6, 7)
			c.review(t, failed{Application: entry("7", at[6].Arrival, coupon.SourceQueue)})
			c.endRestore(t)
			c.rdb.ZRem(t.Context(), c.queue, "1", "2", "3", "4", "5") // five are missing or settled
			c.set(t, "left", tc.left)
			look := c.look(t, coupon.Known{Settled: tc.settled})
			require.Equal(t, tc.want, look.Left)
			require.Equal(t, decimal(tc.want), c.get(t, "left"))
			require.True(t, look.Restored)
		})
	}
	t.Run("of an epoch that was not compared", func(t *testing.T) {
		t.Parallel()
		c := newCoupon(t)
		c.open(t)
		c.set(t, "left", 3)
		require.Zero(t, c.look(t, coupon.Known{Settled: 9}).Left, "nothing is known")
		require.Equal(t, "3", c.get(t, "left"))
	})
}

// A restore waits for pods that notice the new server, but not for longer than that.
func TestLookSaysWhenARestoreMayBegin(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	for later, want := range map[time.Duration]time.Duration{
		0: HandOverTime, time.Second: HandOverTime - time.Second, HandOverTime: 0, time.Hour: 0,
		-5 * time.Second: HandOverTime, // the clock was put back
	} {
		c.freeze(noon.Add(later))
		require.Equal(t, want, c.look(t, coupon.Known{}).RestoresIn, later)
		require.Equal(t, µs(noon), c.look(t, coupon.Known{}).Since)
	}
}

func TestLookBeforeTheOpeningOfAnUnknownCouponNeedsNoRestore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		known coupon.Known
		seen  coupon.Arrival
		want  bool
	}{
		"nobody can have applied":         {known: coupon.Known{Opens: noon.Add(time.Second)}, want: true},
		"the opening is unknown":          {},
		"the window is open":              {known: coupon.Known{Opens: noon}},
		"mysql knows an arrival":          {known: coupon.Known{Opens: noon.Add(time.Second), Highest: 1}},
		"the process was told an arrival": {known: coupon.Known{Opens: noon.Add(time.Second)}, seen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon)
			c.record().seen = tc.seen
			require.Equal(t, tc.want, c.look(t, tc.known).Restored)
			require.Equal(t, noon.Add(testTTL).Unix(), c.expires(t, c.state))
		})
	}
}

// The first look at a server that has restarted finds no script there. Coupons that cannot be read are named.
func TestLooksAtManyCoupons(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	c := couponOn(t, newClient(t, server.Addr()), "", 42)
	c.openNow(t)
	c.accept(t, 1, 2, 3)
	c.endRestore(t)
	c.set(t, "left", 2)
	other := c.another(43)
	other.openNow(t)
	first, second := c.observe(t), other.observe(t)
	all := map[coupon.CouponID]coupon.Known{42: {}, 43: {Observe: true}, 44: {}}
	compare := func(looks map[coupon.CouponID]coupon.Look) {
		t.Helper()
		require.Len(t, looks, 3)
		require.Equal(t, first.Line, looks[42].Line)
		require.Equal(t, second.Line, looks[43].Line)
		require.Equal(t, c.another(44).observe(t).Line, looks[44].Line)
		require.Equal(t, first.Closes, looks[42].Closes)
	}
	first.Left = 0 // nobody is missing
	looks, err := c.Looks(t.Context(), all)
	require.NoError(t, err)
	compare(looks)
	require.NoError(t, c.rdb.ScriptFlush(t.Context()).Err())
	looks, err = c.Looks(t.Context(), all)
	require.NoError(t, err)
	compare(looks)

	require.NoError(t, server.Kill())
	looks, err = c.Looks(t.Context(), all)
	require.Error(t, err)
	require.Empty(t, looks)
	require.NoError(t, server.Restart(testenv.Patient(t)))
	looks, err = c.Looks(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, looks, 3)
	require.NotEqual(t, first.Epoch, looks[42].Epoch)
	require.Greater(t, looks[42].Since, first.Since)
	require.False(t, looks[42].Restored)
	require.EqualValues(t, 3, looks[42].Waiting)

	require.NoError(t, c.rdb.Set(t.Context(), other.dlq, "in the way", 0).Err())
	looks, err = c.Looks(t.Context(), all)
	require.ErrorContains(t, err, "look for coupon 43: ")
	require.NotContains(t, err.Error(), "coupon 42")
	require.Len(t, looks, 2)
	require.NotContains(t, looks, coupon.CouponID(43))

	looks, err = c.Looks(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, looks)
}

func TestFenceWaitsForCutoff(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	before := c.content(t)
	for _, ahead := range []time.Duration{time.Microsecond, 1500 * time.Millisecond, 5 * time.Minute} {
		look := c.fence(t, noon.Add(ahead))
		require.Equal(t, noon, look.Now)
		require.Zero(t, look.Last)
	}
	require.Equal(t, before, c.content(t))
}

func TestApplicationsAfterTheFenceArriveAboveTheCutoff(t *testing.T) {
	t.Parallel()
	for _, passed := range []time.Duration{0, time.Microsecond, time.Hour} {
		t.Run(passed.String(), func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			c.freeze(noon.Add(-time.Second))
			c.accept(t, 1)
			c.freeze(noon)
			cutoff := noon.Add(-passed)
			want := max(µs(noon.Add(-time.Second)), µs(cutoff)-1)
			for range 2 {
				require.Equal(t, want, c.fence(t, cutoff).Last)
				require.Equal(t, decimal(want), c.get(t, "last"))
			}
			before := c.content(t)
			c.fence(t, cutoff)
			require.Equal(t, before, c.content(t), "a repetition changes nothing")

			c.freeze(noon.Add(-2 * time.Second)) // the clock of a new primary
			receipt := c.accept(t, 2)[0]
			require.GreaterOrEqual(t, receipt.Arrival, µs(cutoff))
			require.Equal(t, max(want, µs(noon.Add(-2*time.Second))-1)+1, receipt.Arrival)
			entries, _ := c.page(t, coupon.Cursor{}, cutoff)
			for _, e := range entries {
				require.Equal(t, "1", e.Member)
			}
		})
	}
}

func TestFenceByTheRealClock(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.openNow(t)
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.fence(t, now.Add(time.Hour)).Last)
	require.Equal(t, µs(now)-1, c.fence(t, now).Last)
	require.GreaterOrEqual(t, c.accept(t, 7)[0].Arrival, µs(now))
}

func TestFenceSetsTTLOfNewState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	c.fence(t, noon)
	require.Equal(t, noon.Add(testTTL).Unix(), c.expires(t, c.state))

	require.NoError(t, c.rdb.Expire(t.Context(), c.state, time.Hour).Err())
	c.freeze(noon.Add(time.Minute))
	c.fence(t, noon.Add(time.Minute))
	require.Equal(t, decimal(µs(noon.Add(time.Minute))-1), c.get(t, "last"))
	requireLives(t, c, time.Hour)
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
