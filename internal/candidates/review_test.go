package candidates

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// because is a reason that has every field.
func because(attempts int) Reason {
	return Reason{
		Cause: "BAD_ROW", Message: "1264: Out of range \"값\" <é> \\ at row 1\n", Retryable: true,
		Attempts: attempts, Run: 12345678901234, At: time.Date(2026, 11, 21, 0, 0, 1, 234567000, time.UTC),
	}
}

func (c *fixture) review(t testingT, failed ...failed) int64 {
	t.Helper()
	n, err := c.moveToDLQ(t.Context(), c.id, failed)
	require.NoError(t, err)
	return n
}

func (c *fixture) reasons(t testingT, members ...string) map[string]Reason {
	t.Helper()
	reasons, err := c.Reasons(t.Context(), c.id, members)
	require.NoError(t, err)
	return reasons
}

func TestReviewMovesFromTheQueueWithArrivalAndReason(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 1, 2, math.MaxUint64)
	held := because(1)
	held.Retryable = false
	require.EqualValues(t, 2, c.review(t,
		failed{Application: entry("18446744073709551615", at[2].Arrival, coupon.SourceQueue), Reason: because(1)},
		failed{Application: entry("1", at[0].Arrival, coupon.SourceQueue), Reason: held}))

	require.Equal(t, map[string]float64{"2": float64(at[1].Arrival)}, c.standing(t, c.queue))
	require.Equal(t, map[string]float64{
		"1": float64(at[0].Arrival), "18446744073709551615": float64(at[2].Arrival),
	}, c.standing(t, c.dlq))
	require.Equal(t, map[string]Reason{"1": held, "18446744073709551615": because(1)},
		c.reasons(t, "1", "2", "18446744073709551615"))
	require.JSONEq(t, `{"cause":"BAD_ROW","message":"1264: Out of range \"값\" <é> \\ at row 1\n","retryable":true,
		"attempts":1,"run":12345678901234,"at":"2026-11-21T00:00:01.234567Z"}`,
		c.rdb.HGet(t.Context(), c.reason, "18446744073709551615").Val())
	for _, key := range []string{c.dlq, c.reason} {
		require.EqualValues(t, -1, c.expires(t, key), "%s never ends by itself", key)
	}

	require.Equal(t, UnderReview, c.apply(t, 1).Code)
	require.Equal(t, at[0].Arrival, c.apply(t, 1).Arrival)
	entries, _, err := c.Page(t.Context(), c.id, coupon.Cursor{}, noon.Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, []coupon.Application{
		entry("1", at[0].Arrival, coupon.SourceHeld), entry("2", at[1].Arrival, coupon.SourceQueue), entry("18446744073709551615", at[2].Arrival, coupon.SourceRetryable),
	}, entries)
	require.EqualValues(t, 3, c.counts(t).Accepted)
}

func TestReviewNotesAFurtherAttempt(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 7)
	source := coupon.SourceQueue
	var tried []Attempt
	for attempt := range 12 {
		reason := because(1)
		reason.Run += uint64(attempt)
		require.EqualValues(t, 1, c.review(t, failed{Application: entry("7", at[0].Arrival, source), Reason: reason}))
		require.Zero(t, c.review(t, failed{Application: entry("7", at[0].Arrival, coupon.SourceQueue), Reason: reason}), "another run that saw it in the queue")
		source = coupon.SourceRetryable
		tried = append(tried, Attempt{reason.At, reason.Run, reason.Cause, reason.Message})
		if reason.Attempts = attempt + 1; attempt > 0 {
			reason.Since, reason.Tried = reason.At, tried[max(0, len(tried)-5):]
		}
		require.Equal(t, map[string]Reason{"7": reason}, c.reasons(t, "7"), "the latest reason, and how often")
	}
	require.Equal(t, map[string]float64{"7": float64(at[0].Arrival)}, c.standing(t, c.dlq))
	require.Empty(t, c.standing(t, c.queue))
}

// Why an entry is under review is for somebody to mend: an attempt that failed for a cause of the system is noted beside it.
func TestReviewKeepsWhy(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 7)[0].Arrival
	refused := because(1)
	refused.Refused = 1
	c.review(t, failed{Application: entry("7", at, coupon.SourceQueue), Reason: refused})
	why := c.reasons(t, "7")["7"]
	away := Reason{Cause: "DATABASE_AWAY", Message: "refused", Retryable: true, Attempts: 1, Run: 9, At: refused.At.Add(time.Hour)}
	require.EqualValues(t, 1, c.review(t, failed{Keep: true, Application: entry("7", at, coupon.SourceRetryable), Reason: away}))
	why.Attempts, why.Run, why.At, why.Since = 2, 9, away.At, refused.At
	why.Tried = []Attempt{{refused.At, refused.Run, refused.Cause, refused.Message}, {away.At, 9, away.Cause, away.Message}}
	require.Equal(t, map[string]Reason{"7": why}, c.reasons(t, "7"))
	require.Zero(t, c.review(t, failed{Keep: true, Application: entry("8", at, coupon.SourceRetryable), Reason: away}), "who does not stand there")
}

