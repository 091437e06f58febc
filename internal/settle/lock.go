package settle

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/text"
)

var (
	errBusy = &coupon.Error{Class: coupon.Infrastructure, Err: text.RetryableErrorf(text.CouponBusy)}
	// Rolls back an immediate run.
	errUnchanged = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("nothing has changed")}
	// The result shows it as a status.
	errFrozen = &coupon.Error{Class: coupon.Setup, Err: errors.New("the coupon is frozen")}
)

// lock begins every transaction of this package. Its row lock is the only mutual exclusion.
func (s *settlement) lock(ctx context.Context, tx *sql.Tx) (coupon.Coupon, error) {
	lock := records.Lock
	if !s.run.rules.waitsForLock {
		lock = records.LockNow
	}
	locked, err := lock(ctx, tx, s.coupon.ID)
	switch {
	case !s.run.rules.waitsForLock && mysqltx.IsLockWait(err):
		return s.coupon, errors.Join(errBusy, err)
	case err != nil:
		return locked, err
	case locked.Frozen:
		return locked, errFrozen
	case s.run.id == 0: // an immediate run that is not recorded yet
		return locked, nil
	}
	id, err := history.Find(ctx, tx, s.run.nonce)
	if err == nil && id != s.run.id {
		err = history.ErrLost
	}
	return locked, err
}

// transaction is mysqltx.DB.Do, and resets run.id if an attempt is rolled back.
func (s *settlement) transaction(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) error) error {
	id := s.run.id
	err := s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		s.run.id = id
		return work(ctx, tx)
	})
	if err != nil {
		s.run.id = id
	}
	return err
}

// underLock runs work in a transaction that has locked the coupon.
func (s *settlement) underLock(ctx context.Context,
	work func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) error) error {
	return s.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		locked, err := s.lock(ctx, tx)
		if err != nil {
			return err
		}
		return work(ctx, tx, locked)
	})
}
