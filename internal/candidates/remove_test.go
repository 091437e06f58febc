package candidates

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// watch returns how many members each further command, or call of a script by its SHA, carries. A member takes argsEach
// arguments.
func (c *fixture) watch(argsEach int) (carried func(verb string, before int) []int) {
	var mu sync.Mutex
	var commands [][]any
	see := func(cmd redis.Cmder) {
		mu.Lock()
		defer mu.Unlock()
		commands = append(commands, append([]any{}, cmd.Args()...))
	}
	c.on.seen.Store(&see)
	return func(verb string, before int) (sizes []int) {
		c.on.seen.Store(nil)
		for _, args := range commands {
			if args[0] == verb || args[1] == verb {
				sizes = append(sizes, (len(args)-before)/argsEach)
			}
		}
		return sizes
	}
}

// An entry at a later arrival is another application, and so is an earlier one under review.
func TestRemoveMatchesArrivals(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	c.addByHand(t, c.queue, place{"1000", "1"}, place{"1001", "2"}, place{"1002", "3"}, place{"1003", "both"},
		place{"1009", "older"}, place{"1003.5", "fraction"})
	c.addByHand(t, c.dlq, place{"1004", "4"}, place{"1005", "5"}, place{"1003", "both"}, place{"1006", "older"},
		place{"1001", "6"})
	for _, member := range []string{"4", "5", "6", "both", "older"} {
		require.NoError(t, c.rdb.HSet(t.Context(), c.reason, member, "{}").Err())
	}
	require.EqualValues(t, 7, c.remove(t, noon, coupon.MarkNone,
		coupon.Application{Member: "1", Arrival: 1000},
		coupon.Application{Member: "2", Arrival: 1000}, // has applied again
		coupon.Application{Member: "3", Arrival: 1003}, // has moved forward
		coupon.Application{Member: "4", Arrival: 1004},
		coupon.Application{Member: "5", Arrival: 1004},
		coupon.Application{Member: "6", Arrival: 1004}, // another application under review
		coupon.Application{Member: "both", Arrival: 1003},
		coupon.Application{Member: "older", Arrival: 1006}, // the DLQ entry; the queue entry stays
		coupon.Application{Member: "fraction", Arrival: 1003},
		coupon.Application{Member: "absent", Arrival: 1000},
	))
	require.Equal(t, map[string]float64{"2": 1001, "older": 1009}, c.scores(t, c.queue))
	require.Equal(t, map[string]float64{"5": 1005, "6": 1001}, c.scores(t, c.dlq))
	require.Equal(t, map[string]string{"5": "{}", "6": "{}"}, c.rdb.HGetAll(t.Context(), c.reason).Val())
	c.requireExists(t, false, c.issued, c.rejected)

	before := c.content(t)
	require.Zero(t, c.remove(t, noon, coupon.MarkNone, coupon.Application{Member: "1", Arrival: 1000},
		coupon.Application{Member: "4", Arrival: 1004}))
	require.Zero(t, c.remove(t, noon, coupon.MarkNone))
	require.Equal(t, before, c.content(t))
}

// Arrival 0 is that of a coupon given by hand. A later run at another arrival is right about its own.
func TestRemoveMarksWithTheArrival(t *testing.T) {
	t.Parallel()
	for name, neighbours := range map[string]bool{"neighbours": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			at := c.accept(t, 1, 2, 3)
			c.addByHand(t, c.issued, place{"900", "1"}, place{"0", "2"})
			settled := []coupon.Application{{Member: "1", Arrival: at[0].Arrival},
				{Member: "2", Arrival: at[1].Arrival}, {Member: "3", Arrival: at[2].Arrival}}
			if !neighbours {
				slices.Reverse(settled)
			}
			for _, removed := range []int64{3, 0} {
				require.Equal(t, removed, c.remove(t, noon, coupon.MarkIssued, settled...))
				require.Equal(t, map[string]float64{"1": float64(at[0].Arrival), "2": float64(at[1].Arrival),
					"3": float64(at[2].Arrival)}, c.scores(t, c.issued))
			}
		})
	}
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		c := newCoupon(t)
		c.open(t)
		c.addByHand(t, c.issued, place{"900", "1"}, place{"0", "2"})
		at := c.accept(t, 4)[0].Arrival
		for range 2 {
			require.Zero(t, c.remove(t, noon, coupon.MarkIssued, coupon.Application{Member: "1"},
				coupon.Application{Member: "2"}, coupon.Application{Member: "3"}, coupon.Application{Member: "4"}))
			require.Equal(t, map[string]float64{"1": 900, "2": 0, "3": 0, "4": 0}, c.scores(t, c.issued))
		}
		require.Equal(t, map[string]float64{"4": float64(at)}, c.scores(t, c.queue), "a gift answers no application")
		require.Equal(t, AlreadyIssued, c.apply(t, 3).Code)
	})
}

