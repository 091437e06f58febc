package redeem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

// want is the wish of an order for the coupon of its user.
type want struct {
	coupon coupon.CouponID
	user   coupon.UserID
	order  string
}

// answer is what a contender answers to a step.
type answer uint8

const (
	refused answer = iota // the coupon is not for this order
	granted
	busy // another client is at work with the coupon: try again
)

// step is one call of the checkout. An order has used the coupon when every step was granted.
type step func(ctx context.Context, w want) (answer, error)

// contender is one way to use coupons. Each plain one has a table of its own.
type contender struct {
	name, title, table string
	open               func(p plain) []step
}

const (
	yardstick  = "Redis lock, two steps"
	reserveFor = 15 * time.Minute
	orderWon   = 12_000
)

var contenders = []contender{
	{"jajeong", "Jajeong", "user_coupon", jajeong},
	{"lock-2", yardstick, "locked_twice", func(p plain) []step {
		return []step{p.locked(p.reserve), p.locked(p.confirm)}
	}},
	{"lock-1", "Redis lock, one step", "locked_once", func(p plain) []step {
		return []step{p.locked(p.use)}
	}},
	{"lock-2-log", "Redis lock, two steps, with records", "locked_logged", func(p plain) []step {
		return []step{p.locked(p.recorded(p.reserve, insertOrder, 1, "RESERVED")),
			p.locked(p.recorded(p.confirm, updateOrder, 2, "USED"))}
	}},
	{"for-update", "SELECT … FOR UPDATE", "row_locked", func(p plain) []step {
		return []step{p.rowLocked(p.reserve), p.rowLocked(p.confirm)}
	}},
}

// jajeong is what wallet-api has behind its HTTP handler.
func jajeong(p plain) []step {
	store := wallet.NewStore(p.db)
	call := func(verb wallet.Verb) step {
		return func(ctx context.Context, w want) (answer, error) {
			d, err := store.Redeem(ctx, w.coupon, wallet.Call{
				Verb: verb, Actor: "bench", OrderID: w.order, User: w.user, AmountWon: orderWon, TTL: reserveFor})
			switch {
			case waitedTooLong(err):
				return busy, nil
			case err != nil:
				return refused, err
			case d.Code == wallet.Done, d.Code == wallet.Repeated:
				return granted, nil
			case d.Code == wallet.ReservedElsewhere, d.Code == wallet.Used, d.Code == wallet.ReservationLost:
				return refused, nil
			default:
				return refused, fmt.Errorf("%s", d.Code)
			}
		}
	}
	return []step{call(wallet.Reserve), call(wallet.Confirm)}
}

// waitedTooLong reports that MySQL gave up waiting for a row lock.
func waitedTooLong(err error) bool { return stage.ErrorNumber(err) == 1205 }

// plain is what a shop writes without a wallet: it reads the row, decides, and writes the row by its id. Nothing but
// the lock keeps two clients apart.
type plain struct {
	db    *sql.DB
	rdb   redis.UniversalClient
	table string
}

// work is a step without its lock. suffix ends its SELECT.
type work func(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error)

// lockFor is the life of the Redis lock in the design that these contenders follow.
const lockFor = 10 * time.Second

// locked does a step under a Redis lock. As in that design, DEL does not look whose lock it deletes.
func (p plain) locked(do work) step {
	return func(ctx context.Context, w want) (answer, error) {
		key := fmt.Sprintf("redeem:lock:%s:%d:%d", p.table, w.coupon, w.user)
		got, err := p.rdb.SetNX(ctx, key, w.order, lockFor).Result()
		if err != nil || !got {
			return busy, err
		}
		a, err := do(ctx, p.db, "", w)
		return a, errors.Join(err, p.rdb.Del(ctx, key).Err())
	}
}

// rowLocked does a step in a transaction whose SELECT locks the row.
func (p plain) rowLocked(do work) step {
	return func(ctx context.Context, w want) (answer, error) {
		a, err := p.inTransaction(ctx, func(tx *sql.Tx) (answer, error) { return do(ctx, tx, " FOR UPDATE", w) })
		if waitedTooLong(err) {
			return busy, nil
		}
		return a, err
	}
}

