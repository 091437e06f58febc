package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

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

// contender is one way to use coupons. Each has its own table of issued coupons.
type contender struct {
	name, title, table string

	open func(db *sql.DB, rdb redis.UniversalClient) []step
	// holder opens the clients that stop in the scene paused, each in a process of its own. nil: open.
	holder func(db *sql.DB, rdb redis.UniversalClient) []step
}

const (
	yardstick  = "Redis lock, two steps"
	reserveFor = 15 * time.Minute
	orderWon   = 12_000
)

var contenders = []contender{
	{name: "jajeong", title: "Jajeong", table: "user_coupon", open: openGrouped, holder: openHolder},
	{name: "jajeong-each", title: "Jajeong, each call alone", table: "user_coupon", open: openEach},
	{name: "lock-2", title: yardstick, table: "locked_twice", open: func(db *sql.DB, rdb redis.UniversalClient) []step {
		p := plain{db, rdb, "locked_twice"}
		return []step{p.locked(p.reserve), p.locked(p.confirm)}
	}},
	{name: "lock-1", title: "Redis lock, one step", table: "locked_once", open: func(db *sql.DB, rdb redis.UniversalClient) []step {
		p := plain{db, rdb, "locked_once"}
		return []step{p.locked(p.use)}
	}},
	{name: "lock-2-log", title: "Redis lock, two steps, with records", table: "locked_logged", open: func(db *sql.DB, rdb redis.UniversalClient) []step {
		p := plain{db, rdb, "locked_logged"}
		return []step{p.locked(p.recorded(p.reserve, insertOrder, "RESERVED")), p.locked(p.recorded(p.confirm, updateOrder, "USED"))}
	}},
	{name: "for-update", title: "SELECT … FOR UPDATE", table: "row_locked", open: func(db *sql.DB, rdb redis.UniversalClient) []step {
		p := plain{db, rdb, "row_locked"}
		return []step{p.rowLocked(p.reserve), p.rowLocked(p.confirm)}
	}},
}

// openGrouped has what wallet-api has behind its HTTP handler.
func openGrouped(pool *sql.DB, _ redis.UniversalClient) []step {
	return jajeong(wallet.NewStore(pool).Redeem)
}

// openHolder has a store for each call.
func openHolder(pool *sql.DB, _ redis.UniversalClient) []step {
	return jajeong(func(ctx context.Context, id coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
		return wallet.NewStore(pool).Redeem(ctx, id, call)
	})
}

// openEach makes a transaction of each call.
func openEach(pool *sql.DB, _ redis.UniversalClient) []step {
	db := mysqltx.NewBrief(pool)
	return jajeong(func(ctx context.Context, id coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
		return wallet.Redeem(ctx, db, id, call)
	})
}

func jajeong(redeem func(context.Context, coupon.CouponID, wallet.Call) (wallet.Decision, error)) []step {
	call := func(verb wallet.Verb) step {
		return func(ctx context.Context, w want) (answer, error) {
			d, err := redeem(ctx, w.coupon, wallet.Call{Verb: verb, Actor: "bench", OrderID: w.order, User: w.user, AmountWon: orderWon, TTL: reserveFor})
			switch {
			case waitedTooLong(err):
				return busy, nil
			case err != nil:
				return refused, err
			}
			switch d.Code {
			case wallet.Done, wallet.Repeated:
				return granted, nil
			case wallet.ReservedElsewhere, wallet.Used, wallet.ReservationLost:
				return refused, nil
			default:
				return refused, fmt.Errorf("%s", d.Code)
			}
		}
	}
	return []step{call(wallet.Reserve), call(wallet.Confirm)}
}

// waitedTooLong reports that MySQL gave up waiting for a row lock.
func waitedTooLong(err error) bool {
	const lockWaitTimeout = 1205
	var refusal *mysql.MySQLError
	return errors.As(err, &refusal) && refusal.Number == lockWaitTimeout
}

