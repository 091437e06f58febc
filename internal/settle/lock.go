package settle

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/text"
)

var (
	errBusy      = &coupon.Error{Class: coupon.Infrastructure, Err: text.RetryableErrorf(text.CouponBusy)}
	errUnchanged = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("nothing has changed")} // rolls back an immediate run
	errFrozen    = &coupon.Error{Class: coupon.Setup, Err: errors.New("the coupon is frozen")}         // the result shows it as a status
)

// lock is the first statement of every transaction of this package. Its row lock is the only mutual exclusion. An
// immediate run does not wait for it, nor does a group.
func (s *settlement) lock(ctx context.Context, tx *sql.Tx) (coupon.Coupon, error) {
	lock := records.Lock
	if s.run.immediate() {
		lock = records.LockNow
	}
	locked, err := lock(ctx, tx, s.coupon.ID)
	switch {
	case s.run.immediate() && mysqltx.IsLockWait(err):
		return s.coupon, errors.Join(errBusy, err)
	case err == nil && locked.Frozen:
		return locked, errFrozen
	default:
		return locked, err
	}
}

// transaction is mysqltx.DB.Do, or that of the settlement's group. If an attempt is rolled back, run.id is again what it was before.
func (s *settlement) transaction(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) error) error {
	id := s.run.id
	again := func(ctx context.Context, tx *sql.Tx) error {
		s.run.id = id
		return work(ctx, tx)
	}
	var err error
	if s.group != nil {
		err = s.group.Do(ctx, s.run.stopped, again)
	} else {
		err = s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error { return again(ctx, tx) })
	}
	if err != nil {
		s.run.id = id
	}
	return err
}

// onConn is mysqltx.DB.OnConn, or that of the settlement's group.
func (s *settlement) onConn(ctx context.Context, work func(ctx context.Context, q mysqltx.Querier) error) error {
	if s.group != nil {
		return s.group.OnConn(ctx, work)
	}
	return s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error { return work(ctx, q) })
}

// onePage is mysqltx.DB.Once. In a group, the page is read on the connection of the shared transaction.
func (s *settlement) onePage(ctx context.Context, tx *sql.Tx, read func(ctx context.Context, q mysqltx.Querier) error) error {
	if mysqltx.Shared(ctx) {
		return read(ctx, tx)
	}
	return s.DB.Once(ctx, read)
}

// underLock runs work in a transaction that has locked the coupon.
func (s *settlement) underLock(ctx context.Context, work func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) error) error {
	return s.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		locked, err := s.lock(ctx, tx)
		if err != nil {
			return err
		}
		return work(ctx, tx, locked)
	})
}
