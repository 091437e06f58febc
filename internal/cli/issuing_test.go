package cli

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/report"
)

// Pages can count down to a coupon that opens within 30 days. Until then the API does not know it.
func TestCouponCreate_SaysWhenItIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := func(days int) []string {
		opens := w.Now().AddDate(0, 0, days).UTC()
		return []string{"--opens=" + opens.Format(time.RFC3339), "--closes=" +
			opens.AddDate(0, 0, 1).Format(time.RFC3339), "--lang=en"}
	}
	code, _, stderr := w.create(at(29)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "The API shows it within 5 s.")
	code, _, stderr = w.create(at(31)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "30 days before it opens; until then it answers 404")
	known := w.Catalog()
	require.NoError(t, known.Refresh(t.Context()))
	_, soon := known.Lookup(1)
	_, later := known.Lookup(2)
	require.True(t, soon)
	require.False(t, later)
}

// A run leaves a frozen coupon alone, shows no winners before, and ends well.
func TestRun_LeavesFrozenCouponAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	frozen := w.couponFor(3, 98, 99) // no such users
	w.SettleNow()
	w.Apply(frozen, 1)
	w.mustChange("freeze", frozen)
	_, stdout, _ := w.settle("run", "--cutoff=now", "--dry-run", "--lang=en")
	require.Contains(t, stdout, "FROZEN")
	require.NotContains(t, stdout, "coupon 1 심야 쿠폰\n", "no preview of winners")
	for _, args := range [][]string{{"--user=99"}, {"--cause=UNKNOWN_USER"}, {"--cause=UNKNOWN_USER", "--canary=1"}} {
		code, stdout, stderr := w.dlq("retry", frozen, append(args, "--cutoff=now", "--lang=en")...)
		require.Zero(t, code)
		require.Contains(t, stdout, "coupon 1: frozen, nothing was settled")
		require.Empty(t, stderr, "nothing was tried, so nothing failed")
	}
	w.verify()
}

// A campaign is the sum of its coupons, with a row for each of them, over its whole life or on one day.
func TestReport_Campaign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.AddCouponBetween(1, kst("2025-11-20 14:00:00"), kst("2025-11-20 15:00:00"))
	second := w.AddCouponBetween(2, kst("2025-11-22 14:00:00"), kst("2025-11-23 00:00:00"))
	w.AddCouponBetween(1, kst("2025-11-20 14:00:00"), kst("2025-11-20 15:00:00"))
	w.Exec("UPDATE coupon SET campaign_id = 7, discount_won = 5000, cadence = 'IMMEDIATE' WHERE id IN (?, ?)", first,
		second)
	w.Exec("UPDATE coupon SET campaign_id = 8 WHERE id NOT IN (?, ?)", first, second)
	w.AddUsers(1, 2)
	w.ApplyAt(first, "1", kst("2025-11-20 14:00:01"))
	w.ApplyAt(first, "2", kst("2025-11-20 14:00:02"))
	w.ApplyAt(second, "1", kst("2025-11-22 23:59:59.999999"))
	w.SettleNow()

	life := w.report("--campaign=7")
	require.Equal(t, kst("2025-11-20 00:00:00").UTC(), life.From.UTC())
	require.Equal(t, kst("2025-11-23 00:00:00").UTC(), life.To.UTC())
	require.Equal(t, []coupon.CouponID{first, second}, ids(life.Coupons))
	require.Equal(t, [4]int64{3, 2, 1, 3}, [4]int64{life.Total.Applications, life.Total.Issued, life.Total.NotSelected,
		life.Total.Seats})
	require.Equal(t, "10000", life.Total.ValueWon.String())
	day := w.report("--campaign=7", "--date=2025-11-20")
	require.Equal(t, []coupon.CouponID{first, second}, ids(day.Coupons), "a row for each round")
	require.Equal(t, [2]int64{2, 1}, [2]int64{day.Total.Applications, day.Total.Issued})
	require.EqualValues(t, 7, day.Coupons[0].CampaignID)
	require.Len(t, w.report("--campaign=8").Coupons, 1)

	says := func(output string) string {
		stdout := succeeds(t)(w.settle("report", "--campaign=7", "--lang=en", "--output="+output))
		return stdout
	}
	require.Contains(t, says("table"), "Settlement report of campaign 7, 2025-11-20 – 2025-11-22")
	require.Contains(t, says("table"), "심야 쿠폰 (immediate)")
	require.Contains(t, says("html"), "<h1>Settlement report of campaign 7, 2025-11-20 – 2025-11-22</h1>")
	require.Contains(t, says("html"), "Applications by hour")
	require.Contains(t, says("csv"), ",error,campaign_id,cadence,frozen,discount_percent,")
	require.Contains(t, says("csv"), ",7,IMMEDIATE,false,0,0,")
	require.Contains(t, says("json"), `"campaign": 7,`)

	w.Exec("UPDATE coupon SET apply_closes_at = ? WHERE id = ?", kst("2026-02-01 00:00:00").UTC(), second)
	require.Contains(t, says("html"), "Applications by day")
	require.EqualValues(t, 3, w.report("--campaign=7").Total.Applications)
	w.Exec("UPDATE coupon SET apply_closes_at = ? WHERE id = ?", kst("2027-02-01 00:00:00").UTC(), second)
	code, stdout, stderr := w.settle("report", "--lang=en", "--campaign=7")
	requireWrongUse(t, "more than 366 days: give --date or --month", code, stdout, stderr)
	require.Len(t, w.report("--campaign=7", "--month=2025-11").Coupons, 2)
}

