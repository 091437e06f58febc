package wallet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Redeem makes the calls of a checkout: Reserve, Confirm, Release, Refund, Read. couponID is that of Reserve. It is
// safe to repeat. After an error the result is unknown, until the call is repeated.
func Redeem(ctx context.Context, db *mysqltx.DB, couponID coupon.CouponID, call Call) (d Decision, err error) {
	for range maxRestarts {
		err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
			d, err = redeem(ctx, tx, couponID, call)
			return err
		})
		if !errors.Is(err, errOrderChanged) {
			break
		}
	}
	return d, mysqltx.Wrap(err, "order %s", call.OrderID)
}

// maxRestarts is how often a call starts again because another call changed its order. Each restart means that the
// other call was successful. More restarts than this are therefore not expected.
const maxRestarts = 10

// errOrderChanged means that another transaction has changed the order since this one read it. It is rolled back.
var errOrderChanged = &coupon.Error{Class: coupon.Infrastructure,
	Err: errors.New("another request changes the same order")}

func redeem(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, call Call) (Decision, error) {
	var f Facts
	var err error
	if call.Verb == Reserve {
		f.Coupon, err = readCoupon(ctx, tx, lockOwnedSQL, couponID, call.User)
	} else {
		f.Coupon, err = readCoupon(ctx, tx, lockOrderedSQL, call.OrderID)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return withoutCoupon(ctx, tx, call)
	case err != nil:
		return Decision{}, fmt.Errorf("lock coupon: %w", err)
	}
	if err := f.read(ctx, tx, call.OrderID); err != nil {
		return Decision{}, err
	}
	if call.Verb != Reserve && f.Order.UserCoupon != f.Coupon.ID {
		return Decision{}, errOrderChanged // between the search for its coupon and the lock
	}
	d := Decide(f, call)
	return d, Write(ctx, tx, f, d, call.Actor)
}

// withoutCoupon is the decision about a coupon that the user does not have, or about an order that never had one. A
// known order comes first: its id was given for something else.
func withoutCoupon(ctx context.Context, q mysqltx.Querier, call Call) (Decision, error) {
	switch call.Verb {
	case Reserve:
		var o Order
		err := q.QueryRowContext(ctx, orderSQL, call.OrderID).Scan(&o.ID, &o.UserCoupon, &o.User, &o.AmountWon,
			&o.DiscountWon, &o.State, &o.ReservedUntil)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return Decision{}, fmt.Errorf("read order: %w", err)
		}
		return Decision{Code: cmp.Or(ofKnownOrder(Facts{Order: o}, call), NotOwned), Order: o}, nil
	case Release:
		return Decision{Code: Nothing}, nil
	default:
		return Decision{Code: OrderNotFound}, nil
	}
}

const (
	orderSQL = "SELECT order_id, user_coupon_id, user_id, amount_won, discount_won, state, reserved_until FROM " +
		"coupon_order WHERE order_id = ?"

	selectCoupon = "SELECT u.id, u.coupon_id, u.user_id, u.status, COALESCE(u.order_id, ''), u.seq, u.expires_at " +
		"FROM user_coupon u WHERE "

	lockOwnedSQL   = selectCoupon + "u.coupon_id = ? AND u.user_id = ? FOR UPDATE"
	lockOrderedSQL = selectCoupon +
		"u.id = (SELECT o.user_coupon_id FROM coupon_order o WHERE o.order_id = ?) FOR UPDATE"
)

func readCoupon(ctx context.Context, q mysqltx.Querier, query string, args ...any) (u UserCoupon, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(&u.ID, &u.Coupon, &u.User, &u.Status, &u.OrderID, &u.Seq,
		&u.ExpiresAt)
	return u, err
}

