package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// This file checks invariants 7 to 9. wallet-api changes issued coupons at any time, without the lock of the coupon's row. Each
// query is therefore one statement, which reads one state of the database.

// issuedLog is an issued coupon with its rows of coupon_log.
type issuedLog struct {
	id      coupon.UserCouponID
	status  coupon.UserCouponStatus
	order   string // the order that has the coupon
	seq     uint32
	expires sql.NullTime
	byHand  bool
	holder  loggedOrder // the row of coupon_order that order names
	entries []logEntry
}

type loggedOrder struct {
	state            sql.NullString // NULL: there is no such order
	of               coupon.UserCouponID
	amount, discount int64
}

type logEntry struct {
	seq              uint32
	kind             coupon.LogKind
	order            string
	amount, discount int64
	expires          sql.NullTime
}

// logsSQL reads the issued coupons of one coupon that were changed after issuing. The rows of one
// issued coupon follow each other, in any order of seq.
const logsSQL = `
SELECT u.id, u.status, COALESCE(u.order_id, ''), u.seq, u.expires_at, u.run_id IS NULL,
       o.state, COALESCE(o.user_coupon_id, 0), COALESCE(o.amount_won, 0), COALESCE(o.discount_won, 0),
       COALESCE(l.seq, 0), COALESCE(l.kind, ''), COALESCE(l.order_id, ''), COALESCE(l.amount_won, 0), COALESCE(l.discount_won, 0), l.expires_at
FROM user_coupon u
LEFT JOIN coupon_log l ON l.user_coupon_id = u.id
LEFT JOIN coupon_order o ON o.order_id = u.order_id
WHERE u.coupon_id = ? AND (l.user_coupon_id IS NOT NULL OR u.seq > 0 OR u.status <> 'ISSUED' OR u.order_id IS NOT NULL)
ORDER BY u.user_id, u.id`

// checkLogs replays coupon_log and compares the result with user_coupon and coupon_order.
func (c *check) checkLogs(ctx context.Context) error {
	var found logFindings
	var one issuedLog
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var next issuedLog
		var e logEntry
		var kind string
		err := rows.Scan(&next.id, &next.status, &next.order, &next.seq, &next.expires, &next.byHand,
			&next.holder.state, &next.holder.of, &next.holder.amount, &next.holder.discount,
			&e.seq, &kind, &e.order, &e.amount, &e.discount, &e.expires)
		if next.id != one.id {
			found.judge(one)
			one = next
		}
		if e.kind = coupon.LogKind(kind); kind != "" {
			one.entries = append(one.entries, e)
		}
		return err
	}, logsSQL, c.Coupon)
	if err != nil {
		return fmt.Errorf("read coupon_log: %w", err)
	}
	found.judge(one)
	if err := c.checkOrders(ctx, &found); err != nil {
		return err
	}
	found.report(c)
	c.Uses = found.uses
	return nil
}

// ordersSQL reads the orders of one coupon, each with its last log row. The row may belong to another issued coupon, which the
// order had before.
const ordersSQL = `
SELECT u.id, u.user_id, o.user_id, COALESCE(u.order_id = o.order_id, FALSE), o.state, o.amount_won, o.discount_won,
       COALESCE(l.kind, ''), COALESCE(l.amount_won, 0), COALESCE(l.discount_won, 0)
FROM user_coupon u
JOIN coupon_order o ON o.user_coupon_id = u.id
LEFT JOIN coupon_log l ON l.user_coupon_id = u.id AND l.seq = (
	SELECT MAX(m.seq) FROM coupon_log m WHERE m.user_coupon_id = u.id AND m.order_id = o.order_id)
WHERE u.coupon_id = ?`

func (c *check) checkOrders(ctx context.Context, found *logFindings) error {
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var id coupon.UserCouponID
		var holder, buyer coupon.UserID
		var named bool
		var state, kind string
		var amount, discount, loggedAmount, loggedDiscount int64
		if err := rows.Scan(&id, &holder, &buyer, &named, &state, &amount, &discount, &kind, &loggedAmount, &loggedDiscount); err != nil {
			return err
		}
		found.uses.Orders++
		has := state == string(coupon.OrderReserved) || state == string(coupon.OrderUsed)
		if has != named || holder != buyer {
			found.mismatch.add(id)
		}
		if kind != state || amount != loggedAmount || discount != loggedDiscount || discount < 0 || discount > amount {
			found.wrong.add(id)
		}
		return nil
	}, ordersSQL, c.Coupon)
	return mysqltx.Wrap(err, "read coupon_order")
}

