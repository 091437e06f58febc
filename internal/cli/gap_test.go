package cli

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// handle is a private Redis as a world takes it.
func handle(t *testing.T, addr string) testenv.RedisHandle {
	t.Helper()
	client, err := (&connect.RedisSettings{RedisAddrs: []string{addr}}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return testenv.RedisHandle{Addrs: []string{addr}, Client: client}
}

// refresh lets a catalog do what every pod does every five seconds.
func (w *world) refresh() {
	w.t.Helper()
	require.NoError(w.t, w.catalog().Refresh(w.t.Context()))
}

func (w *world) catalog() *catalog.Catalog {
	return catalog.New(catalog.Options{DB: w.as("jajeong_api"), Store: w.store, Memory: w.d().Memory(), Logger: zap.NewNop(), Now: time.Now})
}

// losing is a world in which 100 users applied for each of two coupons; what the second lost is to be found.
type losing struct {
	*world
	whole, hurt uint64
}

func newLosing(t *testing.T, r testenv.RedisHandle) *losing {
	w := newWorldOn(t, r)
	l := &losing{world: w, whole: w.coupon(200), hurt: w.coupon(200)}
	w.users(between(1, 100)...)
	w.apply(l.whole, between(1, 100)...)
	w.apply(l.hurt, between(1, 50)...)
	return l
}

// mustHold demands that exactly the hurt coupon is held for so many lost applications until an operator accepts it.
func (l *losing) mustHold(lost int64) {
	l.t.Helper()
	code, report := l.settleNowCode()
	require.Equal(l.t, 3, code)
	require.Equal(l.t, coupon.Settled, report.Coupons[0].Status)
	require.Equal(l.t, between(1, 100), l.issued(l.whole))
	require.Equal(l.t, coupon.HeldBack, report.Coupons[1].Status)
	require.Equal(l.t, lost, report.Coupons[1].Gap)
	require.Empty(l.t, l.issued(l.hurt))
	require.Equal(l.t, []uint64{l.hurt}, l.ids("SELECT coupon_id FROM audit_event WHERE action = 'GAP_HELD' AND run_id = ? AND detail LIKE ?",
		report.Run, fmt.Sprintf("held: %d of 100%%", lost)))

	code, _ = l.settleNowCode("--accept-gap")
	require.Zero(l.t, code)
	require.Equal(l.t, 100-int(lost), len(l.issued(l.hurt)))
	require.Equal(l.t, []uint64{l.hurt}, l.ids("SELECT coupon_id FROM audit_event WHERE action = 'GAP_ACCEPTED' AND actor = 'kim'"))
	l.verify()
}

func TestRedisRestoredFromAnOlderAOF(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	l := newLosing(t, handle(t, server.Addr()))
	backup := filepath.Join(t.TempDir(), "appendonlydir")
	require.NoError(t, os.CopyFS(backup, os.DirFS(filepath.Join(server.Dir(), "appendonlydir"))))
	l.apply(l.hurt, between(51, 100)...)
	l.refresh()

	require.NoError(t, server.Kill())
	require.NoError(t, os.RemoveAll(filepath.Join(server.Dir(), "appendonlydir")))
	require.NoError(t, os.CopyFS(filepath.Join(server.Dir(), "appendonlydir"), os.DirFS(backup)))
	require.NoError(t, server.Restart(t.Context()))
	l.mustHold(50)
}

func TestRedisRestartedEmpty(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	l := newLosing(t, handle(t, server.Addr()))
	l.apply(l.hurt, between(51, 100)...)
	l.settleNow("--coupon=1") // of the whole coupon nothing is lost any more
	l.refresh()
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart(t.Context()))

	code, report := l.settleNowCode()
	require.Equal(t, 3, code)
	require.Equal(t, coupon.Unchanged, report.Coupons[0].Status)
	require.EqualValues(t, 100, report.Coupons[1].Gap)

	// The line goes on above what was lost.
	l.podsDie()
	l.refresh()
	var last int64
	require.NoError(t, l.db.QueryRow("SELECT last_arrival FROM promise WHERE coupon_id = ?", l.hurt).Scan(&last))
	receipt, err := l.store.Apply(t.Context(), l.hurt, 1)
	require.NoError(t, err)
	require.Greater(t, receipt.Arrival, last)
	code, report = l.settleNowCode("--accept-gap")
	require.Zero(t, code)
	require.EqualValues(t, 100, report.Coupons[1].Gap)
	require.Equal(t, []uint64{1}, l.issued(l.hurt))
	l.verify()
}