// inTransaction commits what was granted. What was refused has written nothing.
func (p plain) inTransaction(ctx context.Context, do func(tx *sql.Tx) (answer, error)) (a answer, err error) {
	err = stage.InTransaction(ctx, p.db, func(tx *sql.Tx) (err error) {
		a, err = do(tx)
		return err
	})
	return a, err
}

const (
	insertOrder = `INSERT INTO %s_order 
		(order_id, user_coupon_id, user_id, amount_won, discount_won, state, reserved_until)
		SELECT order_id, id, user_id, 12000, 5000, 'RESERVED', reserved_until FROM %[1]s WHERE coupon_id = ?
			AND user_id = ?`
	updateOrder = `UPDATE %s_order SET state = 'USED'
		WHERE order_id = (SELECT order_id FROM %[1]s WHERE coupon_id = ? AND user_id = ?)`
	insertLog = `INSERT INTO %s_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, actor, at)
		SELECT id, ?, ?, order_id, 12000, 5000, 'bench', UTC_TIMESTAMP(6) FROM %[1]s WHERE coupon_id = ?
			AND user_id = ?`
)

// recorded does a step in a transaction that writes the rows that Jajeong writes, too: the order and the log.
func (p plain) recorded(do work, order string, seq int, kind string) work {
	order, log := fmt.Sprintf(order, p.table), fmt.Sprintf(insertLog, p.table)
	return func(ctx context.Context, _ mysqltx.Querier, suffix string, w want) (answer, error) {
		return p.inTransaction(ctx, func(tx *sql.Tx) (answer, error) {
			a, err := do(ctx, tx, suffix, w)
			if err != nil || a != granted {
				return a, err
			}
			if err := mysqltx.Exec(ctx, tx, 1, order, w.coupon, w.user); err != nil {
				return refused, err
			}
			return granted, mysqltx.Exec(ctx, tx, 1, log, seq, kind, w.coupon, w.user)
		})
	}
}

// row is an issued coupon as a plain contender reads it.
type row struct {
	id             uint64
	status, order  string
	reserved, over bool // the reservation is live; the coupon has expired
}

func (r row) usable() bool {
	return !r.over && (r.status == "ISSUED" || r.status == "RESERVED" && !r.reserved)
}

func (r row) isOf(order string) bool { return r.status == "RESERVED" && r.order == order }

// change reads the row, and writes it if it may.
func (p plain) change(ctx context.Context, q mysqltx.Querier, suffix string, w want,
	may func(row) bool, set string, args ...any) (answer, error) {
	var r row
	err := q.QueryRowContext(ctx, `SELECT id, status, COALESCE(order_id, ''),
		COALESCE(reserved_until > UTC_TIMESTAMP(6), FALSE), expires_at <= UTC_TIMESTAMP(6) FROM `+p.table+
		" WHERE coupon_id = ? AND user_id = ?"+suffix, w.coupon, w.user).
		Scan(&r.id, &r.status, &r.order, &r.reserved, &r.over)
	if err != nil || !may(r) {
		return refused, err
	}
	return granted, mysqltx.Exec(ctx, q, 1, "UPDATE "+p.table+" SET "+set+" WHERE id = ?", append(args, r.id)...)
}

func (p plain) reserve(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error) {
	return p.change(ctx, q, suffix, w, row.usable,
		"status = 'RESERVED', order_id = ?, reserved_until = UTC_TIMESTAMP(6) + INTERVAL 15 MINUTE", w.order)
}

func (p plain) confirm(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error) {
	return p.change(ctx, q, suffix, w, func(r row) bool { return r.isOf(w.order) }, "status = 'USED'")
}

func (p plain) use(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error) {
	return p.change(ctx, q, suffix, w, row.usable, "status = 'USED', order_id = ?", w.order)
}
