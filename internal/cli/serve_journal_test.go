package cli

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// serveJournal runs replicas of `settle serve --tasks journal`, and ends them at the end of the test.
func (w *world) serveJournal(replicas int, args ...string) {
	w.T.Helper()
	for range replicas {
		r := w.begin(append([]string{"serve", "--tasks=journal"}, args...)...)
		w.T.Cleanup(func() {
			r.stop()
			r.end()
			require.Zero(w.T, r.code, r.stderr.String())
		})
	}
}

func (w *world) awaitJournalled(id coupon.CouponID, applications int) {
	w.T.Helper()
	testenv.Eventually(w.T, "the line is journalled", func() bool {
		return w.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id) >= int64(applications)
	})
}

func (w *world) awaitLine(id coupon.CouponID, want []string) {
	w.T.Helper()
	testenv.Eventually(w.T, fmt.Sprintf("everybody stands again for coupon %d", id),
		func() bool { return slices.Equal(w.Waiting(id), want) })
}

func membersOf(users []coupon.UserID) (all []string) {
	for _, user := range users {
		all = append(all, user.Member())
	}
	return all
}

// Replicas of settle serve put back by themselves whatever Redis loses of a coupon.
func TestServe_PutsBackWhatRedisHasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, users := t.Context(), between(1, 60)
	w.AddUsers(users...)
	late := lateHandOver(w, users)

	var lossy [6]coupon.CouponID
	for i := range lossy {
		lossy[i] = w.AddCoupon(10)
		w.Apply(lossy[i], users...)
		w.awaitJournalled(lossy[i], len(users))
	}
	everything, queue, state, both, some, marks := lossy[0], lossy[1], lossy[2], lossy[3], lossy[4], lossy[5]
	w.SettleNow(marks)
	w.Refresh()

	// The new server serves this coupon as it was before its opening.
	empty := w.AddCoupon(10)
	before, err := w.Redis.Dump(ctx, w.Key("state", empty)).Result()
	require.NoError(t, err)
	w.Apply(empty, users...)
	w.awaitJournalled(empty, len(users))

	w.PodsDie()
	require.NoError(t, w.Redis.ZRem(ctx, w.Queue(late), 5).Err(), "as many as were missing before")
	require.NoError(t, w.Redis.ZRem(ctx, w.Queue(some), 5, 50, 60).Err())
	w.LoseRedis(everything, empty)
	require.NoError(t, w.Redis.RestoreReplace(ctx, w.Key("state", empty), 0, before).Err())
	require.NoError(t, w.Redis.HSet(ctx, w.Key("state", empty), "run_id", strings.Repeat("0", 40)).Err())
	for _, key := range []string{w.Queue(queue), w.Key("state", state), w.Queue(both), w.Key("state", both),
		w.Key("issued", marks)} {
		require.NoError(t, w.Redis.Del(ctx, key).Err())
	}
	waiting := []coupon.CouponID{late, everything, queue, state, both, some, empty}
	for _, id := range waiting {
		w.awaitLine(id, membersOf(users))
	}
	testenv.Eventually(t, "the marks are back",
		func() bool { return w.Redis.ZCard(ctx, w.Key("issued", marks)).Val() == 10 })
	w.SettleNow()
	for _, id := range append(waiting, marks) {
		require.Equal(t, users[:10], w.Issued(id), "coupon %d", id)
	}
	w.verify()
}

// lateHandOver adds a coupon that has lost its line. A user who is younger than the journal is handed over after the
// restore.
func lateHandOver(w *world, users []coupon.UserID) coupon.CouponID {
	w.T.Helper()
	ctx, last := w.T.Context(), users[len(users)-1]
	id := w.AddCoupon(10)
	w.Apply(id, users[:len(users)-1]...)
	w.Journal(id)
	w.Apply(id, last)
	young := w.Arrivals(id)[last.Member()]
	w.PodsDie()
	w.LoseRedis(id)
	w.serveJournal(2)
	w.awaitLine(id, membersOf(users[:len(users)-1]))
	look, err := w.Store.Observe(ctx, id, 0)
	require.NoError(w.T, err)
	_, handed, err := w.Store.HandOver(ctx, id, look.Epoch, true, []coupon.Answer{{User: last, Arrival: young}})
	require.NoError(w.T, err)
	require.Len(w.T, handed, 1)
	w.awaitLine(id, membersOf(users))
	w.awaitJournalled(id, len(users))
	return id
}

// A lock keeps MySQL from storing some new rows of table journal. Only the coupons of these rows are not journalled.
func TestServe_JournalsOthersThanLockedCoupons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := between(1, 3)
	w.AddUsers(users...)
	var coupons []coupon.CouponID
	for range 9 {
		id := w.AddCoupon(10)
		w.Apply(id, users[:2]...)
		coupons = append(coupons, id)
	}
	first, last, later := coupons[0], coupons[7], coupons[8]
	w.Journal(first, last)
	tx, err := w.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE", coupons[1])
	require.NoError(t, err)

	w.serveJournal(1)
	w.awaitJournalled(later, 2)
	for _, id := range []coupon.CouponID{first, last} {
		w.Apply(id, users[2])
		w.awaitJournalled(id, 3)
	}
	require.Equal(t, []uint64{uint64(first), uint64(last), uint64(later)},
		w.IDs("SELECT coupon_id FROM journal ORDER BY coupon_id"))
	require.NoError(t, tx.Rollback())
	for _, id := range coupons[1:7] {
		w.awaitJournalled(id, 2)
	}
}

// At the lowest rate, a transaction fits into its time limit, and a long line keeps no other waiting.
func TestServe_JournalGoesOnAtTheLowestRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long, short := w.AddCoupon(5), w.AddCoupon(5)
	w.ApplyLine(long, between(1, 6_000)...)
	w.Apply(short, 1)
	require.NoError(t, w.Redis.HSet(t.Context(), w.Key("state", long), "last", w.Now().UnixMicro()).Err())
	const perSecond = 100
	began := time.Now()
	w.serveJournal(1, fmt.Sprintf("--journal-rows-per-second=%d", perSecond))
	w.awaitJournalled(short, 1)
	w.awaitJournalled(long, 300)
	rows := w.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", long)
	require.LessOrEqual(t, rows, int64(perSecond*(time.Since(began).Seconds()+1)),
		"a second's rows at once, and the others at the rate")
}

// While MySQL is away, the log says so once, and the journal goes on afterwards.
func TestServe_JournalWaitsForMySQL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 20)...)
	id := w.AddCoupon(5)
	w.Apply(id, between(1, 10)...)
	r := w.begin("serve", "--tasks=journal")
	w.awaitJournalled(id, 10)
	w.Exec("RENAME TABLE line_journal TO away")
	w.Apply(id, between(11, 20)...)
	testenv.Eventually(t, "a failure is logged",
		func() bool { return strings.Contains(r.stderr.String(), "journal not written") })
	w.Exec("RENAME TABLE away TO line_journal")
	w.awaitJournalled(id, 20)
	testenv.Eventually(t, "the recovery is logged",
		func() bool { return strings.Contains(r.stderr.String(), "journal written again") })
	r.stop()
	r.end()
	require.Zero(t, r.code)
	require.Equal(t, 1, strings.Count(r.stderr.String(), "journal not written"), r.stderr.String())
	require.Equal(t, 1, strings.Count(r.stderr.String(), "journal written again"), r.stderr.String())
}
