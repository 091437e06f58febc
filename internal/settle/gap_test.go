package settle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// losing is a deployment in which 100 users applied for each of two coupons. The second loses applications.
type losing struct {
	*jajeongtest.Deployment
	whole, hurt coupon.CouponID
}

func newLosing(t *testing.T, r *testenv.RedisHandle) *losing {
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: r})
	l := &losing{Deployment: d, whole: d.AddCoupon(200), hurt: d.AddCoupon(200)}
	d.AddUsers(between(1, 100)...)
	d.Apply(l.whole, between(1, 100)...)
	d.Apply(l.hurt, between(1, 50)...)
	return l
}

// mustHold demands that only the hurt coupon is held for its lost applications until an operator accepts the gap.
func (l *losing) mustHold(lost int64) {
	l.T.Helper()
	report := l.SettleFailing(coupon.Invariant)
	require.Equal(l.T, coupon.Settled, report.Coupons[0].Status)
	require.Equal(l.T, between(1, 100), l.Issued(l.whole))
	require.Equal(l.T, coupon.HeldBack, report.Coupons[1].Status)
	require.Equal(l.T, lost, report.Coupons[1].Gap)
	require.Contains(l.T, report.Coupons[1].Error, "--accept-gap")
	require.Contains(l.T, l.Findings(), verify.PromiseLost)
	require.Equal(l.T, lost, l.Check(l.hurt)[0].Gap)
	require.Empty(l.T, l.Issued(l.hurt))
	require.Equal(l.T, []uint64{uint64(l.hurt)},
		l.IDs("SELECT coupon_id FROM audit_event WHERE action = 'GAP_HELD' AND run_id = ? AND detail LIKE ?",
			report.Run, fmt.Sprintf(`{"missing":%d,"account":{"accepted":100,%%`, lost)))

	l.AcceptGap()
	require.Equal(l.T, 100-int(lost), len(l.Issued(l.hurt)))
	require.Equal(l.T, []uint64{uint64(l.hurt)},
		l.IDs("SELECT coupon_id FROM audit_event WHERE action = 'GAP_ACCEPTED' AND actor = 'kim' AND reason = 'test' "+
			"AND detail LIKE ?",
			fmt.Sprintf(`{"missing":%d,%%`, lost)))
	l.Verify()
}

func TestSettle_HoldsGapAfterRedisRestoredFromOlderAOF(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	l := newLosing(t, jajeongtest.RedisAt(t, server.Addr()))
	backup := filepath.Join(t.TempDir(), "appendonlydir")
	require.NoError(t, os.CopyFS(backup, os.DirFS(filepath.Join(server.Dir(), "appendonlydir"))))
	l.Apply(l.hurt, between(51, 100)...)
	l.Refresh()

	require.NoError(t, server.Kill())
	require.NoError(t, os.RemoveAll(filepath.Join(server.Dir(), "appendonlydir")))
	require.NoError(t, os.CopyFS(filepath.Join(server.Dir(), "appendonlydir"), os.DirFS(backup)))
	require.NoError(t, server.Restart(t.Context()))
	l.mustHold(50)
}

func TestSettle_HoldsGapAfterRedisRestartedEmpty(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	l := newLosing(t, jajeongtest.RedisAt(t, server.Addr()))
	l.Apply(l.hurt, between(51, 100)...)
	l.SettleNow(l.whole) // of the whole coupon nothing is lost any more
	l.Refresh()
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart(t.Context()))

	report := l.SettleFailing(coupon.Invariant)
	require.Equal(t, coupon.Unchanged, report.Coupons[0].Status)
	require.EqualValues(t, 100, report.Coupons[1].Gap)

	// The line goes on above what was lost.
	l.PodsDie()
	l.Refresh()
	var last coupon.Arrival
	require.NoError(t, l.DB.QueryRow("SELECT last_arrival FROM promise WHERE coupon_id = ?", l.hurt).Scan(&last))
	receipt, err := l.Store.Apply(t.Context(), l.hurt, 1)
	require.NoError(t, err)
	require.Greater(t, receipt.Arrival, last)
	report = l.AcceptGap()
	require.EqualValues(t, 100, report.Coupons[1].Gap)
	require.Equal(t, []coupon.UserID{1}, l.Issued(l.hurt))
	l.Verify()
}