// plain is what a shop writes without a wallet: it reads the row, decides, and writes the row by its id. Nothing but the lock
// keeps two clients apart.
type plain struct {
	db    *sql.DB
	rdb   redis.UniversalClient
	table string
}

// lockFor is the life of the Redis lock in the design that these contenders follow.
const lockFor = 10 * time.Second

// locked does a step under a Redis lock. As in that design, DEL does not look whose lock it deletes.
func (p plain) locked(do func(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error)) step {
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
func (p plain) rowLocked(do func(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error)) step {
	return func(ctx context.Context, w want) (answer, error) {
		a, err := p.inTransaction(ctx, func(tx *sql.Tx) (answer, error) { return do(ctx, tx, " FOR UPDATE", w) })
		if waitedTooLong(err) {
			return busy, nil
		}
		return a, err
	}
}

func (p plain) inTransaction(ctx context.Context, do func(tx *sql.Tx) (answer, error)) (answer, error) {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return refused, err
	}
	defer func() { _ = tx.Rollback() }()
	a, err := do(tx)
	if err != nil || a != granted {
		return a, err
	}
	return a, tx.Commit()
}

const (
	insertOrder = "INSERT INTO %s_order (order_id, user_coupon_id, user_id, amount_won, discount_won, state, reserved_until)" +
		" SELECT order_id, id, user_id, 12000, 5000, 'RESERVED', reserved_until FROM %[1]s WHERE coupon_id = ? AND user_id = ?"
	updateOrder = "UPDATE %s_order SET state = 'USED' WHERE order_id = (SELECT order_id FROM %[1]s WHERE coupon_id = ? AND user_id = ?)"
	insertLog   = "INSERT INTO %s_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, actor, at)" +
		" SELECT id, ?, ?, order_id, 12000, 5000, 'bench', UTC_TIMESTAMP(6) FROM %[1]s WHERE coupon_id = ? AND user_id = ?"
)

// recorded does a step in a transaction that writes the rows that Jajeong writes, too: the order and the log.
func (p plain) recorded(do func(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error), order, kind string) func(context.Context, mysqltx.Querier, string, want) (answer, error) {
	seq := map[string]int{"RESERVED": 1, "USED": 2}[kind]
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

func (p plain) read(ctx context.Context, q mysqltx.Querier, suffix string, w want) (r row, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, status, COALESCE(order_id, ''), COALESCE(reserved_until > UTC_TIMESTAMP(6), FALSE), "+
		"expires_at <= UTC_TIMESTAMP(6) FROM "+p.table+
		" WHERE coupon_id = ? AND user_id = ?"+suffix, w.coupon, w.user).Scan(&r.id, &r.status, &r.order, &r.reserved, &r.over)
	return r, err
}

func (r row) usable() bool {
	return !r.over && (r.status == "ISSUED" || r.status == "RESERVED" && !r.reserved)
}

func (p plain) reserve(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error) {
	r, err := p.read(ctx, q, suffix, w)
	if err != nil || !r.usable() {
		return refused, err
	}
	return granted, mysqltx.Exec(ctx, q, 1, "UPDATE "+p.table+
		" SET status = 'RESERVED', order_id = ?, reserved_until = UTC_TIMESTAMP(6) + INTERVAL 15 MINUTE WHERE id = ?", w.order, r.id)
}

func (p plain) confirm(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error) {
	r, err := p.read(ctx, q, suffix, w)
	if err != nil || r.status != "RESERVED" || r.order != w.order {
		return refused, err
	}
	return granted, mysqltx.Exec(ctx, q, 1, "UPDATE "+p.table+" SET status = 'USED' WHERE id = ?", r.id)
}

func (p plain) use(ctx context.Context, q mysqltx.Querier, suffix string, w want) (answer, error) {
	r, err := p.read(ctx, q, suffix, w)
	if err != nil || !r.usable() {
		return refused, err
	}
	return granted, mysqltx.Exec(ctx, q, 1, "UPDATE "+p.table+" SET status = 'USED', order_id = ? WHERE id = ?", w.order, r.id)
}