// factsSQL reads the clock in the statement after the lock, and waits for nothing: its time is not old.
const factsSQL = `
SELECT UTC_TIMESTAMP(6), c.discount_won, c.discount_percent, c.discount_max_won, c.minimum_won,
       COALESCE(o.order_id, ''), COALESCE(o.user_coupon_id, 0), COALESCE(o.user_id, 0), COALESCE(o.amount_won, 0),
       COALESCE(o.discount_won, 0), o.state, o.reserved_until
FROM coupon c LEFT JOIN coupon_order o ON o.order_id IN (?, ?)
WHERE c.id = ?`

// read fills all of f but Coupon, which is locked. orderID is empty for a call without an order.
func (f *Facts) read(ctx context.Context, q mysqltx.Querier, orderID string) error {
	found := 0
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var o Order
		var state sql.Null[coupon.OrderState]
		var until sql.NullTime
		err := rows.Scan(&f.Now, &f.Discount.DiscountWon, &f.Discount.DiscountPercent, &f.Discount.DiscountMaxWon,
			&f.Discount.MinimumWon, &o.ID, &o.UserCoupon, &o.User, &o.AmountWon, &o.DiscountWon, &state, &until)
		found++
		o.State, o.ReservedUntil = state.V, until.Time
		if o.ID != "" && o.ID == orderID {
			f.Order = o
		}
		if o.ID != "" && o.ID == f.Coupon.OrderID {
			f.Holder = o
		}
		return err
	}, factsSQL, orderID, f.Coupon.OrderID, f.Coupon.Coupon)
	if err == nil {
		err = f.check(found)
	}
	return mysqltx.Wrap(err, "read the orders of user_coupon %d", f.Coupon.ID)
}

// check refuses rows that contradict each other: a change would hide what is wrong.
func (f *Facts) check(found int) error {
	var want coupon.OrderState // state of the order that the coupon names
	switch f.Coupon.Status {
	case coupon.CouponReserved:
		want = coupon.OrderReserved
	case coupon.CouponUsed:
		want = coupon.OrderUsed
	default:
	}
	named := want == "" && f.Coupon.OrderID == "" || want != "" && f.Holder.State == want &&
		f.Holder.UserCoupon == f.Coupon.ID
	if found > 0 && named {
		return nil
	}
	return &coupon.Error{Class: coupon.Invariant,
		Err: fmt.Errorf("tables user_coupon and coupon_order contradict each other: run `settle verify --coupon %d`",
			f.Coupon.Coupon)}
}

// LockForOperator locks the row of a user's coupon and reads what Decide needs for the changes of operators. Their
// order is the one that has the coupon. The transaction must hold the lock of the coupon's row. found is false if the
// user does not have the coupon.
func LockForOperator(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID,
	user coupon.UserID) (f Facts, found bool, err error) {
	f.Coupon, err = readCoupon(ctx, tx, lockOwnedSQL, couponID, user)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return f, false, nil
	case err != nil:
		return f, false, fmt.Errorf("lock coupon of user %d: %w", user, err)
	}
	err = f.read(ctx, tx, "")
	if f.Order = f.Holder; err == nil && f.Coupon.Status == coupon.CouponRevoked {
		err = mysqltx.Wrap(tx.QueryRowContext(ctx, freedSeatSQL, f.Coupon.ID).Scan(&f.FreedSeat),
			"read the log of user_coupon %d", f.Coupon.ID)
	}
	return f, true, err
}

const freedSeatSQL = `
SELECT COALESCE((SELECT l.seats > 0 FROM coupon_log l WHERE l.user_coupon_id = ? AND l.kind = 'REVOKED'
    ORDER BY l.seq DESC LIMIT 1), FALSE)`

