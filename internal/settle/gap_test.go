package settle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/promise"
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

// Half of the queue was deleted, and nobody remembers who stood there.
func TestSettle_HoldsGapAfterEntriesWereDeleted(t *testing.T) {
	t.Parallel()
	l := newLosing(t, nil)
	l.Apply(l.hurt, between(51, 100)...)
	require.NoError(t, l.Redis.ZRemRangeByRank(t.Context(), l.Queue(l.hurt), 50, -1).Err())
	l.PodsDie()
	l.mustHold(50)
}

// The journal has got somebody since a restore has left a gap, for which no other restore is due. The settlement
// searches once more before it would hold the coupon.
func TestSettle_SearchesOnceMoreBeforeItHolds(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	told := coupon.Answer{User: 1, Arrival: arrivalsOf(d, id, 1)["1"]}
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "1").Err())
	d.PodsDie()
	require.EqualValues(t, 1, d.Restore(id).Missing)
	require.NoError(t, promise.AddRows(t.Context(), d.DB, id, []coupon.Answer{told}))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
}

// Redis is back with an older file. The journal has everybody: nobody is lost, and nothing is held.
func TestSettle_IssuesToAllAfterRedisRestoredFromOlderAOF(t *testing.T) {
	t.Parallel()
	l, server := newOlderAOF(t)
	l.Journal(l.whole, l.hurt)
	l.loseRecent(server)
	l.SettleNow()
	require.Equal(t, between(1, 100), l.Issued(l.hurt))
	l.Verify()
}

// The journal has counted them, but not yet copied: nobody knows who they are. That is said by name, and holds nothing.
func TestSettle_WarnsOfUnknownPromises(t *testing.T) {
	t.Parallel()
	l, server := newOlderAOF(t)
	l.Journal(l.whole, l.hurt)
	l.Exec("DELETE FROM line_journal WHERE coupon_id = ? AND user_id > 50", l.hurt)
	l.loseRecent(server)
	l.SettleNow()
	require.Equal(t, between(1, 50), l.Issued(l.hurt))
	require.Equal(t, []uint64{uint64(l.hurt)},
		l.IDs(`SELECT coupon_id FROM audit_event WHERE action = 'PROMISE_UNKNOWN' AND detail = ?`,
			`{"accepted":100,"known":50}`))
	require.EqualValues(t, 50, l.Number("SELECT unfound FROM journal WHERE coupon_id = ?", l.hurt))
	require.Contains(t, l.Findings(), verify.PromiseUnknown)
	l.SettleNow() // says nothing twice
	require.Len(t, l.IDs("SELECT id FROM audit_event WHERE action = 'PROMISE_UNKNOWN'"), 1)
}

// newOlderAOF is a losing deployment whose Redis is about to fall back to half of the hurt coupon's line.
func newOlderAOF(t *testing.T) (l *losing, server *olderAOF) {
	server = &olderAOF{Redis: testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})}
	l = newLosing(t, jajeongtest.RedisAt(t, server.Addr()))
	server.backup = filepath.Join(t.TempDir(), "appendonlydir")
	require.NoError(t, os.CopyFS(server.backup, os.DirFS(filepath.Join(server.Dir(), "appendonlydir"))))
	l.Apply(l.hurt, between(51, 100)...)
	return l, server
}

type olderAOF struct {
	*testenv.Redis
	backup string
}

func (l *losing) loseRecent(server *olderAOF) {
	dir := filepath.Join(server.Dir(), "appendonlydir")
	require.NoError(l.T, server.Kill())
	require.NoError(l.T, os.RemoveAll(dir))
	require.NoError(l.T, os.CopyFS(dir, os.DirFS(server.backup)))
	require.NoError(l.T, server.Restart(l.T.Context()))
	l.PodsDie()
}

func TestSettle_IssuesToAllAfterRedisRestartedEmpty(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	l := newLosing(t, jajeongtest.RedisAt(t, server.Addr()))
	l.Apply(l.hurt, between(51, 100)...)
	l.SettleNow(l.whole)
	l.Journal(l.hurt)
	last, err := l.Store.Observe(t.Context(), l.hurt, 0)
	require.NoError(t, err)
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart(t.Context()))
	l.PodsDie()

	// The line goes on above what was lost.
	l.Refresh()
	l.AddUsers(101)
	receipt, err := l.Store.Apply(t.Context(), l.hurt, 101)
	require.NoError(t, err)
	require.Greater(t, receipt.Arrival, last.Last)

	report := l.SettleNow()
	require.Equal(t, coupon.Unchanged, report.Coupons[0].Status)
	require.Equal(t, between(1, 101), l.Issued(l.hurt))
	l.Verify()
}

// While MySQL is away, pods hand over whom they remember. The restore follows when MySQL is there again.
func TestPods_HandOverLossWhileMySQLIsAway(t *testing.T) {
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
	testenv.Eventually(t, "everybody is handed over",
		func() bool { return d.Redis.ZCard(t.Context(), d.Key("returned", couponID)).Val() == 100 })
	d.SettleNow()
	require.Equal(t, between(1, 100), d.Issued(couponID))
	d.Verify()
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

// Somebody writes a count into Redis that there cannot be. It counts for nothing, and hides nobody.
func TestSettle_BelievesNoImpossibleCount(t *testing.T) {
	t.Parallel()
	for _, count := range []string{"1e300", "inf", "-inf", "nan", "10000000000000000", "-5", "many"} {
		t.Run(count, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2, 3)
			d.Journal(id)
			require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "accepted", count).Err())
			d.Refresh()
			d.AddUsers(4)
			require.Equal(t, candidates.Accepted, d.Answer(id, 4))
			require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "1").Err())
			d.Restore(id)
			require.Equal(t, []string{"1", "2", "3", "4"}, d.Waiting(id))
			require.EqualValues(t, 4, d.Look(id).Accepted)
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
			d.Verify()
		})
	}
}
