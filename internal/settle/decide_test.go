package settle

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseUserTakesOnlyCanonicalIDs(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]uint64{
		"1": 1, "42": 42, "18446744073709551615": math.MaxUint64,
		"0": 0, "": 0, "01": 0, "+1": 0, "-1": 0, " 1": 0, "1 ": 0, "1.0": 0, "1e3": 0, "abc": 0, "18446744073709551616": 0, "１": 0, "1\x00": 0,
	} {
		require.Equal(t, want, coupon.ParseUserID(member), "%q", member)
	}
}

func FuzzParseUser(f *testing.F) {
	for _, seed := range []string{"1", "01", "abc", "18446744073709551616", "", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, member string) {
		if user := coupon.ParseUserID(member); user != 0 && strconv.FormatUint(user, 10) != member {
			t.Errorf("%q was read as %d", member, user)
		}
	})
}

func application(user uint64, arrival int64, source coupon.Source) coupon.Application {
	return coupon.Application{Member: coupon.Member(user), Arrival: arrival, Source: source}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []classified{
		{Application: application(1, 10, coupon.SourceQueue)},
		{Application: application(2, 11, coupon.SourceNotSelected), verdict: unknownUser},
		{Application: application(3, 12, coupon.SourceHeld)},
		{Application: application(4, 13, coupon.SourceRetryable)},
		{Application: application(1, 14, coupon.SourceNotSelected)}, // a second place
		{Application: application(4, 15, coupon.SourceQueue)},       // a second place
		{Application: application(5, 16, coupon.SourceQueue)},
		{Application: application(6, 17, coupon.SourceQueue), verdict: inactiveUser},
		{Application: application(7, 18, coupon.SourceQueue)},
	}
	chosen := func(s selection) []uint64 { return usersIn(s.chosen) }
	first := run{}.choose(all, 2, newPageUsers(all))
	require.Equal(t, []uint64{1, 4}, chosen(first))
	require.Equal(t, "[[1,1],[4,98306]]", first.rows.json)
	require.Equal(t, all[1:2], first.ended)
	require.Equal(t, all[4:], first.rest, "it looks no further than the last seat")

	second := run{}.choose(first.rest, 2, first.users)
	require.Equal(t, []uint64{5, 7}, chosen(second), "the first place of a user counts")
	require.Equal(t, all[4:5], second.second)
	whole := run{}.choose(all, 9, newPageUsers(all))
	require.Equal(t, []uint64{1, 4, 5, 7}, chosen(whole))
	require.Equal(t, holdsAlready, whole.secondPlaces(whole.chosen)[0].verdict)
	require.Empty(t, whole.secondPlaces(whole.chosen[1:]), "the row of user 1 was refused: the record stays")
}

// A score written by hand may be anything from 0 on.
func TestChooseEndsWhereArrivalsAreYearsApart(t *testing.T) {
	t.Parallel()
	const last = 1<<53 - 1
	all := []classified{
		{Application: application(1, 0, coupon.SourceQueue)}, {Application: application(2, maxLater, coupon.SourceQueue)},
		{Application: application(3, maxLater+1, coupon.SourceQueue)}, {Application: application(4, last, coupon.SourceQueue)},
	}
	c := run{}.choose(all, 4, nil)
	require.Equal(t, []uint64{1, 2}, usersIn(c.chosen))
	require.Equal(t, all[2:], c.rest)
	require.Equal(t, fmt.Sprintf("[[1,1],[2,%d]]", int64(maxLater)<<placeBits+2), c.rows.json)
	require.Positive(t, int64(maxLater)<<placeBits+2)
	require.Equal(t, []uint64{3}, usersIn(run{}.choose(c.rest, 2, nil).chosen))
}