func TestRemoveMarksUsers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mark   coupon.Mark
		closes time.Duration // after noon
		want   Code
	}{
		"issued":              {coupon.MarkIssued, time.Hour, AlreadyIssued},
		"rejected":            {coupon.MarkRejected, time.Hour, Rejected},
		"issued, long closed": {coupon.MarkIssued, -1000 * time.Hour, AlreadyIssued},
		"issued, next year":   {coupon.MarkIssued, 5000 * time.Hour, AlreadyIssued},
		"none":                {coupon.MarkNone, time.Hour, Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			at := c.accept(t, 1, math.MaxUint64, 3)
			closes := noon.Add(tc.closes)
			entries := []coupon.Application{{Member: "1", Arrival: at[0].Arrival, Source: coupon.SourceQueue},
				{Member: "18446744073709551615", Arrival: at[1].Arrival}}
			c.review(t, failed{Application: entries[0]})
			require.EqualValues(t, 2, c.remove(t, closes, tc.mark, entries...))
			require.Zero(t, c.remove(t, closes, tc.mark, entries...), "again")

			marked, unmarked := c.issued, c.rejected
			if tc.mark == coupon.MarkRejected {
				marked, unmarked = unmarked, marked
			}
			c.requireExists(t, false, unmarked)
			if tc.mark == coupon.MarkNone {
				c.requireExists(t, false, marked)
			} else {
				require.ElementsMatch(t, []string{"1", "18446744073709551615"}, c.marked(t, tc.mark))
				require.Equal(t, max(noon.Unix(), closes.Unix())+int64(testTTL/time.Second), c.expires(t, marked))
			}
			c.requireExists(t, false, c.dlq, c.reason)
			require.Equal(t, map[string]float64{"3": float64(at[2].Arrival)}, c.scores(t, c.queue))
			require.Equal(t, tc.want, c.apply(t, 1).Code)
			require.Equal(t, tc.want, c.apply(t, math.MaxUint64).Code)
			require.Equal(t, Duplicate, c.apply(t, 3).Code)
		})
	}
}

// A crashed run may have removed the entry before.
func TestRemoveMarksUsersOfMissingEntries(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	require.Zero(t, c.remove(t, noon, coupon.MarkIssued, coupon.Application{Member: "7", Arrival: 1000}))
	require.Equal(t, AlreadyIssued, c.apply(t, 7).Code)
}

func TestRemoveSplitsLargeBatches(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	const many = 2*writeMembers + 7
	var queue, dlq []place
	var entries []coupon.Application
	for i := range many + 1 {
		at := place{fmt.Sprint(1795143600000000 + i), "m" + strconv.Itoa(i)}
		if i%3 == 0 {
			dlq = append(dlq, at)
		} else {
			queue = append(queue, at)
		}
		entries = append(entries, coupon.Application{Member: at.member, Arrival: coupon.Arrival(1795143600000000 + i)})
	}
	c.addByHand(t, c.queue, queue...)
	c.addByHand(t, c.dlq, dlq...)
	calls := c.watch(2)
	require.EqualValues(t, many, c.remove(t, noon, coupon.MarkIssued, entries[:many]...))
	require.ElementsMatch(t, []int{500, 500, 7}, calls(removeScript.sha, 3+7+3))
	require.Len(t, c.marked(t, coupon.MarkIssued), many)
	require.Equal(t, 1, len(c.scores(t, c.queue))+len(c.scores(t, c.dlq)))
}

