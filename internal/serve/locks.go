package serve

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// lockedAfter is how long a row may be locked. Our own silent sessions end sooner, except those of settlements.
	lockedAfter = 5 * time.Second
	// lockLook bounds one look at a lock, which waits for it as long as a session of the pool waits for locks.
	lockLook = 4 * time.Second
	// lockPause is between two looks.
	lockPause = time.Second
	// maxWatched bounds the coupons that a task watches. Each look keeps a connection of the pool for some seconds.
	maxWatched = 3
)

// The rows that tasks lock, by a coupon's id.
const (
	lockCouponSQL  = "SELECT id FROM coupon WHERE id = ? FOR UPDATE"
	lockJournalSQL = "SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE"
)

// locks says which coupons somebody else keeps locked for longer than lockedAfter, and who. Replicas lock a row at each
// attempt, too, so a task that finds it locked does not know. A watch beside the task waits for the row until it gets
// it.
type locks struct {
	pool   *sql.DB // pool of brief sessions
	row    string  // lockCouponSQL or lockJournalSQL
	now    func() time.Time
	logger *zap.Logger
	watch  sync.WaitGroup

	mu      sync.Mutex
	watched map[coupon.CouponID]bool
	gauge   prometheus.Gauge
}

func newLocks(pool *sql.DB, task, row string, now func() time.Time, logger *zap.Logger) *locks {
	return &locks{pool: pool, row: row, now: now, logger: logger, watched: map[coupon.CouponID]bool{},
		gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "jajeong_locked_coupons",
			ConstLabels: prometheus.Labels{"task": task},
			Help: "Coupons, of three at most, whose row another session has kept locked for more than five " +
				"seconds, so that the task cannot work on them."})}
}

// found says that an attempt has found the row of a coupon locked. A watch begins, unless there is one. It ends with
// ctx.
func (l *locks) found(ctx context.Context, id coupon.CouponID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[id] || len(l.watched) == maxWatched {
		return
	}
	l.watched[id] = true
	l.watch.Go(func() {
		l.await(ctx, id)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watched, id)
	})
}

// await returns when the row is free or gone. A look that fails for another reason than the lock tells nothing.
func (l *locks) await(ctx context.Context, id coupon.CouponID) {
	logger := l.logger.With(zap.Uint64("coupon_id", uint64(id)))
	var since, named time.Time // start of the looks that found the row locked; time of the last line in the log
	defer func() {
		if !named.IsZero() {
			l.gauge.Dec()
		}
	}()
	for sleep.For(ctx, lockPause) == nil {
		began := l.now()
		switch err := l.look(ctx, id); {
		case err == nil, errors.Is(err, sql.ErrNoRows):
			if !named.IsZero() {
				logger.Info("coupon no longer locked by another session")
			}
			return
		case !mysqltx.IsLockWait(err):
			continue
		}
		now := l.now()
		if since.IsZero() {
			since = began
		}
		if now.Sub(since) <= lockedAfter || now.Sub(named) < reminderEvery {
			continue
		}
		if named.IsZero() {
			l.gauge.Inc()
		}
		named = now
		sessions, unknown := l.holders(ctx)
		logger.Error("another session keeps a coupon locked; until it ends, this task does not work on the coupon",
			zap.Duration("for", now.Sub(since)),
			zap.Strings("sessions_with_old_locks", sessions), zap.NamedError("sessions_unknown", unknown))
	}
}

// look waits for the row, and gives it away at once.
func (l *locks) look(ctx context.Context, id coupon.CouponID) error {
	ctx, cancel := context.WithTimeout(ctx, lockLook)
	defer cancel()
	return mysqltx.Read(ctx, l.pool, sql.LevelDefault,
		func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, l.row, id).Scan(new(uint64)) })
}

func (l *locks) holders(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lockLook)
	defer cancel()
	return mysqltx.LockingSessions(ctx, l.pool, lockedAfter)
}
