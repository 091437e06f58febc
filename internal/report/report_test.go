package report_test

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

var seoul = time.FixedZone("KST", 9*60*60)

func day(t *testing.T, date string) report.Period {
	t.Helper()
	from, to, err := calendar.Day(date, seoul)
	require.NoError(t, err)
	return report.Period{From: from, To: to, Bucket: time.Minute}
}

func month(t *testing.T, name string) report.Period {
	t.Helper()
	from, to, err := calendar.Month(name, seoul)
	require.NoError(t, err)
	return report.Period{From: from, To: to, Bucket: time.Hour}
}

// fixture is one coupon of a deployment.
type fixture struct {
	*jajeongtest.Deployment
	id coupon.CouponID
}

// opened adds a coupon with a window and a discount of its own.
func opened(d *jajeongtest.Deployment, seats int, discount int64, opens, closes time.Time) *fixture {
	d.T.Helper()
	c := &fixture{d, d.AddCouponBetween(seats, opens, closes)}
	d.Exec("UPDATE coupon SET discount_won = ? WHERE id = ?", discount, c.id)
	return c
}

// applied adds an application with that arrival.
func (c *fixture) applied(n coupon.UserID, arrival time.Time) {
	c.T.Helper()
	c.ApplyAt(c.id, n.Member(), arrival)
}

// settle settles the coupon up to a cutoff; the zero time is now.
func (c *fixture) settle(cutoff time.Time) settle.Result {
	c.T.Helper()
	order := jajeongtest.Manual(c.id)
	order.Cutoff, order.CutoffNow = cutoff, cutoff.IsZero()
	done, err := c.Settle(order)
	require.NoError(c.T, err)
	require.Len(c.T, done.Coupons, 1)
	require.Empty(c.T, done.Coupons[0].Error)
	return done.Coupons[0]
}

func read(d *jajeongtest.Deployment, p report.Period, coupons ...coupon.CouponID) *report.Report {
	d.T.Helper()
	r, err := reporter(d).Report(d.T.Context(), p, coupons)
	require.NoError(d.T, err)
	return r
}

func reporter(d *jajeongtest.Deployment) *report.Reporter {
	return &report.Reporter{DB: d.DB, Store: d.Store, Users: d.Users}
}

func at(text string) time.Time {
	t, err := time.ParseInLocation("2006-01-02 15:04:05.999999", text, seoul)
	if err != nil {
		panic(err)
	}
	return t
}

