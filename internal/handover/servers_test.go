package handover_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/handover"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// pool are connections with the rights of apply-api.
func pool(t *testing.T, d *jajeongtest.Deployment) *sql.DB {
	t.Helper()
	db, err := d.API.MySQLSettings.Open(connect.Brief, zap.NewNop())
	return testenv.Opened(t, db, err)
}

// rows are the users in the journal of a coupon, by arrival.
func rows(d *jajeongtest.Deployment, id coupon.CouponID) []uint64 {
	d.T.Helper()
	return d.IDs("SELECT user_id FROM line_journal WHERE coupon_id = ? ORDER BY arrival", id)
}

func asked(d *jajeongtest.Deployment, id coupon.CouponID) int64 {
	d.T.Helper()
	return d.Number("SELECT asked FROM journal WHERE coupon_id = ?", id)
}

func TestClose_WhileRedisAnswersWritesNothing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5)
	d.Journal(id)
	d.Apply(id, 3, 1, 2)
	require.NoError(t, d.Memory().Close(t.Context(), pool(t, d)))
	require.Empty(t, rows(d, id))
	require.Zero(t, asked(d, id))
}

// A process ends that still works on a former server. The journal is a copy of the next one. If the former server dies,
// nobody else knows the answers of the process.
func TestClose_OnAServerThatTheJournalDoesNotCopy(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5)
	d.Journal(id)
	d.Apply(id, 3, 1, 2)
	d.Exec("UPDATE journal SET epoch = 'another:1' WHERE coupon_id = ?", id)
	require.NoError(t, d.Memory().Close(t.Context(), pool(t, d)))
	require.Equal(t, []uint64{3, 1, 2}, rows(d, id))
	require.EqualValues(t, 1, asked(d, id))
}

// A process that ends without having noticed another server hands over first. That server may be lost before a restore
// has taken them over, so they are in the journal, too.
func TestClose_HandsOverToAnotherServer(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5)
	d.Journal(id)
	d.Apply(id, 3, 1, 2)
	d.LoseRedis(id)
	require.NoError(t, d.Memory().Close(t.Context(), pool(t, d)))
	require.EqualValues(t, 3, d.Redis.ZCard(t.Context(), d.Key("returned", id)).Val())
	require.Equal(t, []uint64{3, 1, 2}, rows(d, id))
	d.LoseRedis(id)
	d.Restore(id)
	require.EqualValues(t, 3, d.Redis.ZCard(t.Context(), d.Queue(id)).Val())
	d.Refresh()
	d.SettleNow(id)
}

func TestClose_WhileRedisIsSilentWritesTheJournal(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	first, second, unknown, often := d.AddQueue(5), d.AddQueue(5), d.AddQueue(5), d.AddQueue(5)
	d.Journal(first, second, often)
	d.Exec("UPDATE journal SET asked = 9007199254740991 WHERE coupon_id = ?", often) // table journal takes no more
	d.Apply(first, 3, 1, 2)
	d.Apply(often, 4)
	d.Apply(unknown, 9)
	db := pool(t, d)
	require.NoError(t, server.Freeze())
	require.NoError(t, d.Memory().Close(t.Context(), db))
	require.NoError(t, server.Thaw())
	require.Equal(t, []uint64{3, 1, 2}, rows(d, first))
	require.EqualValues(t, 1, asked(d, first))
	require.Empty(t, rows(d, second))
	require.Zero(t, asked(d, second), "nobody was told anything")
	require.Equal(t, []uint64{4}, rows(d, often))
	require.Equal(t, []uint64{9}, rows(d, unknown), "the task journal has not seen the coupon yet")

	d.LoseRedis(first)
	d.PodsDie()
	d.Restore(first)
	require.EqualValues(t, 3, d.Redis.ZCard(t.Context(), d.Queue(first)).Val())
	require.Zero(t, asked(d, first))
}