// While MySQL is away, the counter is not stored. Living pods put applications back when MySQL is available again,
// before any run.
func TestPods_PutBackLossWhileMySQLIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
	couponID := d.AddCoupon(200)
	d.AddUsers(between(1, 100)...)
	d.Apply(couponID, between(1, 20)...)
	d.Refresh()

	require.NoError(t, server.Kill())
	d.Apply(couponID, between(21, 100)...)
	require.Error(t, d.Catalog().Refresh(t.Context()))
	key := d.Queue(couponID)
	require.NoError(t, d.Redis.Del(t.Context(), key, "state:{"+key+"}").Err())
	require.NoError(t, server.Restart(t.Context()))
	d.Refresh()
	testenv.Eventually(t, "everybody is back", func() bool { return d.Redis.ZCard(t.Context(), key).Val() == 100 })
	d.SettleNow()
	require.Equal(t, between(1, 100), d.Issued(couponID))
}

// A preview shows the gap. A run writes off no more applications than the preview showed.
func TestSettle_WritesOffNoMoreThanApproved(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1)
	d.AddPromises(couponID, 3)
	order := jajeongtest.Manual()
	order.AcceptGap = true
	approve := func() (digest string) {
		t.Helper()
		preview, err := d.Settler().Preview(t.Context(), order)
		require.NoError(t, err)
		digest = preview.Coupons[0].Preview.Digest
		require.NotEqual(t, preview.Coupons[0].WinnersDigest, digest, "it covers the gap")
		return digest
	}
	approved := approve()
	d.AddPromises(couponID, 1) // after the preview
	order.Expect = map[coupon.CouponID]string{couponID: approved}
	report := d.SettleAs(order, coupon.Invariant)
	require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
	require.Contains(t, report.Coupons[0].Error, "not the approved "+approved)
	require.Empty(t, d.Issued(couponID))

	order.Expect = nil
	approved = approve()
	order.Expect = map[coupon.CouponID]string{couponID: approved}
	// An earlier settlement counts as approved.
	for _, want := range []coupon.ResultStatus{coupon.Settled, coupon.Unchanged} {
		require.Equal(t, want, d.SettleAs(order).Coupons[0].Status)
	}
	require.Equal(t, []uint64{uint64(couponID)},
		d.IDs("SELECT coupon_id FROM audit_event WHERE action = 'GAP_ACCEPTED' AND detail LIKE ?",
			`{"missing":4,%"digest":"`+approved+`"}`))
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
}

// No coupon ends without a comparison with the approved digest.
func TestSettle_HoldsCouponThatIsNotDueForApprovedDigest(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	couponID := d.AddCouponBetween(2, now.Add(-time.Hour), now.Add(time.Hour))
	order := settle.Order{Trigger: coupon.Manual, Cutoff: now.Add(-2 * time.Hour), Coupons: []coupon.CouponID{couponID},
		Operator: "kim", Reason: "test"}
	require.Equal(t, coupon.NotDue, d.SettleAs(order).Coupons[0].Status)
	order.Expect = map[coupon.CouponID]string{couponID: "sha256:" + strings.Repeat("0", 64)}
	require.Equal(t, coupon.HeldBack, d.SettleAs(order, coupon.Invariant).Coupons[0].Status)
	preview, err := d.Settler().Preview(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, coupon.HeldBack, preview.Coupons[0].Status)
}

// A gap that is written off is a change, also when nothing else changes.
func TestSettle_RecordsRunThatOnlyAcceptsGap(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(2)
	d.AddPromises(couponID, 3)
	order := jajeongtest.Manual()
	order.AcceptGap = true
	preview, err := d.Settler().Preview(t.Context(), order)
	require.NoError(t, err)
	report := d.AcceptGap()
	for _, c := range []settle.Result{preview.Coupons[0], report.Coupons[0]} {
		require.Equal(t, coupon.Settled, c.Status)
		require.EqualValues(t, 3, c.Gap)
	}
	read := history.Reader{DB: d.DB}
	runs, err := read.Runs(t.Context(), history.RunFilter{Coupon: couponID, Limit: 2})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.EqualValues(t, 1, runs[0].Coupons)
	coupons, err := read.RunCoupons(t.Context(), report.Run)
	require.NoError(t, err)
	require.EqualValues(t, 3, coupons[0].Gap)
	d.Verify()
	require.Equal(t, coupon.Unchanged, d.AcceptGap().Coupons[0].Status)
}