// Refused rows are counted, whichever run tries them, and after the tenth time a person must decide.
func TestReviewCountsRefusedRows(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 7)[0].Arrival
	refused := because(1)
	refused.Refused = 1
	source := coupon.SourceQueue
	for n := range 9 {
		c.review(t, failed{Application: entry("7", at, source), Reason: refused})
		source = coupon.SourceRetryable
		require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, noon.Add(time.Hour)))
		require.Equal(t, n+1, c.reasons(t, "7")["7"].Refused)
	}
	c.review(t, failed{Application: entry("7", at, coupon.SourceRetryable), Reason: refused})
	require.Equal(t, coupon.SourceHeld, c.sourceOf7(t, noon.Add(time.Hour)), "ten times")
	why := c.reasons(t, "7")["7"]
	require.Equal(t, []int{10, 10}, []int{why.Refused, why.Attempts})

	n, err := c.Release(t.Context(), c.id, []coupon.Application{{Member: "7", Arrival: at}})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, noon.Add(time.Hour)))
	c.review(t, failed{Application: entry("7", at, coupon.SourceRetryable), Reason: because(1)}) // the database was away, or anything else
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, noon.Add(time.Hour)), "that is no refused row")
	require.Equal(t, 10, c.reasons(t, "7")["7"].Refused, "but those are not forgotten")
	c.review(t, failed{Application: entry("7", at, coupon.SourceRetryable), Reason: refused})
	require.Equal(t, coupon.SourceHeld, c.sourceOf7(t, noon.Add(time.Hour)))
}

// sourceOf7 is what a page before the cutoff says of the only entry.
func (c *fixture) sourceOf7(t *testing.T, cutoff time.Time) coupon.Source {
	t.Helper()
	entries, _, err := c.Page(t.Context(), c.id, coupon.Cursor{}, cutoff)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return entries[0].Source
}

// An entry is known as tried for the night that tried it last, and for no other; neither what a person tries nor a release
// changes that.
func TestReviewKeepsTheNight(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 7)[0].Arrival
	first, second := noon.Add(12*time.Hour), noon.Add(36*time.Hour)
	refusedBy := func(source coupon.Source, night time.Time) {
		t.Helper()
		refused := because(1)
		refused.Refused, refused.Night = 1, night
		require.EqualValues(t, 1, c.review(t, failed{Application: entry("7", at, source), Reason: refused}))
	}
	refusedBy(coupon.SourceQueue, first)
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first.In(time.FixedZone("Seoul", 9*3600))), "the same instant")
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, second))
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, first.Add(time.Microsecond)))
	refusedBy(coupon.SourceRetryable, time.Time{}) // a person's run
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	c.review(t, failed{Keep: true, Application: entry("7", at, coupon.SourceRetryable), Reason: because(1)})
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	_, err := c.Release(t.Context(), c.id, []coupon.Application{{Member: "7", Arrival: at}})
	require.NoError(t, err)
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	refusedBy(coupon.SourceRetryable, second)
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, first))
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, second))
	require.Equal(t, second.UTC(), c.reasons(t, "7")["7"].Night)
	reviewed, _, err := c.UnderReview(t.Context(), c.id, coupon.Cursor{})
	require.NoError(t, err)
	require.Equal(t, []coupon.Application{entry("7", at, coupon.SourceRowRefused)}, reviewed)
}

// Who has no reason that says otherwise is held for a person, and left alone.
func TestReviewLeavesWhoIsHeld(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]string{
		"garbage": "not json", "empty": "", "list": "[1]", "number": "3", "null": "null", "no attempts": "{}", "attempts text": `{"attempts":"3"}`,
		"held":     `{"cause":"UNKNOWN_USER","retryable":false}`,
		"too deep": strings.Repeat("[", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.stand(t, c.dlq, place{"1000", "7"})
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "7", old).Err())
			before := c.content(t)
			require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceRetryable), Reason: because(1)}))
			require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceQueue), Reason: because(1)}))
			require.Equal(t, before, c.content(t))
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		c := newCoupon(t)
		c.stand(t, c.dlq, place{"1000", "7"})
		require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceRetryable), Reason: because(1)}))
		require.Empty(t, c.reasons(t, "7"))
	})
}

func TestReviewLeavesAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ queue, dlq []place }{
		"who stands nowhere":                         {},
		"who has left the queue and come again":      {queue: []place{{"1001", "7"}}},
		"who stood in the queue later":               {queue: []place{{"999", "7"}}},
		"who stands in the DLQ with another arrival": {dlq: []place{{"999", "7"}}},
		// Two promises never become one.
		"who has an older entry under review": {queue: []place{{"1000", "7"}}, dlq: []place{{"999", "7"}}},
		"another member":                      {queue: []place{{"1000", "07"}, {"1000", "7 "}, {"1000", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.stand(t, c.queue, tc.queue...)
			c.stand(t, c.dlq, tc.dlq...)
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "7", `{"cause":"OLDER"}`).Err())
			before := c.content(t)
			require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceQueue), Reason: because(1)}))
			require.Equal(t, before, c.content(t))
		})
	}
}

// One that stands in both with the same arrival is the same application: it stays where it already is under review.
func TestReviewOfOneThatStandsInBoth(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.stand(t, c.queue, place{"1000", "7"})
	c.stand(t, c.dlq, place{"1000", "7"})
	require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceQueue), Reason: because(1)}))
	require.Equal(t, map[string]float64{"7": 1000}, c.standing(t, c.dlq))
	require.Empty(t, c.standing(t, c.queue))
}

// Page floors and bounds what somebody wrote by hand; Review finds it by that.
func TestReviewOfScoresWrittenByHand(t *testing.T) {
	t.Parallel()
	for score, want := range map[string]float64{"-inf": 0, "-3.5": 0, "0": 0, "12.75": 12, "8999999999999999": 8999999999999999} {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			member := "no\x00user\xff한"
			c.stand(t, c.queue, place{score, member})
			entries, _, err := c.Page(t.Context(), c.id, coupon.Cursor{}, time.UnixMicro(9e15))
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.EqualValues(t, 1, c.review(t, failed{Application: entries[0], Reason: because(1)}))
			require.Empty(t, c.standing(t, c.queue))
			require.Equal(t, map[string]float64{member: want}, c.standing(t, c.dlq))
			entries[0].Source = coupon.SourceRetryable
			require.EqualValues(t, 1, c.review(t, failed{Application: entries[0], Reason: because(1)}), "and again in the DLQ")
			require.Equal(t, 2, c.reasons(t, member)[member].Attempts)
		})
	}
}

func TestReviewAndReasonsOfMoreThanOneCallTakes(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	const many = 2*writeMembers + 1
	var places []place
	var all []failed
	var members []string
	for i := range many {
		member := strconv.Itoa(i)
		members = append(members, member)
		places = append(places, place{strconv.Itoa(1000 + i), member})
		reason := because(1)
		reason.Run = uint64(i)
		all = append(all, failed{Application: entry(member, int64(1000+i), coupon.SourceQueue), Reason: reason})
	}
	c.stand(t, c.queue, places...)
	calls := c.watch(4)
	require.EqualValues(t, many, c.review(t, all...))
	require.Equal(t, []int{150, 150, 150, 150, 150, 150, 101}, calls("evalsha", 3+3))
	require.Empty(t, c.standing(t, c.queue))
	require.Len(t, c.standing(t, c.dlq), many)

	calls = c.watch(1)
	reasons := c.reasons(t, append(members, "absent")...)
	require.Equal(t, []int{500, 500, 2}, calls("hmget", 2))
	require.Len(t, reasons, many)
	for _, f := range all {
		require.Equal(t, f.Reason, reasons[f.Member])
	}
	require.Zero(t, c.review(t))
	require.Empty(t, c.reasons(t))
}

// watch shows how many members each further command carries, or each call of a script by its SHA; a member takes so many
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

func TestReasonsLeaveOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	for member, value := range map[string]string{
		"1": `{"cause":"A","retryable":true}`, "2": "not json", "3": "", "4": `{"attempts":"many"}`, "\xff\x00": `{"cause":"B"}`,
	} {
		require.NoError(t, c.rdb.HSet(t.Context(), c.reason, member, value).Err())
	}
	require.Equal(t, map[string]Reason{"1": {Cause: "A", Retryable: true}, "\xff\x00": {Cause: "B"}},
		c.reasons(t, "1", "2", "3", "4", "5", "\xff\x00"))
}

func (c *fixture) remove(t testingT, closes time.Time, mark coupon.Mark, entries ...coupon.Application) int64 {
	t.Helper()
	n, err := c.Remove(t.Context(), c.id, closes, mark, entries)
	require.NoError(t, err)
	return n
}