// The time may be over after each transaction, so each asks for a restore.
func TestClose_WritesManyAnswersInSeveralTransactions(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	id := d.AddQueue(5)
	d.Journal(id)
	many := make([]coupon.Answer, 10_001)
	for i := range many {
		many[i] = coupon.Answer{User: coupon.UserID(i + 1), Arrival: coupon.Arrival(i + 1)}
	}
	d.Memory().Answered(id, candidates.Reply{Epoch: mark(t, d, id), Answers: many})
	require.NoError(t, server.Kill())
	require.NoError(t, d.Memory().Close(t.Context(), pool(t, d)))
	require.Len(t, rows(d, id), len(many))
	require.EqualValues(t, 3, asked(d, id))
}

func TestClose_WithoutRedisAndMySQLNamesTheCoupons(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	id := d.AddQueue(5)
	d.Apply(id, 3, 1)
	db := pool(t, d)
	require.NoError(t, db.Close())
	require.NoError(t, server.Kill())
	require.ErrorContains(t, d.Memory().Close(t.Context(), db), "2 applications into the journal of coupon "+id.String())
}

// Nothing but the look says that the state is gone: no applicant comes, and MySQL is away.
func TestRun_NoticesALossByItself(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5)
	d.Journal(id)
	d.Apply(id, 3, 1, 2)
	queue := d.Redis.ZRangeWithScores(t.Context(), d.Queue(id), 0, -1).Val()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Memory().Run(ctx) })
	d.LoseRedis(id)
	testenv.Eventually(t, "the users are handed over", func() bool {
		return d.Redis.ZCard(t.Context(), d.Key("returned", id)).Val() == 3
	})
	stop()
	running.Wait()
	require.NoError(t, d.Memory().Close(t.Context(), pool(t, d)))
	d.Restore(id)
	require.Equal(t, queue, d.Redis.ZRangeWithScores(t.Context(), d.Queue(id), 0, -1).Val())
}

// committed is an Applier for ACCEPT_AFTER=journal, with its metrics.
func committed(d *jajeongtest.Deployment, db *sql.DB) (*handover.Committed, *prometheus.Registry) {
	metrics := prometheus.NewRegistry()
	return handover.Commit(batch.New(d.Store.ApplyAll, metrics, time.Now), d.Memory(), db, metrics, time.Now), metrics
}

