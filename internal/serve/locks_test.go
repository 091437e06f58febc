package serve

import (
	"bytes"
	"context"
	"database/sql"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

// lockedJournal locks the row of coupon 7 until free. The fourth look at it gets no answer.
func lockedJournal(t *testing.T) (l *locks, looks func() int, free func()) {
	t.Helper()
	server := connect.MySQLSettings{MySQLDSN: migrated.Database(t).DSN}
	open := func(patience connect.Patience) *sql.DB {
		db, err := server.Open(patience, zaptest.NewLogger(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db := open(connect.Patient)
	_, err := db.ExecContext(t.Context(), "INSERT INTO journal (coupon_id, written_at) VALUES (7, UTC_TIMESTAMP(6))")
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	free = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(free)
	require.NoError(t, tx.QueryRow(lockJournalSQL, 7).Scan(new(uint64)))

	config, err := mysql.ParseDSN(server.MySQLDSN)
	require.NoError(t, err)
	var count atomic.Int32
	proxy := faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.Contains(turn.Request, []byte("FOR UPDATE")) && count.Add(1) == 4 {
			return faultproxy.DropRequest(nil)
		}
		return faultproxy.Pass()
	}, config.Addr)
	server.MySQLDSN = strings.Replace(server.MySQLDSN, "("+config.Addr+")", "("+proxy.Addr+")", 1)
	return newLocks(open(connect.Brief), "journal", lockJournalSQL, time.Now, zaptest.NewLogger(t)),
		func() int { return int(count.Load()) }, free
}

// Another replica may do the work when the lock ends, so that this one never tries the coupon again. A look that fails
// does not end the watch.
func TestLocks_EndWithoutAnotherAttempt(t *testing.T) {
	t.Parallel()
	l, looks, free := lockedJournal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer l.watch.Wait()
	defer cancel()
	for range 3 {
		l.found(ctx, 7)
	}
	l.mu.Lock()
	require.Len(t, l.watched, 1)
	l.mu.Unlock()
	testenv.Eventually(t, "the metric tells it", func() bool { return testutil.ToFloat64(l.gauge) == 1 })
	testenv.Eventually(t, "one look has failed", func() bool { return looks() > 4 })
	require.EqualValues(t, 1, testutil.ToFloat64(l.gauge))
	free()
	testenv.Eventually(t, "the metric tells the end", func() bool { return testutil.ToFloat64(l.gauge) == 0 })
	l.watch.Wait()
	require.Empty(t, l.watched)
}

// Watches leave the connections of the pool to the tasks.
func TestLocks_WatchFew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLocks(nil, "journal", lockJournalSQL, time.Now, zaptest.NewLogger(t))
		ctx, cancel := context.WithCancel(t.Context())
		for id := range coupon.CouponID(10) {
			l.found(ctx, id)
		}
		require.Len(t, l.watched, maxWatched)
		cancel()
		l.watch.Wait()
		require.Empty(t, l.watched)
	})
}