func ids(coupons []report.Coupon) (ids []coupon.CouponID) {
	for _, c := range coupons {
		ids = append(ids, c.Coupon)
	}
	return ids
}

func TestGoldenIssuing(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "issuing", func(w *world) {
		w.AddUsers(between(1, 4)...)
	}, func(s *spoken) {
		person := []string{"--operator=choi", "--reason=FIN-8"}
		at := func(d time.Duration) string { return s.Now().Add(d).UTC().Format(time.RFC3339) }
		does := func(args ...string) { s.says(append(append([]string{"coupon"}, args...), person...)...) }
		s.atNoon() // the coupons open after the last cutoff, so that none of them is due
		open := "--opens=" + at(-time.Hour)
		does("create", "--name=2회차", "--seats=2", open, "--closes="+at(time.Hour), "--cadence=immediate",
			"--line-limit=1", "--campaign=7")
		does("create", "--name=3회차", "--seats=2", open, "--closes="+at(time.Hour), "--campaign=7")
		does("create", "--name=4회차", "--seats=2", open, "--closes="+at(time.Hour), "--cadence=hourly", "--line-limit=0")
		s.Refresh()
		s.Restore(1) // as `settle serve` does for an open coupon without people
		s.Restore(2)
		applied := s.Now()
		// By a clock that was ahead, so that no machine is too slow for it.
		s.ApplyAt(1, "1", applied.Add(30*time.Minute))
		s.Apply(2, 2)
		s.says("explain", "--coupon=1", "--user=1")
		s.says("explain", "--coupon=1", "--user=2") // the line is full
		require.NoError(t, s.Redis.ZAdd(t.Context(), s.Queue(1),
			redis.Z{Member: "1", Score: float64(applied.UnixMicro())}).Err())
		s.says("run")
		does("freeze", "1")
		does("freeze", "1")
		s.says("coupon", "list", "--campaign=7")
		s.says("coupon", "list", "--cadence=immediate")
		s.says("coupon", "show", "1")
		s.says("explain", "--coupon=1", "--user=1")
		s.says("run")
		s.says(append([]string{"run", "--cutoff=now"}, person...)...)
		s.says("show", "3")
		s.says("report", "--campaign=7")
		does("add-seats", "1", "--seats=1")
		does("unfreeze", "1")
		does("unfreeze", "1", "--output=json")
		does("cadence", "1", "nightly")
		does("pause", "1")
		does("cadence", "1", "nightly")
		s.says(append([]string{"run", "--cutoff=now"}, person...)...)
		does("cadence", "1", "nightly")
		does("cadence", "1", "nightly")
		does("add-seats", "1", "--seats=1")
		does("cadence", "1", "immediate")
		s.says("report", "--campaign=9")
		s.says("report", "--campaign=7", "--coupon=1")
	})
}