// logFindings counts issued coupons with a fault; one issued coupon counts once for each kind.
type logFindings struct {
	used, mismatch, missing, wrong logFault

	uses Uses
}

type logFault struct {
	n           int64
	first, last coupon.UserCouponID
}

func (f *logFault) add(id coupon.UserCouponID) {
	if f.last == id {
		return
	}
	f.n, f.first, f.last = f.n+1, cmp.Or(f.first, id), id
}

func (f *logFindings) report(c *check) {
	c.findAny(7, UsedTwice, f.used.n, "issued coupons that were used another number of times than their status says: %d; the first is user_coupon %d", f.used.first)
	c.findAny(8, OrderMismatch, f.mismatch.n, "issued coupons about which user_coupon and coupon_order disagree: %d; the first is user_coupon %d", f.mismatch.first)
	c.findAny(9, LogMissing, f.missing.n, "issued coupons with missing rows in coupon_log, or with more rows than user_coupon.seq says: %d; the first is user_coupon %d", f.missing.first)
	c.findAny(9, LogWrong, f.wrong.n, "issued coupons that do not follow from coupon_log: %d; the first is user_coupon %d", f.wrong.first)
}

func (f *logFindings) judge(u issuedLog) {
	if u.id == 0 {
		return
	}
	f.uses.LogRows += int64(len(u.entries))
	if u.status == coupon.CouponUsed {
		f.uses.Used++
	}
	slices.SortFunc(u.entries, func(a, b logEntry) int { return cmp.Compare(a.seq, b.seq) })
	used, gapless := 0, uint32(len(u.entries)) == u.seq
	for i, e := range u.entries {
		gapless = gapless && e.seq == uint32(i)+1
		switch e.kind {
		case coupon.LogUsed:
			used++
		case coupon.LogRefunded:
			used--
		default:
		}
	}
	if (used == 1) != (u.status == coupon.CouponUsed) || used != 0 && used != 1 {
		f.used.add(u.id)
	}
	if !u.agrees() {
		f.mismatch.add(u.id)
	}
	if !gapless {
		f.missing.add(u.id)
	} else if !u.follows() {
		f.wrong.add(u.id)
	}
}

// agrees reports whether coupon_order has the order that the issued coupon names, in the same state.
func (u issuedLog) agrees() bool {
	switch u.status {
	case coupon.CouponReserved, coupon.CouponUsed:
		return u.order != "" && u.holder.of == u.id && u.holder.state.String == string(u.status)
	default:
		return u.order == ""
	}
}

// follows replays the log.
func (u issuedLog) follows() bool {
	now, order, expires, reserved := coupon.CouponIssued, "", u.expires, logEntry{}
	for i, e := range u.entries {
		from, to := step(e.kind)
		if from != "" && from != now || e.kind == coupon.LogGranted && (i > 0 || !u.byHand) {
			return false
		}
		switch e.kind {
		case coupon.LogReserved:
			if e.order == "" || e.discount < 0 || e.discount > e.amount {
				return false
			}
			order, reserved = e.order, e
		case coupon.LogUsed, coupon.LogReleased, coupon.LogRefunded:
			if e.order != order || e.amount != reserved.amount || e.discount != reserved.discount {
				return false
			}
			if e.kind != coupon.LogUsed {
				order = ""
			}
		case coupon.LogGranted, coupon.LogExtended:
			if !e.expires.Valid || e.kind == coupon.LogExtended && (now == coupon.CouponUsed || now == coupon.CouponRevoked) {
				return false
			}
			expires = e.expires
		default:
		}
		if to != "" {
			now = to
		}
	}
	return now == u.status && order == u.order && expires.Valid == u.expires.Valid && expires.Time.Equal(u.expires.Time)
}

// step returns the status that a log row needs before it, and the status after it; "": any, and the same.
func step(kind coupon.LogKind) (from, to coupon.UserCouponStatus) {
	switch kind {
	case coupon.LogReserved:
		return coupon.CouponIssued, coupon.CouponReserved
	case coupon.LogUsed:
		return coupon.CouponReserved, coupon.CouponUsed
	case coupon.LogReleased:
		return coupon.CouponReserved, coupon.CouponIssued
	case coupon.LogRefunded:
		return coupon.CouponUsed, coupon.CouponIssued
	case coupon.LogRevoked:
		return coupon.CouponIssued, coupon.CouponRevoked
	case coupon.LogReissued:
		return coupon.CouponRevoked, coupon.CouponIssued
	default:
		return "", ""
	}
}
