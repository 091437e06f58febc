package candidates

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// because is a reason that has every field.
func because(attempts int) Reason {
	return Reason{
		Cause: "BAD_ROW", Note: "1264: Out of range \"값\" <é> \\ at row 1\n", Retryable: true,
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

	require.Equal(t, map[string]float64{"2": float64(at[1].Arrival)}, c.scores(t, c.queue))
	require.Equal(t, map[string]float64{
		"1": float64(at[0].Arrival), "18446744073709551615": float64(at[2].Arrival),
	}, c.scores(t, c.dlq))
	require.Equal(t, map[string]Reason{"1": held, "18446744073709551615": because(1)},
		c.reasons(t, "1", "2", "18446744073709551615"))
	require.JSONEq(t, `{"cause":"BAD_ROW","note":"1264: Out of range \"값\" <é> \\ at row 1\n","retryable":true,
		"attempts":1,"run":12345678901234,"at":"2026-11-21T00:00:01.234567Z"}`,
		c.rdb.HGet(t.Context(), c.reason, "18446744073709551615").Val())
	for _, key := range []string{c.dlq, c.reason} {
		require.EqualValues(t, -1, c.expires(t, key), "%s has no expiry", key)
	}

	require.Equal(t, UnderReview, c.apply(t, 1).Code)
	require.Equal(t, at[0].Arrival, c.apply(t, 1).Arrival)
	entries, _ := c.page(t, coupon.Cursor{}, noon.Add(time.Second))
	require.Equal(t, []coupon.Application{
		entry("1", at[0].Arrival, coupon.SourceHeld), entry("2", at[1].Arrival, coupon.SourceQueue),
		entry("18446744073709551615", at[2].Arrival, coupon.SourceRetryable),
	}, entries)
	require.EqualValues(t, 3, c.observe(t).Accepted)
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
		reason.Run += coupon.RunID(attempt)
		require.EqualValues(t, 1, c.review(t, failed{Application: entry("7", at[0].Arrival, source), Reason: reason}))
		require.Zero(t, c.review(t, failed{Application: entry("7", at[0].Arrival, coupon.SourceQueue), Reason: reason}),
			"a run that read it in the queue")
		source = coupon.SourceRetryable
		tried = append(tried, Attempt{reason.At, reason.Run, reason.Cause, reason.Note})
		if reason.Attempts = attempt + 1; attempt > 0 {
			reason.Since, reason.Tried = reason.At, tried[max(0, len(tried)-5):]
		}
		require.Equal(t, map[string]Reason{"7": reason}, c.reasons(t, "7"),
			"the last reason with the number of attempts")
	}
	require.Equal(t, map[string]float64{"7": float64(at[0].Arrival)}, c.scores(t, c.dlq))
	require.Empty(t, c.scores(t, c.queue))
}

// An application that only MySQL has is in the DLQ already. A repeated call of the same run changes nothing. Another
// run has tried once more, also one that got the id of a run that MySQL has lost.
func TestReviewTellsRunsByIDAndTime(t *testing.T) {
	t.Parallel()
	again := because(1)
	otherID, otherTime := again, again
	otherID.Run++
	otherTime.At = otherTime.At.Add(time.Microsecond)
	for name, test := range map[string]struct {
		reason   Reason
		attempts int
	}{
		"the same run":     {again, 1},
		"another run":      {otherID, 2},
		"another, same id": {otherTime, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			for _, reason := range []Reason{again, test.reason} {
				require.EqualValues(t, 1, c.review(t, failed{Application: entry("7", 4000, coupon.SourceNotSelected),
					Reason: reason}))
			}
			require.Equal(t, test.attempts, c.reasons(t, "7")["7"].Attempts)
			for _, reason := range []Reason{again, test.reason} {
				moved, err := c.Moved(t.Context(), c.id, reason.Run, reason.At)
				require.NoError(t, err)
				require.Equal(t, 1, moved)
			}
		})
	}
}

// A failure of the system does not replace the cause that an operator has to fix.
func TestReviewKeepsCauseWhenAsked(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	at := c.accept(t, 7)[0].Arrival
	refused := because(1)
	refused.Refused = 1
	c.review(t, failed{Application: entry("7", at, coupon.SourceQueue), Reason: refused})
	why := c.reasons(t, "7")["7"]
	away := Reason{Cause: "DATABASE_AWAY", Note: "refused", Retryable: true, Attempts: 1, Run: 9,
		At: refused.At.Add(time.Hour)}
	require.EqualValues(t, 1, c.review(t, failed{Keep: true, Application: entry("7", at, coupon.SourceRetryable),
		Reason: away}))
	why.Attempts, why.Run, why.At, why.Since = 2, 9, away.At, refused.At
	why.Tried = []Attempt{{refused.At, refused.Run, refused.Cause, refused.Note}, {away.At, 9, away.Cause, away.Note}}
	require.Equal(t, map[string]Reason{"7": why}, c.reasons(t, "7"))
	require.Zero(t, c.review(t, failed{Keep: true, Application: entry("8", at, coupon.SourceRetryable), Reason: away}),
		"no such entry")
}

// The tenth refusal of a row, by any run, makes the entry held.
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

	require.EqualValues(t, 1, c.release(t, coupon.Application{Member: "7", Arrival: at}))
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, noon.Add(time.Hour)))
	c.review(t, failed{Application: entry("7", at, coupon.SourceRetryable), Reason: because(1)}) // any other failure
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, noon.Add(time.Hour)), "no further refusal")
	require.Equal(t, 10, c.reasons(t, "7")["7"].Refused, "the refusals stay counted")
	c.review(t, failed{Application: entry("7", at, coupon.SourceRetryable), Reason: refused})
	require.Equal(t, coupon.SourceHeld, c.sourceOf7(t, noon.Add(time.Hour)))
}

