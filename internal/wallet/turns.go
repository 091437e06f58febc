package wallet

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Store makes the calls of wallet-api, with the results of the function Redeem. Of the reservations of one coupon, and
// of the other calls about one order, it makes one at a time. Otherwise the calls for one hot coupon would wait in
// MySQL for its row, with all connections of the pool. That only saves connections: a coupon is protected by its row.
type Store struct {
	db    *mysqltx.DB
	turns turns
}

// NewStore returns a Store for the calls of one process.
func NewStore(pool *sql.DB) *Store {
	return &Store{db: mysqltx.NewBrief(pool), turns: turns{lines: map[turn]*line{}}}
}

// Redeem is the function Redeem, and sets ReservedByCaller.
func (s *Store) Redeem(ctx context.Context, couponID coupon.CouponID, call Call) (d Decision, err error) {
	key := turn{order: call.OrderID}
	if call.Verb == Reserve {
		key = turn{coupon: couponID, user: call.User}
	}
	err = s.turns.take(ctx, key, func() error {
		d, err = Redeem(ctx, s.db, couponID, call)
		return err
	})
	if err == nil && d.Code == ReservedElsewhere {
		d.ReservedByCaller, err = s.hasReserved(ctx, call.Actor, d.Coupon)
	}
	return d, err
}

// reservedSQL compares the actor byte by byte, unlike the column.
const reservedSQL = `
SELECT EXISTS (SELECT 1 FROM coupon_log WHERE user_coupon_id = ? AND order_id = ? AND kind = 'RESERVED'
    AND actor COLLATE utf8mb4_bin = ?)`

// hasReserved reports whether an actor has ever reserved a coupon for the order that has it now.
func (s *Store) hasReserved(ctx context.Context, actor string, u UserCoupon) (has bool, err error) {
	err = s.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return q.QueryRowContext(ctx, reservedSQL, u.ID, u.OrderID, actor).Scan(&has)
	})
	return has, mysqltx.Wrap(err, "read who reserved user_coupon %d", u.ID)
}

// List is the function List. It also returns MySQL's clock.
func (s *Store) List(ctx context.Context, user coupon.UserID, before coupon.UserCouponID, limit int) (
	page []Item, now time.Time, err error,
) {
	err = s.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		if page, err = List(ctx, q, user, before, limit); err != nil {
			return err
		}
		if len(page) > 0 {
			now = page[0].Now
			return nil
		}
		now, err = mysqltx.Now(ctx, q)
		return err
	})
	return page, now, err
}

// turn identifies a user's coupon or an order. Calls with the same turn are made one at a time.
type turn struct {
	coupon coupon.CouponID
	user   coupon.UserID
	order  string
}

// turns has a line for each turn that is taken or waited for.
type turns struct {
	mu    sync.Mutex
	lines map[turn]*line
}

type line struct {
	slot  chan struct{} // holds the call that is being made
	calls int           // calls that are made or wait; guarded by turns.mu
}

// take makes a call when the earlier ones of its turn have ended. It makes none after ctx has ended.
func (t *turns) take(ctx context.Context, key turn, call func() error) error {
	l := t.join(key)
	defer t.leave(key, l)
	select {
	case l.slot <- struct{}{}:
		defer func() { <-l.slot }()
		return call()
	case <-ctx.Done():
		return fmt.Errorf("wait for other calls: %w", context.Cause(ctx))
	}
}

func (t *turns) join(key turn) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[key]
	if l == nil {
		l = &line{slot: make(chan struct{}, 1)}
		t.lines[key] = l
	}
	l.calls++
	return l
}

func (t *turns) leave(key turn, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.calls--; l.calls == 0 {
		delete(t.lines, key)
	}
}