// One coupon has applications on two days, one at the very end of the first and one at the very beginning of the
// second.
func TestMonthIsTheSumOfItsDays(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := opened(d, 3, 5_000, at("2025-10-30 00:00:00"), at("2025-12-02 00:00:00"))
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 22)...)
	d.SetStatus(jajeongtest.Blocked, 21, 22)
	c.applied(1, at("2025-10-31 23:59:59.999999"))
	c.applied(2, at("2025-11-20 10:00:00"))
	c.applied(21, at("2025-11-20 10:00:59.999999"))
	c.applied(3, at("2025-11-20 23:59:59.999999"))
	c.applied(4, at("2025-11-21 00:00:00"))
	c.applied(22, at("2025-11-21 00:00:00.000001"))
	c.applied(5, at("2025-11-30 23:59:59.999999"))
	c.applied(6, at("2025-12-01 00:00:00"))
	run := c.settle(at("2025-11-21 00:00:00"))
	require.Equal(t, 3, run.Issued)
	c.settle(at("2025-12-01 00:00:00"))
	runs := c.Runs(c.id)
	require.Len(t, runs, 2)

	counts := func(c report.Counts) [7]int64 {
		return [7]int64{c.Applications, c.Issued, c.NotSelected, c.Rejected, c.AlreadyIssued, c.UnderReview, c.Waiting}
	}
	first := read(d, day(t, "2025-11-20"))
	require.Equal(t, [7]int64{3, 2, 0, 0, 0, 1, 0}, counts(first.Total))
	require.EqualValues(t, 10_000, first.Total.ValueWon.Int64())
	require.Equal(t, []coupon.RunID{runs[0]}, first.Coupons[0].Runs)
	require.Equal(t, 1, first.Coupons[0].RunCount)
	require.NotNil(t, first.Coupons[0].Millis)
	require.Equal(t, [3]int64{3, 0, 0}, [3]int64{first.Total.Seats, first.Total.SeatsLeft, first.Total.Gap})
	require.Len(t, first.Timeline, 24*60)
	require.EqualValues(t, 2, first.Timeline[10*60], "with the one in the DLQ")
	require.EqualValues(t, 1, first.Timeline[24*60-1])

	second := read(d, day(t, "2025-11-21"))
	require.Equal(t, [7]int64{2, 0, 1, 0, 0, 1, 0}, counts(second.Total))
	require.EqualValues(t, 2, second.Timeline[0])
	require.Equal(t, []coupon.RunID{runs[1]}, second.Coupons[0].Runs)

	whole := read(d, month(t, "2025-11"))
	require.Equal(t, [7]int64{6, 2, 2, 0, 0, 2, 0}, counts(whole.Total))
	require.Len(t, whole.Timeline, 30*24)
	require.Equal(t, runs, whole.Coupons[0].Runs)
	var sum [7]int64
	value := new(big.Int)
	for n := 1; n <= 30; n++ {
		part := read(d, day(t, fmt.Sprintf("2025-11-%02d", n)))
		for i, n := range counts(part.Total) {
			sum[i] += n
		}
		value.Add(value, part.Total.ValueWon)
	}
	require.Equal(t, counts(whole.Total), sum, "a month is the sum of its days")
	require.Equal(t, whole.Total.ValueWon, value)

	require.Equal(t, [7]int64{1, 1, 0, 0, 0, 0, 0}, counts(read(d, month(t, "2025-10")).Total))
	require.Equal(t, [7]int64{1, 0, 0, 0, 0, 0, 1}, counts(read(d, month(t, "2025-12")).Total))
	c.settle(at("2025-12-01 00:00:00"))
	again := read(d, month(t, "2025-11"))
	require.False(t, again.AsOf.Before(whole.AsOf))
	again.AsOf = whole.AsOf
	require.Equal(t, whole, again, "neither reading nor a repeated settlement changes anything")

	nothing := read(d, month(t, "2024-02"))
	require.NotNil(t, nothing.Coupons)
	require.Empty(t, nothing.Coupons)
	require.Len(t, read(d, month(t, "2024-02"), c.id).Coupons, 1, "a coupon that the caller names")
	_, err := reporter(d).Report(t.Context(), month(t, "2025-11"), []coupon.CouponID{c.id + 1})
	require.True(t, text.Is(err, text.NoSuchCoupon))
}

// The coupon has every outcome, settled applications that are still in Redis, and a gap.
func TestReportCountsEveryOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := &fixture{d, d.AddCoupon(8)}
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 22)...)
	d.SetStatus(jajeongtest.Blocked, 21, 22)
	d.Apply(c.id, 1, 2, 3, 4, 5, 21, 22, 6)
	c.settle(time.Time{})
	d.Drop(c.id, "22")
	d.Exec("UPDATE coupon SET issued_count = issued_count + 1, discount_won = 9223372036854775807 WHERE id = ?", c.id)
	d.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, 7, '2038-01-01')", c.id)
	d.Apply(c.id, 8, 7, 9, 10)
	cutoff := d.Now()
	d.Apply(c.id, 11, 12)
	c.settle(cutoff)
	stay := func(key, table string, user coupon.UserID) { // as before a clean-up
		var appliedAt time.Time
		require.NoError(t, d.DB.QueryRow("SELECT applied_at FROM "+table+" WHERE coupon_id = ? AND user_id = ?", c.id,
			user).Scan(&appliedAt))
		require.NoError(t, d.Redis.ZAdd(t.Context(), key,
			redis.Z{Score: float64(appliedAt.UnixMicro()), Member: user.Member()}).Err())
	}
	stay(d.Queue(c.id), "user_coupon", 1)
	stay(d.Queue(c.id), "application_outcome", 9)
	stay(d.Key("dlq", c.id), "application_outcome", 10)
	c.AddPromises(c.id, 2)

	p := report.Period{From: d.Now().Add(-time.Hour).Truncate(time.Second),
		To: d.Now().Add(time.Hour).Truncate(time.Second), Bucket: time.Minute}
	r := read(d, p)
	require.Len(t, r.Coupons, 1)
	got := r.Coupons[0].Counts
	require.Equal(t, new(big.Int).Mul(big.NewInt(9223372036854775807), big.NewInt(7)), got.ValueWon,
		"more than 64 bits")
	require.Equal(t, new(big.Int).Mul(big.NewInt(9223372036854775807), big.NewInt(8)), got.UserCoupons.OpenWon,
		"more than 64 bits")
	got.ValueWon, got.UserCoupons = nil, report.UserCoupons{}
	require.Equal(t, report.Counts{Outcomes: report.Outcomes{Applications: 14, Issued: 7, NotSelected: 2, Rejected: 1,
		AlreadyIssued: 1, UnderReview: 1, Waiting: 2},
		Seats: 8, Gap: 2}, got)
	require.Equal(t, c.Runs(c.id), r.Coupons[0].Runs)

	var timeline int64
	for _, n := range r.Timeline {
		timeline += n
	}
	require.EqualValues(t, 14, timeline)
}