// sourceOf7 is the source of the only entry on a page before the cutoff.
func (c *fixture) sourceOf7(t *testing.T, cutoff time.Time) coupon.Source {
	t.Helper()
	entries, _ := c.page(t, coupon.Cursor{}, cutoff)
	require.Len(t, entries, 1)
	return entries[0].Source
}

// An entry is SourceTriedTonight for the last night that tried it. A manual run or a release does not change that.
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
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first.In(time.FixedZone("Seoul", 9*3600))),
		"the same instant")
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, second))
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, first.Add(time.Microsecond)))
	refusedBy(coupon.SourceRetryable, time.Time{}) // a manual run
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	c.review(t, failed{Keep: true, Application: entry("7", at, coupon.SourceRetryable), Reason: because(1)})
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	c.release(t, coupon.Application{Member: "7", Arrival: at})
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, first))
	refusedBy(coupon.SourceRetryable, second)
	require.Equal(t, coupon.SourceRowRefused, c.sourceOf7(t, first))
	require.Equal(t, coupon.SourceTriedTonight, c.sourceOf7(t, second))
	require.Equal(t, second.UTC(), c.reasons(t, "7")["7"].Night)
	reviewed, _, err := c.UnderReview(t.Context(), c.id, coupon.Cursor{})
	require.NoError(t, err)
	require.Equal(t, []coupon.Application{entry("7", at, coupon.SourceRowRefused)}, reviewed)
}

// An entry without a readable reason is held.
func TestReviewSkipsHeldEntries(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]string{
		"garbage": "not json", "empty": "", "list": "[1]", "number": "3", "null": "null", "no attempts": "{}",
		"attempts text": `{"attempts":"3"}`,
		"held":          `{"cause":"UNKNOWN_USER","retryable":false}`,
		"too deep":      strings.Repeat("[", 5000),
		"none":          "-",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.addToDLQ(t, place{"1000", "7"}, old)
			before := c.content(t)
			require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceRetryable),
				Reason: because(1)}))
			require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceQueue), Reason: because(1)}))
			require.Equal(t, before, c.content(t))
		})
	}
}

func TestReviewSkipsChangedApplications(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ queue, dlq []place }{
		"no entry":                          {},
		"a new application in the queue":    {queue: []place{{"1001", "7"}}},
		"an earlier arrival in the queue":   {queue: []place{{"999", "7"}}},
		"another arrival in the DLQ":        {dlq: []place{{"999", "7"}}},
		"an older entry in the DLQ as well": {queue: []place{{"1000", "7"}}, dlq: []place{{"999", "7"}}},
		"another member":                    {queue: []place{{"1000", "07"}, {"1000", "7 "}, {"1000", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.addByHand(t, c.queue, tc.queue...)
			c.addByHand(t, c.dlq, tc.dlq...)
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "7", `{"cause":"OLDER"}`).Err())
			before := c.content(t)
			require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceQueue), Reason: because(1)}))
			require.Equal(t, before, c.content(t))
		})
	}
}

func TestReviewOfAnEntryOfBothKeysKeepsTheDLQ(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.addByHand(t, c.queue, place{"1000", "7"})
	c.addByHand(t, c.dlq, place{"1000", "7"})
	require.Zero(t, c.review(t, failed{Application: entry("7", 1000, coupon.SourceQueue), Reason: because(1)}))
	require.Equal(t, map[string]float64{"7": 1000}, c.scores(t, c.dlq))
	require.Empty(t, c.scores(t, c.queue))
}

// Page rounds and bounds scores, and Review receives those.
func TestReviewMatchesHandwrittenScores(t *testing.T) {
	t.Parallel()
	for score, want := range map[string]float64{"-inf": 0, "-3.5": 0, "0": 0, "12.75": 12,
		"8999999999999999": 8999999999999999} {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			member := "no\x00user\xff한"
			c.addByHand(t, c.queue, place{score, member})
			entries, _ := c.page(t, coupon.Cursor{}, time.UnixMicro(9e15))
			require.Len(t, entries, 1)
			require.EqualValues(t, 1, c.review(t, failed{Application: entries[0], Reason: because(1)}))
			require.Empty(t, c.scores(t, c.queue))
			require.Equal(t, map[string]float64{member: want}, c.scores(t, c.dlq))
			entries[0].Source = coupon.SourceRetryable
			require.EqualValues(t, 1, c.review(t, failed{Application: entries[0], Reason: because(1)}),
				"again in the DLQ")
			require.Equal(t, 2, c.reasons(t, member)[member].Attempts)
		})
	}
}

func TestReviewAndReasonsSplitLargeBatches(t *testing.T) {
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
		reason.Run = coupon.RunID(i)
		all = append(all, failed{Application: entry(member, coupon.Arrival(1000+i), coupon.SourceQueue),
			Reason: reason})
	}
	c.addByHand(t, c.queue, places...)
	calls := c.watch(4)
	require.EqualValues(t, many, c.review(t, all...))
	require.Equal(t, []int{150, 150, 150, 150, 150, 150, 101}, calls("evalsha", 3+7+2))
	require.Empty(t, c.scores(t, c.queue))
	require.Len(t, c.scores(t, c.dlq), many)

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

func TestReasonsOmitUnreadableOnes(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	for member, value := range map[string]string{
		"1": `{"cause":"A","retryable":true}`, "2": "not json", "3": "", "4": `{"attempts":"many"}`,
		"\xff\x00": `{"cause":"B"}`,
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
