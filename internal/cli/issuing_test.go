package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/report"
)

// created creates a coupon that is open, and returns its id.
func (w *world) created(extra ...string) coupon.CouponID {
	w.T.Helper()
	code, stdout, stderr := w.create(extra...)
	require.Zero(w.T, code, stderr)
	w.Refresh()
	return coupon.CouponID(coupon.ParseUserID(strings.TrimSpace(stdout)))
}

func (w *world) coupons(extra ...string) (ids []coupon.CouponID) {
	w.T.Helper()
	code, stdout, stderr := w.settle(append([]string{"coupon", "list", "--output=json"}, extra...)...)
	require.Zero(w.T, code, stderr)
	var listed []history.CouponFigures
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &listed))
	for _, c := range listed {
		ids = append(ids, c.ID)
	}
	return ids
}

// Pages can count down to a coupon that opens within 30 days. Until then the API does not know it.
func TestCouponCreate_SaysWhenItIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := func(days int) []string {
		opens := w.Now().AddDate(0, 0, days).UTC()
		return []string{"--opens=" + opens.Format(time.RFC3339), "--closes=" + opens.AddDate(0, 0, 1).Format(time.RFC3339), "--lang=en"}
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

func TestCouponCreate_ImmediateWithLineLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, stdout, stderr := w.create("--cadence=immediate", "--line-limit=1", "--campaign=7", "--seats=2", "--validity-days=7", "--discount-won=5000", "--lang=en")
	require.Zero(t, code, "a low limit is allowed")
	require.Equal(t, "1\n", stdout)
	require.Contains(t, stderr, "the line limit (1) is below the number of seats (2)")
	require.Contains(t, stderr, "settle serve")
	_, _, stderr = w.create("--line-limit=2", "--seats=2", "--output=json")
	require.Empty(t, stderr)
	require.Contains(t, w.audited(1, "COUPON_CREATED")[0], `"campaignId":7,"validityDays":7,"discountWon":5000,"cadence":"IMMEDIATE","lineLimit":1}`)
	require.Equal(t, []uint64{2, 7, 5000}, w.IDs(`SELECT total_quantity FROM coupon WHERE id = 1
		UNION ALL SELECT validity_days FROM coupon WHERE id = 1 UNION ALL SELECT discount_won FROM coupon WHERE id = 1`))

	require.Equal(t, []coupon.CouponID{1}, w.coupons("--cadence=immediate"))
	require.Equal(t, []coupon.CouponID{2}, w.coupons("--cadence=nightly"))
	require.Equal(t, []coupon.CouponID{1}, w.coupons("--campaign=7", "--status=open"))
	require.Empty(t, w.coupons("--campaign=8"))
	_, shown, _ := w.settle("coupon", "show", "1", "--output=json")
	var c history.CouponDetails
	require.NoError(t, json.Unmarshal([]byte(shown), &c))
	require.Equal(t, coupon.Immediate, c.Cadence)
	require.EqualValues(t, 1, *c.LineLimit)
	require.False(t, c.Frozen)
	require.Nil(t, c.Freeze)
}

// Freezing needs no Redis. A report says who froze the coupon.
func TestCouponFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(2, 1)
	withoutRedis := *w
	withoutRedis.servers = append([]string{w.servers[0], "--redis-addrs=127.0.0.1:1"}, w.servers[2:]...)
	require.Contains(t, withoutRedis.mustChange("freeze", couponID, "--lang=en"), "applications are still accepted")

	date := w.date()
	frozen := w.report(date).Coupons[0]
	require.True(t, frozen.Frozen)
	require.Equal(t, "park", frozen.Freeze.Actor)
	_, page, _ := w.settle("report", date, "--lang=en", "--output=html")
	require.Contains(t, page, "심야 쿠폰 (frozen)")
	require.Regexp(t, `coupon 1 is frozen since .*, by park: TICKET-9`, page)

	require.Contains(t, w.mustChange("unfreeze", couponID, "--lang=en"), "settled by the nightly runs")
	require.Nil(t, w.report(date).Coupons[0].Freeze)
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

