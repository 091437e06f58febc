package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
)

// addImmediate adds an immediate run that issued so many coupons.
func (d fixture) addImmediate(couponID coupon.CouponID, cutoff time.Time, issued int) coupon.RunID {
	d.T.Helper()
	done, err := d.DB.Exec(`INSERT INTO settlement_run (trigger_kind, cutoff, started_at, heartbeat_at, nonce,
		finished_at, status)
		VALUES ('IMMEDIATE', ?, ?, ?, HEX(UUID_SHORT()), ?, 'SUCCEEDED')`, cutoff, cutoff.Add(time.Second),
		cutoff.Add(time.Second), cutoff.Add(2*time.Second))
	require.NoError(d.T, err)
	id, err := done.LastInsertId()
	require.NoError(d.T, err)
	d.Exec("INSERT INTO settlement (run_id, coupon_id, issued_count, under_review_count, ended_count, "+
		"not_selected_count, already_issued_count, settled_at) VALUES (?, ?, ?, 2, 1, 3, 1, NOW(6))",
		id, couponID, issued)
	return coupon.RunID(id)
}

// lines tells what each line stands for.
func lines(runs []history.Run) []string {
	found := []string{}
	for _, r := range runs {
		line := fmt.Sprintf("%d %s", r.ID, r.Trigger)
		if r.Runs > 0 {
			line += fmt.Sprintf(" to %d: %d of coupon %d, %d issued", r.LastRun, r.Runs, r.Fold.Coupon, r.Issued)
		}
		found = append(found, line)
	}
	return found
}