func TestRedisFailedOverToAReplicaThatLackedTheLast(t *testing.T) {
	t.Parallel()
	primary := testenv.PrivateRedis(t, testenv.RedisOptions{})
	replica := testenv.PrivateRedis(t, testenv.RedisOptions{})
	host, port, _ := strings.Cut(primary.Addr(), ":")
	promoted := handle(t, replica.Addr())
	ctx := t.Context()
	l := newLosing(t, handle(t, primary.Addr()))
	require.NoError(t, promoted.Client.(*redis.Client).ReplicaOf(ctx, host, port).Err())
	testenv.Eventually(t, 20*time.Second, "the replica has caught up", func() bool {
		return promoted.Client.ZCard(ctx, l.queue(l.hurt)).Val() == 50 && promoted.Client.ZCard(ctx, l.queue(l.whole)).Val() == 100
	})
	require.NoError(t, promoted.Client.(*redis.Client).ReplicaOf(ctx, "NO", "ONE").Err())
	l.apply(l.hurt, between(51, 100)...)
	l.refresh()
	require.NoError(t, primary.Kill())

	l.servers[1] = "--redis-addrs=" + replica.Addr()
	l.redisAs.MakeOn(promoted.Client)
	l.rdb = promoted.Client
	l.mustHold(50)
}

func TestKeysDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]func(l *losing) []string{
		"the queue":               func(l *losing) []string { return []string{l.queue(l.hurt)} },
		"the queue and the state": func(l *losing) []string { return []string{l.queue(l.hurt), "state:{" + l.queue(l.hurt) + "}"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLosing(t, testenv.RedisFor(t))
			l.apply(l.hurt, between(51, 100)...)
			l.refresh()
			require.NoError(t, l.rdb.Del(t.Context(), keys(l)...).Err())
			l.mustHold(100)
		})
	}
}

// A pod that lives puts back whom it told, even after a loss between two refreshes, and nothing is held.
func TestALossBetweenTwoRefreshesIsMendedByThePodsThatLive(t *testing.T) {
	t.Parallel()
	l := newLosing(t, testenv.RedisFor(t))
	l.apply(l.hurt, between(51, 90)...) // no refresh writes these down
	key := l.queue(l.hurt)
	require.NoError(t, l.rdb.Del(t.Context(), key, "state:{"+key+"}").Err())
	l.refresh()
	l.apply(l.hurt, between(91, 100)...)
	testenv.Eventually(t, 20*time.Second, "everybody is back", func() bool { return l.rdb.ZCard(t.Context(), key).Val() == 100 })
	l.settleNow()
	require.Equal(t, between(1, 100), l.issued(l.hurt))
	l.verify()
}

func TestFiveHundredCouponsSettleAndOneThatIsHeldTouchesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const coupons = 500
	w.users(between(1, 3)...)
	line := between(1, 3)
	ids := make([]uint64, coupons)
	for i := range ids {
		ids[i] = w.coupon(2)
		w.apply(ids[i], line...)
	}
	held := ids[coupons/2]
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(held), "1").Err())

	code, report := w.settleNowCode("--parallel=8")
	require.Equal(t, 3, code)
	require.Len(t, report.Coupons, coupons)
	for i, c := range report.Coupons {
		require.Equal(t, ids[i], c.Coupon)
		if c.Coupon == held {
			require.Equal(t, coupon.HeldBack, c.Status)
		} else {
			require.Equal(t, 2, c.Issued, c.Error)
		}
	}
	require.Equal(t, 2*(coupons-1), report.Total.Issued)
	code, _ = w.settleNowCode("--accept-gap")
	require.Zero(t, code)
	w.verify()
}