// The timeline is the same before midnight, from Redis alone, and after.
func TestTimelineStaysWhenApplicationsAreSettled(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := opened(d, 3, 100, at("2025-11-20 00:00:00"), at("2025-11-22 00:00:00"))
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 5)...)
	c.applied(1, at("2025-11-19 23:59:59.999999"))
	c.applied(2, at("2025-11-20 00:00:00"))
	c.applied(3, at("2025-11-20 10:00:00"))
	c.applied(4, at("2025-11-20 10:00:59.999999"))
	c.applied(99, at("2025-11-20 10:01:00")) // an unknown user, for the DLQ
	c.applied(5, at("2025-11-20 23:59:59.999999"))
	c.applied(6, at("2025-11-21 00:00:00"))
	want := make([]int64, 24*60)
	want[0], want[600], want[601], want[24*60-1] = 1, 2, 1, 1
	// The second in the middle of a minute.
	for _, cutoff := range []string{"", "2025-11-20 10:00:30", "2025-11-21 00:00:00"} {
		if cutoff != "" {
			c.settle(at(cutoff))
		}
		r := read(d, day(t, "2025-11-20"))
		require.EqualValues(t, 5, r.Total.Applications)
		require.Equal(t, want, r.Timeline, "settled up to %s", cutoff)
	}
}

// The entries are those from the beginning of the period until its last application was settled. One change to several
// applications is one entry.
func TestReportListsAuditEntries(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := opened(d, 3, 100, at("2025-11-20 00:00:00"), at("2025-11-22 00:00:00"))
	did := func(when string, action audit.Action, user coupon.UserID) {
		origin := audit.Origin{At: at(when).UTC(), Actor: "kim", Reason: "T-1"}
		require.NoError(t, d.Audit(origin, action, c.id, audit.Entry{User: user}))
	}
	did("2025-11-19 23:59:59.999999", "COUPON_CREATED", 0)
	did("2025-11-20 00:00:00", "COUPON_PAUSED", 0)
	did("2025-11-20 12:00:00", "DLQ_DROPPED", 1)
	did("2025-11-20 12:00:00", "DLQ_DROPPED", 2)
	did("2025-11-21 00:00:00", "COUPON_RESUMED", 0)
	// Outside the chain.
	c.Exec("INSERT INTO audit_event (at, account, actor, action, coupon_id) VALUES (?, '', 'eve', 'GAP_ACCEPTED', ?)",
		at("2025-11-20 13:00:00").UTC(), c.id)
	entries := func() (lines []string) {
		for _, e := range read(d, day(t, "2025-11-20")).Coupons[0].Audit {
			lines = append(lines, fmt.Sprint(e.Actor, " ", e.Action, " ", e.Count, " ", e.Reason, " ", e.Detail))
		}
		return lines
	}
	before := []string{"kim COUPON_PAUSED 1 T-1 {}", "kim DLQ_DROPPED 2 T-1 "}
	require.Equal(t, before, entries())

	d.AddUsers(1)
	c.applied(1, at("2025-11-20 14:00:00"))
	c.settle(time.Time{}) // today, after the last of the events
	after := entries()
	require.Len(t, after, 4)
	require.Equal(t, append(before, "kim COUPON_RESUMED 1 T-1 {}"), after[:3])
	require.Contains(t, after[3], `kim SETTLED_BY_HAND 1 test {"cutoff":`)
	for n := range 60 {
		did(fmt.Sprintf("2025-11-20 15:00:%02d", n), audit.CouponRecounted, 0)
	}
	found := read(d, day(t, "2025-11-20")).Coupons[0]
	require.Len(t, found.Audit, 50)
	require.EqualValues(t, 14, found.AuditLeftOut)
}

