package serve

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// lockedAfter is how long a row may be locked. Sessions of ours that are silent end sooner, but for those of settlements.
	lockedAfter = 5 * time.Second
	// lockLook bounds one look at a lock, which waits for it as long as a session of the pool waits for locks.
	lockLook = 4 * time.Second
)

// The rows that tasks lock, by a coupon's id.
const (
	lockCouponSQL  = "SELECT id FROM coupon WHERE id = ? FOR UPDATE"
	lockJournalSQL = "SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE"
)

// locks says which coupons somebody else keeps locked for longer than lockedAfter, and who. Others that come and go lock a row
// at each attempt, too: the row is tried once more, and waited for.
type locks struct {
	pool   *sql.DB // of brief sessions
	row    string  // lockCouponSQL or lockJournalSQL
	now    func() time.Time
	logger *zap.Logger

	mu     sync.Mutex
	busy   map[coupon.CouponID]time.Time // since when each attempt has found the row locked
	locked map[coupon.CouponID]time.Time // when the log last named the coupon
	gauge  prometheus.Gauge
}

func newLocks(pool *sql.DB, task, row string, now func() time.Time, logger *zap.Logger) *locks {
	return &locks{pool: pool, row: row, now: now, logger: logger, busy: map[coupon.CouponID]time.Time{}, locked: map[coupon.CouponID]time.Time{},
		gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "jajeong_locked_coupons", ConstLabels: prometheus.Labels{"task": task},
			Help: "Coupons whose row another session has kept locked for more than five seconds, so that the task cannot work on them."})}
}

// note takes the result of an attempt to lock the row of a coupon.
func (l *locks) note(ctx context.Context, id coupon.CouponID, locked bool) {
	l.mu.Lock()
	now := l.now()
	since, known := l.busy[id]
	named, again := l.locked[id]
	switch {
	case !locked:
		delete(l.busy, id)
		delete(l.locked, id)
		l.gauge.Set(float64(len(l.locked)))
	case !known:
		l.busy[id] = now
	}
	l.mu.Unlock()
	if !locked && again {
		l.logger.Info("coupon no longer locked by another session", zap.Uint64("coupon_id", uint64(id)))
	}
	if locked && known && now.Sub(since) > lockedAfter && (!again || now.Sub(named) > reminderEvery) {
		l.look(ctx, id, now.Sub(since))
	}
}

// look waits for the row, and says who has it if nobody gives it away meanwhile.
func (l *locks) look(ctx context.Context, id coupon.CouponID, busyFor time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lockLook)
	defer cancel()
	err := mysqltx.Read(ctx, l.pool, sql.LevelDefault, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, l.row, id).Scan(new(uint64)) })
	if !mysqltx.IsLockWait(err) {
		l.mu.Lock()
		l.busy[id] = l.now()
		l.mu.Unlock()
		return
	}
	sessions, unknown := mysqltx.LockingSessions(ctx, l.pool, lockedAfter)
	l.mu.Lock()
	l.locked[id] = l.now()
	l.gauge.Set(float64(len(l.locked)))
	l.mu.Unlock()
	l.logger.Error("another session keeps a coupon locked; until it ends, this task does not work on the coupon", zap.Uint64("coupon_id", uint64(id)),
		zap.Duration("for", busyFor), zap.Strings("sessions_with_old_locks", sessions), zap.NamedError("sessions_unknown", unknown))
}
