package wallet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Store makes the calls of wallet-api, with the results of the function Redeem. It saves work, and protects nothing.
type Store struct {
	db    *mysqltx.DB
	gates map[Verb]gate
	turns turns
}

func NewStore(pool *sql.DB) *Store {
	return &Store{db: mysqltx.NewBrief(pool), gates: map[Verb]gate{Reserve: newGate(), Confirm: newGate()},
		turns: turns{busy: map[turn]chan struct{}{}}}
}

// Redeem is the function Redeem, and sets ReservedByCaller.
func (s *Store) Redeem(ctx context.Context, couponID coupon.CouponID, call Call) (d Decision, err error) {
	if d, err = s.inTurn(ctx, couponID, call); err == nil && d.Code == ReservedElsewhere {
		d.ReservedByCaller, err = s.hasReserved(ctx, call.Actor, d.Coupon)
	}
	return d, err
}

// reservedSQL compares the actor byte by byte, unlike the column.
const reservedSQL = `
SELECT EXISTS (SELECT 1 FROM coupon_log WHERE user_coupon_id = ? AND order_id = ? AND kind = 'RESERVED' AND actor COLLATE utf8mb4_bin = ?)`

// hasReserved reports whether an actor has ever reserved a coupon for the order that has it now.
func (s *Store) hasReserved(ctx context.Context, actor string, u UserCoupon) (has bool, err error) {
	err = s.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return q.QueryRowContext(ctx, reservedSQL, u.ID, u.OrderID, actor).Scan(&has)
	})
	return has, mysqltx.Wrap(err, "read who reserved user_coupon %d", u.ID)
}

// inTurn makes one call at a time of the reservations of one coupon, and of the other calls about one order. The others wait for
// it. A thousand waiters in MySQL would wait for a thousand locks one after another, and keep every connection from other coupons.
func (s *Store) inTurn(ctx context.Context, couponID coupon.CouponID, call Call) (Decision, error) {
	key := turn{order: call.OrderID}
	if call.Verb == Reserve {
		key = turn{owned: owned{couponID, call.User}}
	}
	for {
		earlier := s.turns.begin(key)
		if earlier == nil {
			defer s.turns.end(key)
			return s.together(ctx, couponID, call)
		}
		select {
		case <-earlier:
		case <-ctx.Done():
			return Decision{}, hungUp(ctx, call)
		}
		if call.Verb != Reserve {
			continue
		}
		if d, unchanged := s.peek(ctx, couponID, call); unchanged {
			return d, nil
		}
	}
}

func hungUp(ctx context.Context, call Call) error {
	return fmt.Errorf("order %s: wait for other calls: %w", call.OrderID, context.Cause(ctx))
}

// peek decides without a lock. unchanged is true if the decision changes nothing. It is exact: the coupon was the same before
// and after the orders were read.
func (s *Store) peek(ctx context.Context, couponID coupon.CouponID, call Call) (d Decision, unchanged bool) {
	err := s.db.Once(ctx, func(ctx context.Context, q mysqltx.Querier) (err error) {
		var f Facts
		f.Coupon, err = readCoupon(ctx, q, readOwnedSQL, couponID, call.User)
		if errors.Is(err, sql.ErrNoRows) {
			d, err = withoutCoupon(ctx, q, call)
			unchanged = err == nil
			return err
		}
		if err != nil {
			return err
		}
		if err = f.read(ctx, q, call.OrderID); err != nil {
			return err
		}
		after, err := readCoupon(ctx, q, readOwnedSQL, couponID, call.User)
		d = Decide(f, call)
		unchanged = after == f.Coupon && len(d.Entries) == 0
		return err
	})
	return d, unchanged && err == nil
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

// owned identifies an issued coupon without its id.
type owned struct {
	coupon coupon.CouponID
	user   coupon.UserID
}

// turn is what reservations of one coupon, or other calls about one order, have in common.
type turn struct {
	owned
	order string
}

// turns lets one call with the same turn run at a time. It has an entry for each running call.
type turns struct {
	mu   sync.Mutex
	busy map[turn]chan struct{} // closed at the end of the call
}

// begin returns nil if it is the caller's turn, who must call end. Otherwise it returns a channel that closes with the turn of
// the earlier caller.
func (t *turns) begin(key turn) (earlier <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if busy, ok := t.busy[key]; ok {
		return busy
	}
	t.busy[key] = make(chan struct{})
	return nil
}

func (t *turns) end(key turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.busy[key])
	delete(t.busy, key)
}