func TestDecideGivesEachApplicationOneOutcome(t *testing.T) {
	t.Parallel()
	const boundary = 100
	before, behind := int64(50), int64(150)
	for name, c := range map[string]struct {
		classified
		free int
		want string
	}{
		"issued, not cleaned":       {classified{application(1, before, coupon.SourceQueue), alreadySettled, true, ""}, 0, "issued"},
		"recorded, not cleaned":     {classified{application(1, behind, coupon.SourceQueue), alreadySettled, false, ""}, 0, "recorded"},
		"held, but issued":          {classified{application(1, before, coupon.SourceHeld), alreadySettled, true, ""}, 0, "issued"},
		"held":                      {classified{application(1, before, coupon.SourceHeld), unknownUser, false, ""}, 0, "stays"},
		"holds another":             {classified{application(1, behind, coupon.SourceQueue), holdsAlready, true, ""}, 0, "already"},
		"unknown":                   {classified{application(1, behind, coupon.SourceQueue), unknownUser, false, ""}, 0, "review UNKNOWN_USER"},
		"unknown, seats free":       {classified{application(1, before, coupon.SourceQueue), unknownUser, false, ""}, 5, "review UNKNOWN_USER"},
		"inactive, retried":         {classified{application(1, behind, coupon.SourceRetryable), inactiveUser, false, "BLOCKED"}, 0, "review INACTIVE_USER"},
		"malformed":                 {classified{coupon.Application{Member: "abc", Arrival: behind, Source: coupon.SourceQueue}, malformedUser, false, ""}, 0, "review MALFORMED_USER_ID"},
		"eligible, seats added":     {classified{application(1, behind, coupon.SourceQueue), eligible, false, ""}, 1, "stays"},
		"eligible, behind the last": {classified{application(1, behind, coupon.SourceQueue), eligible, false, ""}, 0, "not selected"},
		"before, seats free":        {classified{application(1, before, coupon.SourceQueue), eligible, false, ""}, 5, "review PASSED_OVER"},
		"retryable, behind":         {classified{application(1, behind, coupon.SourceRetryable), eligible, false, ""}, 0, "not selected"},
		"retryable, in a retry":     {classified{application(1, behind, coupon.SourceRetryable), eligible, false, ""}, 0, "stays"},
		"tried tonight, behind":     {classified{application(1, behind, coupon.SourceTriedTonight), eligible, false, ""}, 0, "stays"},
		"refused before, behind":    {classified{application(1, behind, coupon.SourceRowRefused), eligible, false, ""}, 0, "not selected"},
		"waiting, in a retry":       {classified{application(1, behind, coupon.SourceQueue), eligible, false, ""}, 0, "not selected"},
		"holds, in a retry":         {classified{application(1, behind, coupon.SourceRetryable), holdsAlready, true, ""}, 0, "already"},
		"eligible, before the last": {classified{application(1, before, coupon.SourceQueue), eligible, false, ""}, 0, "review PASSED_OVER"},
		"passed over already":       {classified{application(1, before, coupon.SourceRetryable), eligible, false, ""}, 0, "stays"},
	} {
		r := run{Order: Order{Trigger: coupon.Cron}}
		if strings.HasSuffix(name, "in a retry") {
			r.Trigger = coupon.DLQRetry
		}
		d := decide([]classified{c.classified}, c.free, boundary, r.stays)
		got := []string{}
		for fate, n := range map[string]int{"issued": len(d.issuedBefore), "recorded": len(d.recordedBefore), "already": len(d.alreadyIssued), "not selected": len(d.notSelected)} {
			if n == 1 {
				got = append(got, fate)
			}
		}
		for _, f := range d.review {
			got = append(got, "review "+string(f.Cause))
			require.Equal(t, f.Cause == coupon.CausePassedOver, f.Retryable)
		}
		if len(got) == 0 {
			got = append(got, "stays")
		}
		require.Equal(t, []string{c.want}, got, name)
	}
}

// memoryLine serves pages of a sorted line; it is only read here.
type memoryLine struct {
	Line
	all  []coupon.Application
	size int
}

func (l memoryLine) Page(_ context.Context, _ uint64, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	from, _ := strconv.Atoi(after.Score)
	page := l.all[from:min(len(l.all), from+l.size)]
	return page, coupon.Cursor{Score: strconv.Itoa(from + len(page))}, nil
}

func TestLineReaderMergesByArrival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		arrivals := rapid.SliceOfN(rapid.Int64Range(0, 50), 0, 60)
		line := func(source coupon.Source, size string) (all []coupon.Application) {
			for i, arrival := range arrivals.Draw(t, size) {
				all = append(all, application(uint64(i+1), arrival, source))
			}
			slices.SortStableFunc(all, func(a, b coupon.Application) int { return int(a.Arrival - b.Arrival) })
			return all
		}
		standing, returned := line(coupon.SourceQueue, "standing"), line(coupon.SourceNotSelected, "returned")
		r := &lineReader{line: memoryLine{all: standing, size: rapid.IntRange(1, 20).Draw(t, "page")}, inMySQL: returned, mysqlEnded: true,
			size: rapid.IntRange(1, 30).Draw(t, "size")}
		var got []coupon.Application
		for {
			page, err := r.next(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		if len(got) != len(standing)+len(returned) {
			t.Fatalf("%d of %d applications", len(got), len(standing)+len(returned))
		}
		if !slices.IsSortedFunc(got, func(a, b coupon.Application) int { return int(a.Arrival - b.Arrival) }) {
			t.Fatalf("out of order: %v", got)
		}
	})
}