func TestRunsFoldImmediateRuns(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	night := noon.Add(-24 * time.Hour)
	add := func(couponID coupon.CouponID, at time.Duration, issued int) {
		d.addImmediate(couponID, noon.Add(at), issued)
	}
	d.addRecord(d.addRun("CRON", "SUCCEEDED", night, 0), 7, 1, 0) // 1
	add(7, 58*time.Minute, 1)                                     // 2
	add(8, 59*time.Minute, 10)                                    // 3
	add(7, time.Hour-time.Microsecond, 2)                         // 4
	add(7, time.Hour, 4)                                          // 5
	add(8, 61*time.Minute, 20)                                    // 6
	d.addRun("MANUAL", "HELD", noon.Add(62*time.Minute), 0)       // 7
	d.addResult(7, 7, "HELD", "promises are missing")
	add(7, 63*time.Minute, 8)    // 8
	add(7, 30*time.Minute, 100)  // 9, begun late
	add(9, -26*time.Hour, 1000)  // 10, of a coupon that was frozen
	add(8, 119*time.Minute, 200) // 11

	all := []string{"10 IMMEDIATE to 10: 1 of coupon 9, 1000 issued", "7 MANUAL",
		"6 IMMEDIATE to 11: 2 of coupon 8, 220 issued",
		"5 IMMEDIATE to 8: 2 of coupon 7, 12 issued", "3 IMMEDIATE to 3: 1 of coupon 8, 10 issued",
		"2 IMMEDIATE to 9: 3 of coupon 7, 103 issued", "1 CRON"}
	reader := history.Reader{DB: d.DB}
	read := func(t *testing.T, f history.RunFilter) []history.Run {
		if f.Limit == 0 {
			f.Limit = 100
		}
		runs, err := reader.Runs(t.Context(), f)
		require.NoError(t, err)
		return runs
	}
	for name, test := range map[string]struct {
		filter history.RunFilter
		want   []string
	}{
		"all":           {history.RunFilter{}, all},
		"of a coupon":   {history.RunFilter{Coupon: 7}, []string{all[1], all[3], all[5], all[6]}},
		"a page of one": {history.RunFilter{Coupon: 8, Limit: 1}, all[2:3]},
		"SUCCEEDED": {history.RunFilter{Status: "SUCCEEDED"},
			[]string{all[0], all[2], all[3], all[4], all[5], all[6]}},
		"HELD":       {history.RunFilter{Status: "HELD"}, all[1:2]},
		"nightly":    {history.RunFilter{Trigger: "CRON"}, all[6:]},
		"of an hour": {history.RunFilter{From: noon, To: noon.Add(time.Hour - time.Microsecond)}, all[4:6]},
		"of that coupon": {history.RunFilter{From: noon, To: noon.Add(time.Hour - time.Microsecond), Coupon: 7},
			all[5:6]},
		"of part of a fold": {history.RunFilter{From: noon.Add(30 * time.Minute), To: noon.Add(58 * time.Minute)},
			[]string{"2 IMMEDIATE to 2: 1 of coupon 7, 1 issued"}},
		"without an end": {history.RunFilter{From: noon.AddDate(-1, 0, 0)}, all},
		"of no coupon":   {history.RunFilter{Coupon: 10}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, lines(read(t, test.filter)))
		})
	}
	for name, test := range map[string]struct {
		filter history.RunFilter
		want   []coupon.RunID
	}{
		"each":                {history.RunFilter{}, []coupon.RunID{11, 10, 9, 8, 6, 5, 4, 3, 2}},
		"each of a page":      {history.RunFilter{Before: 9, Limit: 2}, []coupon.RunID{8, 6}},
		"each of a coupon":    {history.RunFilter{Coupon: 7, Before: 9}, []coupon.RunID{8, 5, 4, 2}},
		"each of a date":      {history.RunFilter{From: noon, To: noon.Add(time.Hour)}, []coupon.RunID{9, 5, 4, 3, 2}},
		"each of both":        {history.RunFilter{From: noon, To: noon.Add(time.Hour), Coupon: 8}, []coupon.RunID{3}},
		"each of no status":   {history.RunFilter{Status: "FAILED"}, []coupon.RunID{}},
		"each of this status": {history.RunFilter{Status: "SUCCEEDED", Limit: 1}, []coupon.RunID{11}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.filter.Trigger = "IMMEDIATE"
			runs := read(t, test.filter)
			require.Equal(t, test.want, runIDs(runs))
			for _, r := range runs {
				require.Zero(t, r.Fold)
				require.EqualValues(t, 1000, *r.Millis)
			}
		})
	}
	t.Run("sums", func(t *testing.T) {
		t.Parallel()
		r := read(t, history.RunFilter{Coupon: 7})[2]
		require.Equal(t, history.Counts{Issued: 103, UnderReview: 6, Rejected: 3, AlreadyIssued: 3, NotSelected: 9},
			r.Counts)
		require.Equal(t, [2]time.Time{noon.Add(58 * time.Minute), noon.Add(58*time.Minute + time.Second)},
			[2]time.Time{r.Cutoff, r.StartedAt})
		require.Equal(t, noon.Add(30*time.Minute+2*time.Second), *r.FinishedAt)
		require.EqualValues(t, 1, r.Coupons)
		require.Nil(t, r.Millis)
	})
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		run, err := reader.Run(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, coupon.ImmediateRun, run.Trigger)
		require.EqualValues(t, 100, run.Issued)
		require.Zero(t, run.Fold)
	})
}

// Runs begin while somebody reads page after page. No line comes twice, and none is left out.
func TestPagesOfFolds(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for n := range 24 {
		d.addImmediate(coupon.CouponID(1+n%3), noon.Add(time.Duration(n%7)*25*time.Minute), 1)
		if n%5 == 0 {
			d.addRun("MANUAL", "SUCCEEDED", noon, 0)
		}
	}
	reader := history.Reader{DB: d.DB}
	whole, err := reader.Runs(t.Context(), history.RunFilter{Limit: 500})
	require.NoError(t, err)
	for _, limit := range []int{1, 2, 3, 7, len(whole), len(whole) + 1} {
		var ids []coupon.RunID
		for f := (history.RunFilter{Limit: limit}); ; {
			page, err := reader.Runs(t.Context(), f)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			if len(page) == 0 {
				break
			}
			ids = append(ids, runIDs(page)...)
			f.Before = page[len(page)-1].ID
			d.addImmediate(1, noon, 0) // of the oldest fold
		}
		require.Equal(t, runIDs(whole), ids, "pages of %d", limit)
	}
}
