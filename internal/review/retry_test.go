package review

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// queue is a DLQ in memory. Runs settle every member but those that stay.
type queue struct {
	entries []history.DLQEntry
	stay    []string
	runs    [][]string
	rounds  []Round
	left    int // seats after a run
}

func (q *queue) retry(canaries int, s Selection) Retry {
	return Retry{
		Selection: s, Canaries: canaries,
		Each: func(_ context.Context, of Selection, visit func(history.DLQEntry)) error {
			for _, e := range q.entries {
				if of.HasCause(e) && (len(of.Users) == 0 || slices.Contains(of.Users, e.User)) {
					visit(e)
				}
			}
			return nil
		},
		Run: func(_ context.Context, _ bool, members []string) (*settle.Report, error) {
			q.runs = append(q.runs, members)
			q.entries = slices.DeleteFunc(q.entries, func(e history.DLQEntry) bool {
				return slices.Contains(members, e.User) && !slices.Contains(q.stay, e.User)
			})
			return &settle.Report{Cutoff: time.Unix(100, 0), Coupons: []settle.Result{{SeatsLeft: q.left}}}, nil
		},
		Done: func(r Round) { q.rounds = append(q.rounds, r) },
	}
}

func entries(users ...string) (all []history.DLQEntry) {
	for i, user := range users {
		all = append(all, history.DLQEntry{User: user, Arrival: time.Unix(int64(i), 0)})
		all[i].Cause = "BAD_ROW"
	}
	return all
}

func TestRetry(t *testing.T) {
	t.Parallel()
	byCause := Selection{Causes: []string{"BAD_ROW"}}
	for name, c := range map[string]struct {
		canaries  int
		selection Selection
		stay      []string
		want      error
		runs      [][]string
	}{
		"TriesAllInOneRun":               {0, byCause, nil, nil, [][]string{{"1", "2", "3"}}},
		"LeavesAnEmptySelectionToTheRun": {0, Selection{}, nil, nil, [][]string{nil}},
		"TriesCanariesFirst":             {1, byCause, nil, nil, [][]string{{"1"}, {"2", "3"}}},
		"StopsAfterAFailedCanary":        {2, byCause, []string{"2"}, ErrCanariesFailed, [][]string{{"1", "2"}}},
		"NeedsNoCanariesForAsFewEntries": {3, byCause, nil, nil, [][]string{{"1", "2", "3"}}},
		"ReportsThatNoEntryHasTheCause":  {1, Selection{Causes: []string{"MALFORMED_USER_ID"}}, nil, ErrNoEntry, nil},
		"LeavesMissingUsersToTheSettler": {1, Selection{Users: []string{"1", "9"}}, nil, nil, [][]string{{"1", "9"}}},
		"TriesCanariesAmongChosenUsers": {1, Selection{Users: []string{"3", "2"}}, nil, nil,
			[][]string{{"2"}, {"3"}}},
		"ReportsEntriesThatStayAfterAll":  {0, byCause, []string{"3"}, nil, [][]string{{"1", "2", "3"}}},
		"TriesOthersThoughOneOfThemStays": {1, byCause, []string{"3"}, nil, [][]string{{"1"}, {"2", "3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queue{entries: entries("1", "2", "3"), stay: c.stay, left: 5}
			require.ErrorIs(t, q.retry(c.canaries, c.selection).Do(t.Context()), c.want)
			require.Equal(t, c.runs, q.runs)
			require.Len(t, q.rounds, len(c.runs))
			if len(c.stay) > 0 {
				require.Equal(t, 1, q.rounds[len(q.rounds)-1].Stay.All())
			}
		})
	}
}

// A retry that is pinned to a preview tries the entries that it showed, or none. An entry that comes meanwhile is not
// among the others that are tried after the canaries.
func TestRetry_TriesWhatWasShown(t *testing.T) {
	t.Parallel()
	shown := func(users ...string) (all []Entry) {
		for _, e := range entries(users...) {
			all = append(all, EntryOf(e))
		}
		return all
	}
	require.Equal(t, Digest(shown("1", "2")), Digest([]Entry{shown("1", "2")[1], shown("1", "2")[0]}),
		"whatever their order")
	q := &queue{entries: entries("1", "2", "3"), left: 5}
	pinned := q.retry(1, Selection{})
	pinned.Expect = Digest(shown("1", "2"))
	err := pinned.Do(t.Context())
	require.True(t, text.Is(err, text.PreviewChanged), err)
	require.Empty(t, q.runs)

	pinned.Expect = Digest(shown("1", "2", "3"))
	run := pinned.Run
	pinned.Run = func(ctx context.Context, canaries bool, members []string) (*settle.Report, error) {
		q.entries = append(q.entries, history.DLQEntry{User: "4", Arrival: time.Unix(4, 0)})
		return run(ctx, canaries, members)
	}
	require.NoError(t, pinned.Do(t.Context()))
	require.Equal(t, [][]string{{"1"}, {"2", "3"}}, q.runs)

	q = &queue{entries: entries("1", "2"), left: 5}
	pinned = q.retry(0, Selection{})
	pinned.Expect = Digest(shown("1", "2"))
	require.NoError(t, pinned.Do(t.Context()))
	require.Equal(t, [][]string{{"1", "2"}}, q.runs, "not all that are there by then")
}

func TestStay_CountsEachEntryByOneReason(t *testing.T) {
	t.Parallel()
	before := Entry{User: "1", Arrival: 1, Attempts: 1}
	for want, change := range map[Stay]func(r *Round, before *Entry, attempts *int){
		{Again: 1}:    func(_ *Round, _ *Entry, attempts *int) { *attempts++ },
		{Seatless: 1}: func(r *Round, _ *Entry, _ *int) { r.Report.Coupons[0].SeatsLeft = 0 },
		{Kept: 1}:     func(r *Round, _ *Entry, _ *int) { r.Canaries = 1 },
		{Late: 1, LastArrival: coupon.Arrival(100_000_000).Time()}: func(_ *Round, before *Entry, _ *int) {
			before.Arrival = 100_000_000
		},
	} {
		round := Round{Report: &settle.Report{Cutoff: time.Unix(100, 0), Coupons: []settle.Result{{SeatsLeft: 1}}}}
		tried, attempts := before, before.Attempts
		change(&round, &tried, &attempts)
		var stay Stay
		stay.add(tried, attempts, round)
		require.Equal(t, want, stay)
		require.Equal(t, 1, stay.All())
	}
}