// While MySQL is away nobody writes the counter down; a pod that lives puts people back when MySQL is there again, before
// any run.
func TestALossWhileMySQLIsAwayIsMended(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	w := newWorldWith(t, testenv.RedisFor(t), privateDatabase(t, server))
	couponID := w.coupon(200)
	w.users(between(1, 100)...)
	w.apply(couponID, between(1, 20)...)
	w.refresh()

	require.NoError(t, server.Kill())
	w.apply(couponID, between(21, 100)...)
	require.Error(t, w.catalog().Refresh(t.Context()))
	key := w.queue(couponID)
	require.NoError(t, w.rdb.Del(t.Context(), key, "state:{"+key+"}").Err())
	require.NoError(t, server.Restart(t.Context()))
	w.refresh()
	testenv.Eventually(t, 20*time.Second, "everybody is back", func() bool { return w.rdb.ZCard(t.Context(), key).Val() == 100 })
	w.settleNow()
	require.Equal(t, between(1, 100), w.issued(couponID))
}

// privateDatabase is an empty database on a server that a test may kill.
func privateDatabase(t *testing.T, server *testenv.MySQL) testenv.MySQLHandle {
	t.Helper()
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Exec("CREATE DATABASE coupons CHARACTER SET utf8mb4")
	require.NoError(t, err)
	return testenv.MySQLHandle{DSN: server.DSN("coupons")}
}

// Whoever releases a coupon sees how many promises that breaks, before and after; and breaks no more than were seen.
func TestWhatIsWrittenOffIsShownAndNoMoreIsWrittenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1)
	couponID := w.coupon(2)
	w.apply(couponID, 1)
	lose := func(n int64) {
		require.NoError(t, w.rdb.HIncrBy(t.Context(), "state:{"+w.queue(couponID)+"}", "accepted", n).Err())
	}
	lose(3)
	args := []string{"run", "--accept-gap", "--cutoff=now", "--operator=kim", "--reason=INC-9"}
	code, stdout, stderr := w.settle(append(args, "--dry-run")...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "would be written off as lost: 3")

	order := settle.Order{Trigger: coupon.Manual, CutoffNow: true, AcceptGap: true, Operator: "kim", Reason: "INC-9"}
	report, err := w.settler().Preview(t.Context(), order)
	require.NoError(t, err)
	approved := report.Coupons[0].Preview.Digest
	require.NotEqual(t, report.Coupons[0].WinnersDigest, approved, "it covers the gap")

	lose(1) // since the preview was approved
	order.Expect = map[uint64]string{couponID: approved}
	report, err = w.settler().RunOnce(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
	require.Contains(t, report.Coupons[0].Error, "not the approved "+approved)
	require.Empty(t, w.issued(couponID))

	report, err = w.settler().Preview(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true, AcceptGap: true})
	require.NoError(t, err)
	approved = report.Coupons[0].Preview.Digest
	order.Expect = map[uint64]string{couponID: approved}
	for _, want := range []coupon.ResultStatus{coupon.Settled, coupon.Unchanged} { // what was done before counts as approved
		report, err = w.settler().RunOnce(t.Context(), order)
		require.NoError(t, err)
		require.Equal(t, want, report.Coupons[0].Status, report.Coupons[0].Error)
	}
	require.Equal(t, []uint64{couponID}, w.ids("SELECT coupon_id FROM audit_event WHERE action = 'GAP_ACCEPTED' AND detail LIKE ?", "4 applications%"+approved))
	code, stdout, _ = w.settle(args...)
	require.Zero(t, code)
	require.NotContains(t, stdout, "written off", "once")
	require.Equal(t, []uint64{1}, w.issued(couponID))
}

func TestALossIsMendedByAPodThatLivesAlthoughNobodyAppliesAgain(t *testing.T) {
	t.Parallel()
	l := newLosing(t, testenv.RedisFor(t))
	l.apply(l.hurt, between(51, 90)...)
	for _, user := range between(51, 90) {
		require.NoError(t, l.rdb.ZRem(t.Context(), l.queue(l.hurt), user).Err())
	}
	require.NoError(t, l.rdb.HSet(t.Context(), "state:{"+l.queue(l.hurt)+"}", "accepted", 50).Err())
	l.refresh()
	testenv.Eventually(t, 20*time.Second, "everybody is back", func() bool { return l.rdb.ZCard(t.Context(), l.queue(l.hurt)).Val() == 90 })
	l.settleNow()
	require.Equal(t, between(1, 90), l.issued(l.hurt))
}