// Neighbours are removed by rank. Other entries are looked up one by one.
func TestRemoveRangeRemovesNoOtherEntry(t *testing.T) {
	t.Parallel()
	add := func(c *fixture, key string, arrival coupon.Arrival, member string) {
		require.NoError(t, c.rdb.ZAdd(t.Context(), key, redis.Z{Score: float64(arrival), Member: member}).Err())
	}
	gone := func(c *fixture, members ...any) {
		require.NoError(t, c.rdb.ZRem(t.Context(), c.queue, members...).Err())
	}
	for name, test := range map[string]struct {
		change func(c *fixture, at []Receipt)
		byRank bool
		left   []string
		dlq    []string
	}{
		"unchanged":             {byRank: true, left: []string{"1", "5"}},
		"the head of the queue": {func(c *fixture, _ []Receipt) { gone(c, "1") }, true, []string{"5"}, nil},
		"the whole queue":       {func(c *fixture, _ []Receipt) { gone(c, "1", "5") }, true, []string{}, nil},
		"the first is gone":     {func(c *fixture, _ []Receipt) { gone(c, "2") }, false, []string{"1", "5"}, nil},
		"one between is gone":   {func(c *fixture, _ []Receipt) { gone(c, "3") }, false, []string{"1", "5"}, nil},
		"the last is gone":      {func(c *fixture, _ []Receipt) { gone(c, "4") }, false, []string{"1", "5"}, nil},
		"all are gone": {func(c *fixture, _ []Receipt) { gone(c, "1", "2", "3", "4", "5") }, false,
			[]string{}, nil},
		"another entry between": {func(c *fixture, at []Receipt) { add(c, c.queue, at[2].Arrival, "29") }, false,
			[]string{"1", "29", "5"}, nil},
		"another entry instead": {func(c *fixture,
			at []Receipt) {
			gone(c, "3")
			add(c, c.queue, at[2].Arrival, "9")
		}, false, []string{"1", "9", "5"}, nil},
		"the first applied again": {func(c *fixture, at []Receipt) { add(c, c.queue, at[4].Arrival+1, "2") }, false,
			[]string{"1", "5", "2"}, nil},
		"one between applied again": {func(c *fixture, at []Receipt) { add(c, c.queue, at[4].Arrival+1, "3") }, false,
			[]string{"1", "5", "3"}, nil},
		"the last applied again": {func(c *fixture, at []Receipt) { add(c, c.queue, at[4].Arrival+1, "4") }, false,
			[]string{"1", "5", "4"}, nil},
		"the last applied again, and is the last": {func(c *fixture, at []Receipt) {
			gone(c, "5")
			add(c, c.queue, at[4].Arrival+1, "4")
		}, false, []string{"1", "4"}, nil},
		"the first has moved forward": {func(c *fixture, at []Receipt) { add(c, c.queue, at[0].Arrival, "2") }, false,
			[]string{"1", "5"}, nil},
		"one between has moved past another": {func(c *fixture, at []Receipt) { add(c, c.queue, at[0].Arrival, "3") },
			false, []string{"1", "5"}, nil},
		"a handwritten score": {func(c *fixture, at []Receipt) { add(c, c.queue, at[1].Arrival-1, "1"); gone(c, "5") },
			true, []string{"1"}, nil},
		"an older one in the DLQ": {func(c *fixture, at []Receipt) {
			gone(c, "3")
			add(c, c.dlq, at[0].Arrival, "3")
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "3", "{}").Err())
		}, false, []string{"1", "5"}, []string{"3"}},
		"an entry in the DLQ as well": {func(c *fixture, at []Receipt) {
			add(c, c.dlq, at[2].Arrival, "3")
			add(c, c.dlq, at[0].Arrival, "2")   // of an older application
			add(c, c.dlq, at[3].Arrival+1, "4") // of another application
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "2", "{}", "3", "{}", "4", "{}").Err())
		}, true, []string{"1", "5"}, []string{"2", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			at := c.accept(t, 1, 2, 3, 4, 5)
			settled := make([]coupon.Application, 3)
			for i := range settled {
				settled[i] = coupon.Application{Member: strconv.Itoa(i + 2), Arrival: at[i+1].Arrival}
			}
			if test.change != nil {
				test.change(c, at)
			}
			before := c.rdb.ZCard(t.Context(), c.queue).Val() + c.rdb.ZCard(t.Context(), c.dlq).Val()
			calls := c.watch(1)
			removed := c.remove(t, noon.Add(time.Hour), coupon.MarkIssued, settled...)
			require.Len(t, calls(removeScript.sha, 0), map[bool]int{true: 0, false: 1}[test.byRank])

			require.Equal(t, test.left, c.rdb.ZRange(t.Context(), c.queue, 0, -1).Val())
			require.ElementsMatch(t, []string{"2", "3", "4"}, c.marked(t, coupon.MarkIssued))
			after := c.rdb.ZCard(t.Context(), c.queue).Val() + c.rdb.ZCard(t.Context(), c.dlq).Val()
			require.Equal(t, before-after, removed)
			require.ElementsMatch(t, test.dlq, c.rdb.ZRange(t.Context(), c.dlq, 0, -1).Val())
			require.ElementsMatch(t, test.dlq, c.rdb.HKeys(t.Context(), c.reason).Val())
		})
	}
}