func metric(t *testing.T, from *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if m := f.GetMetric()[0]; f.GetName() == name {
			return m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// has reports whether the journal has a user's row at this moment.
func has(t *testing.T, d *jajeongtest.Deployment, id coupon.CouponID, user coupon.UserID, at coupon.Arrival) bool {
	var n int
	err := d.DB.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM line_journal
WHERE coupon_id = ? AND user_id = ? AND arrival = ?`, id, user, at).Scan(&n)
	return err == nil && n == 1
}

func TestCommitted_WhoeverIsToldIsInTheJournal(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	coupons := []coupon.CouponID{d.AddCoupon(5), d.AddCoupon(5), d.AddCoupon(5)}
	applier, metrics := committed(d, pool(t, d))
	const users = 300
	var told atomic.Int64
	var all sync.WaitGroup
	for user := coupon.UserID(1); user <= users; user++ {
		all.Go(func() {
			id := coupons[user%3]
			for _, want := range []candidates.Code{candidates.Accepted, candidates.Duplicate} {
				receipt, err := applier.Apply(t.Context(), id, user)
				if err == nil && receipt.Code == want && has(t, d, id, user, receipt.Arrival) {
					told.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 2*users, told.Load())
	require.Less(t, metric(t, metrics, "jajeong_accept_commit_seconds"), float64(users), "rows share statements")
	require.Zero(t, metric(t, metrics, "jajeong_accept_uncommitted_total"))
	closed := d.AddCouponBetween(5, d.Now().Add(-2*time.Hour), d.Now().Add(-time.Hour))
	receipt, err := applier.Apply(t.Context(), closed, 1)
	require.NoError(t, err)
	require.Equal(t, candidates.Closed, receipt.Code)
	require.Empty(t, rows(d, closed))
}

// The journal is a copy of another server, or of none: it may serve again, and lack whom this one has.
func TestCommitted_AsksForARestoreOfAServerThatWasNotCopied(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(5)
	applier, _ := committed(d, pool(t, d))
	asked := func(user coupon.UserID) bool {
		t.Helper()
		d.Exec("UPDATE journal SET asked = 0")
		receipt, err := applier.Apply(t.Context(), id, user)
		require.NoError(t, err)
		require.Equal(t, candidates.Accepted, receipt.Code)
		return d.Number("SELECT asked FROM journal WHERE coupon_id = ?", id) > 0
	}
	require.NoError(t, promise.Begin(t.Context(), d.DB, id))
	require.True(t, asked(1), "it was never copied")
	d.Restore(id)
	require.False(t, asked(2))
	d.FailOver(id)
	require.True(t, asked(3), "another server")
	d.Restore(id)
	d.Memory().Journalled(id, promise.Mark{Epoch: mark(t, d, id)})
	require.False(t, asked(4))
	d.Exec("UPDATE journal SET epoch = 'another:1' WHERE coupon_id = ?", id)
	require.True(t, asked(5), "what the process last read is old")
}

func TestCommitted_LostReplyToTheCommit(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	d := jajeongtest.NewOnPrivateRedis(t)
	_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if strings.Contains(string(turn.Request), "INTO line_journal") && lost.Add(1) == 1 {
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	id := d.AddCoupon(5)
	applier, _ := committed(d, pool(t, proxied))
	receipt, err := applier.Apply(t.Context(), id, 7)
	require.NoError(t, err)
	require.Equal(t, candidates.Accepted, receipt.Code)
	require.True(t, has(t, d, id, 7, receipt.Arrival))
	require.EqualValues(t, 2, lost.Load())
}

// Without the row, nobody is told; asking again is safe.
func TestCommitted_MySQLFrozenAndKilled(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
	id := d.AddCoupon(5)
	db := pool(t, d)
	applier, metrics := committed(d, db)
	known, err := applier.Apply(t.Context(), id, 1)
	require.NoError(t, err)
	for _, fault := range []struct {
		name        string
		begin, end  func() error
		atLeast     time.Duration
		user, other coupon.UserID
	}{
		{"frozen", server.Freeze, server.Thaw, handover.CommitTimeout, 7, 8},
		{"killed", server.Kill, func() error { return server.Restart(testenv.Patient(t)) }, 0, 9, 10},
	} {
		require.NoError(t, fault.begin(), fault.name)
		began := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := applier.Apply(t.Context(), id, fault.other)
			if err == nil {
				t.Errorf("%s: told without a row", fault.name)
			}
		})
		_, err := applier.Apply(t.Context(), id, fault.user)
		require.Error(t, err, fault.name)
		waiting.Wait()
		require.GreaterOrEqual(t, time.Since(began), fault.atLeast, fault.name)
		require.NoError(t, fault.end(), fault.name)
		testenv.Eventually(t, "MySQL answers", func() bool { return db.PingContext(t.Context()) == nil })
		testenv.Eventually(t, "applying again is answered", func() bool {
			receipt, err := applier.Apply(t.Context(), id, fault.user)
			return err == nil && receipt.Code == candidates.Duplicate && has(t, d, id, fault.user, receipt.Arrival)
		})
	}
	require.GreaterOrEqual(t, metric(t, metrics, "jajeong_accept_uncommitted_total"), 4.)

	// Whom the journal is known to have is told without MySQL.
	epoch := mark(t, d, id)
	d.Memory().Journalled(id, promise.Mark{Epoch: epoch, UpTo: known.Arrival})
	time.AfterFunc(jajeongtest.HandOverTime, func() {
		d.Memory().Journalled(id, promise.Mark{Epoch: epoch, UpTo: known.Arrival})
	})
	testenv.Eventually(t, "the mark counts", func() bool { return d.Memory().InJournal(id, known.Arrival) })
	require.NoError(t, server.Kill())
	receipt, err := applier.Apply(t.Context(), id, 1)
	require.NoError(t, err)
	require.Equal(t, candidates.Duplicate, receipt.Code)
	_, err = applier.Apply(t.Context(), id, 7)
	require.Error(t, err, "a later arrival")
}

// mark is the epoch of the server of a coupon.
func mark(t *testing.T, d *jajeongtest.Deployment, id coupon.CouponID) string {
	t.Helper()
	look, err := d.Store.Look(t.Context(), id, coupon.Known{})
	require.NoError(t, err)
	return look.Epoch
}
