package serve

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

// Another replica may do the work when the lock ends, so that this one never tries the coupon again.
func TestLocks_EndWithoutAnotherAttempt(t *testing.T) {
	t.Parallel()
	server := connect.MySQLSettings{MySQLDSN: migrated.Database(t).DSN}
	db, err := server.Open(connect.Patient, zaptest.NewLogger(t))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "INSERT INTO journal (coupon_id, written_at) VALUES (7, UTC_TIMESTAMP(6))")
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, tx.QueryRow(lockJournalSQL, 7).Scan(new(uint64)))

	brief, err := server.Open(connect.Brief, zaptest.NewLogger(t))
	require.NoError(t, err)
	defer brief.Close()
	l := newLocks(brief, "journal", lockJournalSQL, time.Now, zaptest.NewLogger(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer l.watch.Wait()
	defer cancel()
	for range 3 {
		l.found(ctx, 7)
	}
	l.mu.Lock()
	require.Len(t, l.watched, 1)
	l.mu.Unlock()
	for _, want := range []float64{1, 0} {
		testenv.Eventually(t, "the metric tells it", func() bool { return testutil.ToFloat64(l.gauge) == want })
		_ = tx.Rollback()
	}
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