func TestRemoveTakesOnlyWhatStandsWithThatArrival(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	c.stand(t, c.queue, place{"1000", "1"}, place{"1001", "2"}, place{"1002", "3"}, place{"1003", "both"}, place{"1009", "older"})
	c.stand(t, c.dlq, place{"1004", "4"}, place{"1005", "5"}, place{"1003", "both"}, place{"1006", "older"})
	for _, member := range []string{"4", "5", "both", "older"} {
		require.NoError(t, c.rdb.HSet(t.Context(), c.reason, member, "{}").Err())
	}
	require.EqualValues(t, 5, c.remove(t, noon, coupon.MarkNone,
		coupon.Application{Member: "1", Arrival: 1000},
		coupon.Application{Member: "2", Arrival: 1000}, // came again
		coupon.Application{Member: "3", Arrival: 1003}, // never stood so
		coupon.Application{Member: "4", Arrival: 1004},
		coupon.Application{Member: "5", Arrival: 1004},
		coupon.Application{Member: "both", Arrival: 1003},
		coupon.Application{Member: "older", Arrival: 1006}, // the one under review; the one in the queue stays
		coupon.Application{Member: "nobody", Arrival: 1000},
	))
	require.Equal(t, map[string]float64{"2": 1001, "3": 1002, "older": 1009}, c.standing(t, c.queue))
	require.Equal(t, map[string]float64{"5": 1005}, c.standing(t, c.dlq))
	require.Equal(t, map[string]string{"5": "{}"}, c.rdb.HGetAll(t.Context(), c.reason).Val())
	c.requireExists(t, false, c.issued, c.rejected)

	before := c.content(t)
	require.Zero(t, c.remove(t, noon, coupon.MarkNone, coupon.Application{Member: "1", Arrival: 1000}, coupon.Application{Member: "4", Arrival: 1004}))
	require.Zero(t, c.remove(t, noon, coupon.MarkNone))
	require.Equal(t, before, c.content(t))
}

func TestRemoveMarksItsUsers(t *testing.T) {
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
			entries := []coupon.Application{{Member: "1", Arrival: at[0].Arrival, Source: coupon.SourceQueue}, {Member: "18446744073709551615", Arrival: at[1].Arrival}}
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
				require.ElementsMatch(t, []string{"1", "18446744073709551615"}, c.rdb.SMembers(t.Context(), marked).Val())
				require.Equal(t, max(noon.Unix(), closes.Unix())+int64(testTTL/time.Second), c.expires(t, marked))
			}
			c.requireExists(t, false, c.dlq, c.reason)
			require.Equal(t, map[string]float64{"3": float64(at[2].Arrival)}, c.standing(t, c.queue))
			require.Equal(t, tc.want, c.apply(t, 1).Code)
			require.Equal(t, tc.want, c.apply(t, math.MaxUint64).Code)
			require.Equal(t, Duplicate, c.apply(t, 3).Code)
		})
	}
}

// A settled user is marked also when a run that crashed has removed him before.
func TestRemoveMarksWhoNoLongerStands(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	require.Zero(t, c.remove(t, noon, coupon.MarkIssued, coupon.Application{Member: "7", Arrival: 1000}))
	require.Equal(t, AlreadyIssued, c.apply(t, 7).Code)
}

func TestRemoveOfMoreThanOneCallTakes(t *testing.T) {
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
		entries = append(entries, coupon.Application{Member: at.member, Arrival: int64(1795143600000000 + i)})
	}
	c.stand(t, c.queue, queue...)
	c.stand(t, c.dlq, dlq...)
	calls := c.watch(2)
	require.EqualValues(t, many, c.remove(t, noon, coupon.MarkIssued, entries[:many]...))
	require.ElementsMatch(t, []int{500, 500, 7}, calls(removeScript.sha, 3+4+2))
	require.Len(t, c.rdb.SMembers(t.Context(), c.issued).Val(), many)
	require.Equal(t, 1, len(c.standing(t, c.queue))+len(c.standing(t, c.dlq)))
}

func TestRemoveOfScoresWrittenByHand(t *testing.T) {
	t.Parallel()
	for _, score := range []string{"-inf", "-3.5", "-0", "0", "12.75", "8999999999999999"} {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			member := "no\x00user\xff한"
			c.stand(t, c.queue, place{score, member})
			c.stand(t, c.dlq, place{score, "\xfe"})
			entries, _, err := c.Page(t.Context(), c.id, coupon.Cursor{}, time.UnixMicro(9e15))
			require.NoError(t, err)
			require.Len(t, entries, 2)
			require.EqualValues(t, 2, c.remove(t, noon, coupon.MarkNone, entries...))
			c.requireExists(t, false, c.queue, c.dlq)
		})
	}
}