// Redis forgets a coupon some days after it was finalised. What MySQL has is then no excess, which would hide the gaps
// of other coupons from the total.
func TestReportOfACouponThatRedisHasForgotten(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := opened(d, 2, 100, at("2025-11-20 00:00:00"), at("2025-11-21 00:00:00"))
	d.AddUsers(1, 2, 3)
	for user := range coupon.UserID(3) {
		c.applied(user+1, at("2025-11-20 10:00:00").Add(time.Duration(user)*time.Second))
	}
	c.settle(time.Time{})
	before := read(d, day(t, "2025-11-20")).Total
	require.EqualValues(t, 3, before.Applications)
	require.Zero(t, before.Gap)
	d.Exec("UPDATE coupon SET finalised_at = ? WHERE id = ?", at("2025-11-21 00:00:00").UTC(), c.id)
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("state", c.id), d.Key("issued", c.id)).Err())
	require.Equal(t, before, read(d, day(t, "2025-11-20")).Total)
}

// The classes of windows find what a comparison with both ends of each window finds.
func TestReportFindsEveryWindowThatReachesThePeriod(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	from, to := at("2025-11-20 00:00:00"), at("2025-11-21 00:00:00")
	for days := range 9 {
		for _, length := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
			if length += time.Duration(days) * 24 * time.Hour; length <= 0 {
				continue
			}
			for _, near := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
				for _, opens := range []time.Time{from.Add(near), to.Add(near), from.Add(near - length)} {
					d.Exec(`INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at, finalised_at)
						VALUES ('창', 0, ?, ?, '2025-12-31')`, opens.UTC(), opens.Add(length).UTC())
				}
			}
		}
	}
	var found []uint64
	for _, c := range read(d, day(t, "2025-11-20")).Coupons {
		found = append(found, uint64(c.Coupon))
	}
	require.Equal(t, d.IDs("SELECT id FROM coupon WHERE apply_opens_at < ? AND apply_closes_at > ? ORDER BY id", to.UTC(),
		from.UTC()), found)
}

// Applications may arrive after the end that MySQL has.
func TestReportOfLateApplications(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := opened(d, 3, 100, at("2025-11-20 00:00:00"), at("2025-11-21 00:00:00"))
	d.AddUsers(1)
	c.applied(1, at("2025-11-20 10:00:00"))
	c.settle(time.Time{})
	c.Exec("UPDATE coupon SET apply_opens_at = ?, apply_closes_at = ?, finalised_at = ? WHERE id = ?",
		at("2025-11-19 00:00:00").UTC(), at("2025-11-20 00:00:00").UTC(), at("2026-01-03 00:00:00").UTC(), c.id)
	require.EqualValues(t, 1, read(d, day(t, "2025-11-20")).Total.Issued)
	require.Empty(t, read(d, day(t, "2025-11-18")).Coupons)
	require.Empty(t, read(d, day(t, "2025-11-21")).Coupons)
}

// hooked calls a function before it reads the intervals or the counts.
type hooked struct {
	report.Store
	beforeIntervals, beforeCounts func()
}

func (h hooked) CountByInterval(ctx context.Context, couponID coupon.CouponID,
	bounds []coupon.Arrival) (waiting, dlq []int64, err error) {
	h.beforeIntervals()
	return h.Store.CountByInterval(ctx, couponID, bounds)
}

func (h hooked) Observe(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (coupon.Look, error) {
	h.beforeCounts()
	return h.Store.Observe(ctx, couponID, after)
}

// A settlement between the reads of MySQL and Redis loses no application and counts none twice.
func TestReportWhileASettlementCommits(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"before the intervals", "before the counts"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			c := opened(d, 3, 100, at("2025-11-20 00:00:00"), at("2025-11-22 00:00:00"))
			d.AddUsers(jajeongtest.Between[coupon.UserID](1, 5)...)
			for n := range coupon.UserID(5) {
				c.applied(n+1, at("2025-11-20 10:00:00").Add(time.Duration(n)*time.Second))
			}
			settled := false
			settle := sync.OnceFunc(func() {
				require.Equal(t, 3, c.settle(time.Time{}).Issued)
				settled = true
			})
			store := hooked{d.Store, func() {}, settle}
			if moment == "before the intervals" {
				store.beforeIntervals = settle
			}
			r, err := (&report.Reporter{DB: d.DB, Store: store, Users: d.Users}).Report(t.Context(),
				day(t, "2025-11-20"), nil)
			require.NoError(t, err)
			require.True(t, settled)
			got := r.Total
			got.ValueWon, got.UserCoupons = nil, report.UserCoupons{}
			require.Equal(t, report.Counts{Outcomes: report.Outcomes{Applications: 5, Issued: 3, NotSelected: 2},
				Seats: 3}, got)
			require.EqualValues(t, 300, r.Total.ValueWon.Int64())
			require.EqualValues(t, 5, r.Timeline[600])
		})
	}
}