// An applicant of an immediate coupon is told no midnight.
func TestExplain_ImmediateCoupon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atNoon() // after a midnight, who waits is overdue
	w.AddUsers(1, 2)
	couponID := w.created("--cadence=immediate")
	w.ApplyAt(couponID, "1", w.Now().Add(time.Minute)) // by a clock that was ahead, so that no test is too slow for it
	said := w.must(couponID, 1, explain.StateWaitingImmediate)
	require.Contains(t, said, "settled at once")
	require.NotContains(t, w.happened(couponID, 1), explain.EventSettles)
	w.Exec("UPDATE coupon SET line_limit = 1 WHERE id = ?", couponID)
	require.Contains(t, w.must(couponID, 2, explain.StateNeverLineFull), "accepted again when fewer wait")
	w.ApplyAt(couponID, "2", w.Now().Add(-2*time.Minute))
	require.Contains(t, w.must(couponID, 2, explain.StateWaitingDelayed), "if it is not settled before, the settlement planned for")
	_, stdout, _ := w.settle("run", "--lang=en")
	require.NotContains(t, stdout, "due for settlement at")
}

// A campaign is the sum of its coupons, with a row for each of them, over its whole life or on one day.
func TestReport_Campaign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.AddCouponBetween(1, kst("2025-11-20 14:00:00"), kst("2025-11-20 15:00:00"))
	second := w.AddCouponBetween(2, kst("2025-11-22 14:00:00"), kst("2025-11-23 00:00:00"))
	w.AddCouponBetween(1, kst("2025-11-20 14:00:00"), kst("2025-11-20 15:00:00"))
	w.Exec("UPDATE coupon SET campaign_id = 7, discount_won = 5000, cadence = 'IMMEDIATE' WHERE id IN (?, ?)", first, second)
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
	require.Equal(t, [4]int64{3, 2, 1, 3}, [4]int64{life.Total.Applications, life.Total.Issued, life.Total.NotSelected, life.Total.Seats})
	require.Equal(t, "10000", life.Total.ValueWon.String())
	day := w.report("--campaign=7", "--date=2025-11-20")
	require.Equal(t, []coupon.CouponID{first, second}, ids(day.Coupons), "a row for each round")
	require.Equal(t, [2]int64{2, 1}, [2]int64{day.Total.Applications, day.Total.Issued})
	require.EqualValues(t, 7, day.Coupons[0].CampaignID)
	require.Len(t, w.report("--campaign=8").Coupons, 1)

	says := func(output string) string {
		code, stdout, stderr := w.settle("report", "--campaign=7", "--lang=en", "--output="+output)
		require.Zero(t, code, stderr)
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
	for want, args := range map[string][]string{
		"more than 366 days: give --date or --month": {"--campaign=7"},
		"no coupon belongs to campaign 9":            {"--campaign=9"},
		"--campaign is 0":                            {"--campaign=0"},
		`--campaign is ""`:                           {"--campaign="},
		"--coupon":                                   {"--campaign=7", "--coupon=1"},
	} {
		code, stdout, stderr := w.settle(append([]string{"report", "--lang=en"}, args...)...)
		requireWrongUse(t, want, code, stdout, stderr)
	}
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
		does("create", "--name=2회차", "--seats=2", open, "--closes="+at(time.Hour), "--cadence=immediate", "--line-limit=1", "--campaign=7")
		does("create", "--name=3회차", "--seats=2", open, "--closes="+at(time.Hour), "--campaign=7")
		does("create", "--name=4회차", "--seats=2", open, "--closes="+at(time.Hour), "--cadence=hourly", "--line-limit=0")
		s.Refresh()
		applied := s.Now()
		s.ApplyAt(1, "1", applied.Add(30*time.Minute)) // by a clock that was ahead, so that no machine is too slow for it
		s.Apply(2, 2)
		s.says("explain", "--coupon=1", "--user=1")
		require.NoError(t, s.Redis.ZAdd(t.Context(), s.Queue(1), redis.Z{Member: "1", Score: float64(applied.UnixMicro())}).Err())
		s.says("run")
		does("freeze", "1")
		does("freeze", "1")
		s.says("coupon", "list", "--campaign=7")
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
	})
}