const (
	insertOrderSQL = `
INSERT INTO coupon_order (order_id, user_coupon_id, user_id, amount_won, discount_won, state, reserved_until) VALUES (?,
    ?, ?, ?, ?, ?, ?)`

	// changeOrderSQL finds no row if another transaction has changed the order.
	changeOrderSQL = `
UPDATE coupon_order SET user_coupon_id = ?, amount_won = ?, discount_won = ?, state = ?, reserved_until = ?
WHERE order_id = ? AND user_coupon_id = ? AND state = ?`

	changeCouponSQL = "UPDATE user_coupon SET status = ?, order_id = ?, seq = ? WHERE id = ? AND seq = ?"

	extendSQL = "UPDATE user_coupon SET expires_at = ? WHERE id = ?"

	insertLogSQL = "INSERT INTO coupon_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, " +
		"expires_at, seats, actor, at) VALUES "
	insertLogRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// Write records a decision. f has the facts that led to it, read in the same transaction.
func Write(ctx context.Context, tx *sql.Tx, f Facts, d Decision, actor string) error {
	if len(d.Entries) == 0 {
		return nil
	}
	for _, change := range []struct{ was, is Order }{{f.Holder, d.Lost}, {f.Order, d.Order}} {
		if err := writeOrder(ctx, tx, change.was, change.is); err != nil {
			return err
		}
	}
	holder := sql.NullString{String: d.Coupon.OrderID, Valid: d.Coupon.OrderID != ""}
	if err := mysqltx.Exec(ctx, tx, 1, changeCouponSQL, d.Coupon.Status, holder, d.Coupon.Seq, d.Coupon.ID,
		f.Coupon.Seq); err != nil {
		return fmt.Errorf("change user_coupon %d: %w", d.Coupon.ID, err)
	}
	if !d.Coupon.ExpiresAt.Equal(f.Coupon.ExpiresAt) {
		if err := mysqltx.Exec(ctx, tx, 1, extendSQL, d.Coupon.ExpiresAt, d.Coupon.ID); err != nil {
			return fmt.Errorf("extend user_coupon %d: %w", d.Coupon.ID, err)
		}
	}
	return Log(ctx, tx, d.Coupon.ID, f.Coupon.Seq, f.Now, actor, d.Entries...)
}

func writeOrder(ctx context.Context, tx *sql.Tx, was, is Order) error {
	var err error
	switch {
	case was == is || is.ID == "":
		return nil
	case was.ID == "":
		err = mysqltx.Exec(ctx, tx, 1, insertOrderSQL, is.ID, is.UserCoupon, is.User, is.AmountWon, is.DiscountWon,
			is.State, is.ReservedUntil)
		if mysqltx.IsDuplicate(err) {
			return errOrderChanged
		}
	default:
		var n int
		n, err = mysqltx.Affected(tx.ExecContext(ctx, changeOrderSQL, is.UserCoupon, is.AmountWon, is.DiscountWon,
			is.State, is.ReservedUntil, is.ID, was.UserCoupon, was.State))
		if err == nil && n == 0 {
			return errOrderChanged
		}
	}
	return mysqltx.Wrap(err, "write order %s", is.ID)
}

// Log appends rows to coupon_log, numbered from after + 1.
func Log(ctx context.Context, tx *sql.Tx, id coupon.UserCouponID, after uint32, at time.Time, actor string,
	entries ...Entry) error {
	var args []any
	for i, e := range entries {
		args = append(args, logRow(id, after+uint32(i)+1, at, actor, e)...)
	}
	err := mysqltx.Exec(ctx, tx, len(entries), insertLogSQL+mysqltx.List(insertLogRow, len(entries)), args...)
	return mysqltx.Wrap(err, "log user_coupon %d", id)
}

// logRow returns the values of insertLogRow.
func logRow(id coupon.UserCouponID, seq uint32, at time.Time, actor string, e Entry) []any {
	var order, amount, discount, expires any
	if e.OrderID != "" {
		order, amount, discount = e.OrderID, e.AmountWon, e.DiscountWon
	}
	if !e.ExpiresAt.IsZero() {
		expires = e.ExpiresAt.UTC()
	}
	return []any{id, seq, e.Kind, order, amount, discount, expires, e.Seats, actor, at}
}