// Who stand side by side in the queue are cut out of it at once; whoever does not stand there exactly so is looked at one
// by one.
func TestCuttingTakesNobodyElse(t *testing.T) {
	t.Parallel()
	stand := func(c *fixture, key string, arrival coupon.Arrival, member string) {
		require.NoError(t, c.rdb.ZAdd(t.Context(), key, redis.Z{Score: float64(arrival), Member: member}).Err())
	}
	gone := func(c *fixture, members ...any) {
		require.NoError(t, c.rdb.ZRem(t.Context(), c.queue, members...).Err())
	}
	for name, test := range map[string]struct {
		meddle func(c *fixture, at []Receipt)
		cut    bool
		left   []string
	}{
		"as it is":               {cut: true, left: []string{"1", "5"}},
		"they are the head":      {func(c *fixture, _ []Receipt) { gone(c, "1") }, true, []string{"5"}},
		"they are all":           {func(c *fixture, _ []Receipt) { gone(c, "1", "5") }, true, []string{}},
		"the first is gone":      {func(c *fixture, _ []Receipt) { gone(c, "2") }, false, []string{"1", "5"}},
		"one between is gone":    {func(c *fixture, _ []Receipt) { gone(c, "3") }, false, []string{"1", "5"}},
		"the last is gone":       {func(c *fixture, _ []Receipt) { gone(c, "4") }, false, []string{"1", "5"}},
		"all are gone":           {func(c *fixture, _ []Receipt) { gone(c, "1", "2", "3", "4", "5") }, false, []string{}},
		"one stands between":     {func(c *fixture, at []Receipt) { stand(c, c.queue, at[2].Arrival, "29") }, false, []string{"1", "29", "5"}},
		"one stands for another": {func(c *fixture, at []Receipt) { gone(c, "3"); stand(c, c.queue, at[2].Arrival, "9") }, false, []string{"1", "9", "5"}},
		"the first came again":   {func(c *fixture, at []Receipt) { stand(c, c.queue, at[4].Arrival+1, "2") }, false, []string{"1", "5", "2"}},
		"one between came again": {func(c *fixture, at []Receipt) { stand(c, c.queue, at[4].Arrival+1, "3") }, false, []string{"1", "5", "3"}},
		"the last came again":    {func(c *fixture, at []Receipt) { stand(c, c.queue, at[4].Arrival+1, "4") }, false, []string{"1", "5", "4"}},
		"the last came again, and is the last": {func(c *fixture, at []Receipt) {
			gone(c, "5")
			stand(c, c.queue, at[4].Arrival+1, "4")
		}, false, []string{"1", "4"}},
		"the first is earlier": {func(c *fixture, at []Receipt) { stand(c, c.queue, at[0].Arrival, "2") }, false, []string{"1", "2", "5"}},
		"a score by hand":      {func(c *fixture, at []Receipt) { stand(c, c.queue, at[1].Arrival-1, "1"); gone(c, "5") }, true, []string{"1"}},
		"one stands in the DLQ as well": {func(c *fixture, at []Receipt) {
			stand(c, c.dlq, at[2].Arrival, "3")
			stand(c, c.dlq, at[3].Arrival+1, "4") // another application
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "3", "{}", "4", "{}").Err())
		}, true, []string{"1", "5"}},
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
			if test.meddle != nil {
				test.meddle(c, at)
			}
			before := c.rdb.ZCard(t.Context(), c.queue).Val() + c.rdb.ZCard(t.Context(), c.dlq).Val()
			calls := c.watch(1)
			removed := c.remove(t, noon.Add(time.Hour), coupon.MarkIssued, settled...)
			require.Len(t, calls(removeScript.sha, 0), map[bool]int{true: 0, false: 1}[test.cut])

			require.Equal(t, test.left, c.rdb.ZRange(t.Context(), c.queue, 0, -1).Val())
			require.ElementsMatch(t, []string{"2", "3", "4"}, c.rdb.SMembers(t.Context(), c.issued).Val())
			after := c.rdb.ZCard(t.Context(), c.queue).Val() + c.rdb.ZCard(t.Context(), c.dlq).Val()
			require.Equal(t, before-after, removed)
			if after != int64(len(test.left)) {
				require.Equal(t, []string{"4"}, c.rdb.ZRange(t.Context(), c.dlq, 0, -1).Val())
				require.Equal(t, map[string]string{"4": "{}"}, c.rdb.HGetAll(t.Context(), c.reason).Val())
			}
		})
	}
}
