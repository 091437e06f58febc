package verify

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// This file checks invariants 7 to 9. wallet-api changes issued coupons at any time, without the lock of the coupon's
// row. Each query is therefore one statement, which reads one state of the database.

// issuedLog is an issued coupon with its rows of coupon_log.
type issuedLog struct {
	id      coupon.UserCouponID
	user    coupon.UserID
	status  coupon.UserCouponStatus
	order   string // the order that has the coupon
	seq     uint32
	settled time.Time // when its run issued it
	issued  time.Time
	expires time.Time
	byHand  bool
	holder  storedOrder // the row of coupon_order that order names
	entries []logEntry
}

type storedOrder struct {
	state sql.NullString // NULL: there is no such order
	of    coupon.UserCouponID
}

func (o storedOrder) has() bool {
	return o.state.String == string(coupon.OrderReserved) || o.state.String == string(coupon.OrderUsed)
}

type logEntry struct {
	seq              uint32
	kind             coupon.LogKind
	order            string
	amount, discount int64
	expires          sql.NullTime
	seats            int // by how much the change moved total_quantity
	at               time.Time

	stored                       storedOrder // the row of coupon_order that order names
	buyer                        coupon.UserID
	until                        sql.NullTime
	storedAmount, storedDiscount int64
}

// logsSQL, with changedSQL, reads the issued coupons of one coupon that were changed after issuing; with namedSQL,
// those with the given ids. The rows of one issued coupon follow each other, in any order of seq.
const (
	logsSQL = `
SELECT u.id, u.user_id, u.status, COALESCE(u.order_id, ''), u.seq, COALESCE(` + settledAt + `, u.issued_at),
    u.issued_at, u.expires_at,
       u.run_id IS NULL, h.state, COALESCE(h.user_coupon_id, 0),
       COALESCE(l.seq, 0), COALESCE(l.kind, ''), COALESCE(l.order_id, ''), COALESCE(l.amount_won, 0),
         COALESCE(l.discount_won, 0), l.expires_at,
       COALESCE(l.seats, 0), COALESCE(l.at, u.issued_at), o.reserved_until,
       o.state, COALESCE(o.user_coupon_id, 0), COALESCE(o.user_id, 0), COALESCE(o.amount_won, 0),
         COALESCE(o.discount_won, 0)
FROM user_coupon u
LEFT JOIN settlement_run r ON r.id = u.run_id
LEFT JOIN coupon_log l ON l.user_coupon_id = u.id
LEFT JOIN coupon_order h ON h.order_id = u.order_id
LEFT JOIN coupon_order o ON o.order_id = l.order_id
WHERE u.coupon_id = ? AND `
	changedSQL = `(l.user_coupon_id IS NOT NULL OR u.seq > 0 OR u.status <> 'ISSUED' OR u.order_id IS NOT NULL)
ORDER BY u.user_id, u.id`
	namedSQL = `u.id IN (SELECT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j)
ORDER BY u.user_id, u.id`
)

// checkLogs replays coupon_log and compares the result with user_coupon and coupon_order.
func (c *check) checkLogs(ctx context.Context) error {
	found := logFindings{discount: c.row.Discount}
	err := replay(ctx, c.tx, func(one issuedLog) {
		found.judge(one)
		if !one.validAsIssued(c.row.ValidityDays) {
			c.invalid++
		}
	}, changedSQL, c.Coupon)
	if err != nil {
		return err
	}
	found.report(c)
	c.Uses = found.uses
	return c.checkOrders(ctx)
}

// replay visits issued coupons with their rows of coupon_log.
func replay(ctx context.Context, q mysqltx.Querier, visit func(issuedLog), which string, args ...any) error {
	var one issuedLog
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var next issuedLog
		var e logEntry
		var kind string
		err := rows.Scan(&next.id, &next.user, &next.status, &next.order, &next.seq, &next.settled, &next.issued,
			&next.expires,
			&next.byHand, &next.holder.state, &next.holder.of, &e.seq, &kind, &e.order, &e.amount, &e.discount,
			&e.expires,
			&e.seats, &e.at, &e.until,
			&e.stored.state, &e.stored.of, &e.buyer, &e.storedAmount, &e.storedDiscount)
		if next.id != one.id {
			visit(one)
			one = next
		}
		if e.kind = coupon.LogKind(kind); kind != "" {
			one.entries = append(one.entries, e)
		}
		return err
	}, logsSQL+which, args...)
	if err != nil {
		return fmt.Errorf("read coupon_log: %w", err)
	}
	visit(one)
	return nil
}

// validAsIssued reports whether an issued coupon that was changed has the times that its run gave it.
func (u issuedLog) validAsIssued(days int) bool {
	return u.seq == 0 || u.byHand || u.issued.Equal(u.settled) && (u.extended() || endsDay(u.issued, u.expires, days))
}

const (
	ordersOf    = "FROM user_coupon u JOIN coupon_order o ON o.user_coupon_id = u.id WHERE u.coupon_id = ?"
	ordersSQL   = "SELECT COUNT(*) " + ordersOf
	unloggedSQL = "SELECT COUNT(*), COALESCE(MIN(u.id), 0) " + ordersOf + `
AND NOT EXISTS (SELECT 1 FROM coupon_log l WHERE l.user_coupon_id = u.id AND l.order_id = o.order_id)`
)

// checkOrders finds the orders that coupon_log does not name. checkLogs compares the others.
func (c *check) checkOrders(ctx context.Context) (err error) {
	if c.Uses.Orders, err = c.number(ctx, ordersSQL, c.Coupon); err != nil || c.Uses.Orders == 0 {
		return mysqltx.Wrap(err, "count orders")
	}
	var n int64
	var first coupon.UserCouponID
	err = c.tx.QueryRowContext(ctx, unloggedSQL, c.Coupon).Scan(&n, &first)
	c.findAny(9, LogWrong, n, "orders without a row in coupon_log: %d; the first has user_coupon %d", first)
	return mysqltx.Wrap(err, "read coupon_order")
}

// logFindings counts issued coupons with a fault; one issued coupon counts once for each kind.
type logFindings struct {
	used, mismatch, missing, wrong logFault

	discount coupon.Discount
	uses     Uses
}

type logFault struct {
	n     int64
	first coupon.UserCouponID
}

func (f *logFault) add(id coupon.UserCouponID) { f.n, f.first = f.n+1, cmp.Or(f.first, id) }

func (f *logFindings) report(c *check) {
	c.findAny(7, UsedTwice, f.used.n,
		"issued coupons that were used another number of times than their status says: %d; the first is user_coupon %d",
		f.used.first)
	c.findAny(8, OrderMismatch, f.mismatch.n,
		"issued coupons about which user_coupon and coupon_order disagree: %d; the first is user_coupon %d",
		f.mismatch.first)
	c.findAny(9, LogMissing, f.missing.n,
		"issued coupons with missing rows in coupon_log, or with more rows than user_coupon.seq says: %d; the first "+
			"is user_coupon %d", f.missing.first)
	c.findAny(9, LogWrong, f.wrong.n,
		"issued coupons that do not follow from coupon_log: %d; the first is user_coupon %d", f.wrong.first)
}

func (f *logFindings) any() bool { return f.used.n+f.mismatch.n+f.missing.n+f.wrong.n > 0 }

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
	agree, logged := u.compareOrders()
	if !agree || !u.agrees() {
		f.mismatch.add(u.id)
	}
	if !gapless {
		f.missing.add(u.id)
	}
	if !logged || gapless && !u.follows(f.discount) {
		f.wrong.add(u.id)
	}
}

// compareOrders compares each order that the log names with its row of coupon_order. agree: the row exists, and tells
// who has the coupon as user_coupon does. logged: its state and amounts are those of its last log row.
func (u issuedLog) compareOrders() (agree, logged bool) {
	agree, logged = true, true
	seen := map[string]bool{"": true}
	for _, e := range slices.Backward(u.entries) {
		if seen[e.order] {
			continue
		}
		seen[e.order] = true
		switch {
		case e.stored.of == u.id:
			agree = agree && e.buyer == u.user && e.stored.has() == (e.order == u.order)
			logged = logged && e.stored.state.String == string(e.kind) && e.storedAmount == e.amount &&
				e.storedDiscount == e.discount &&
				(e.kind != coupon.LogReserved || e.until.Valid && !e.until.Time.After(e.at.Add(maxReserved)))
		case !e.stored.state.Valid, e.kind != coupon.LogReleased: // only a released order gets another coupon
			agree = false
		default:
		}
	}
	return agree, logged
}

func (u issuedLog) extended() bool {
	return slices.ContainsFunc(u.entries, func(e logEntry) bool { return e.kind == coupon.LogExtended })
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

// maxReserved is the longest life of a reservation: the highest RESERVE_TTL.
const maxReserved = 24 * time.Hour

// allowed reports whether a reservation was made while the coupon was valid, with the discount that the coupon gives.
func (e logEntry) allowed(of coupon.Discount, valid bool) bool {
	want := of.DiscountWon
	if of.DiscountPercent > 0 {
		want = min(e.amount*of.DiscountPercent/100, of.DiscountMaxWon)
	}
	return valid && e.amount >= of.MinimumWon && e.discount >= 0 && e.discount == min(want, e.amount)
}

// follows replays the log.
func (u issuedLog) follows(of coupon.Discount) bool {
	now, order, expires, reserved, freed := coupon.CouponIssued, "", u.expires, logEntry{}, 0
	known := !u.extended() // whether the end of validity is known; before the first extension it is not
	for i, e := range u.entries {
		from, to := step(e.kind)
		if from != "" && from != now || e.kind == coupon.LogGranted && (i > 0 || !u.byHand) || !e.complete() {
			return false
		}
		switch e.kind {
		case coupon.LogReserved:
			if !e.allowed(of, !known || e.at.Before(expires)) {
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
			if e.kind == coupon.LogExtended && (now == coupon.CouponUsed || now == coupon.CouponRevoked) {
				return false
			}
			expires, known = e.expires.Time, true
		case coupon.LogRevoked:
			freed = e.seats
		case coupon.LogReissued:
			if e.seats != -freed {
				return false
			}
		default:
		}
		if to != "" {
			now = to
		}
	}
	return now == u.status && order == u.order && expires.Equal(u.expires)
}

// complete reports whether a log row has an order, an end of validity and seats exactly if its kind has them.
func (e logEntry) complete() bool {
	switch e.kind {
	case coupon.LogGranted:
		return e.order == "" && e.expires.Valid && e.seats == 1
	case coupon.LogExtended:
		return e.order == "" && e.expires.Valid && e.seats == 0
	case coupon.LogRevoked:
		return e.order == "" && !e.expires.Valid && (e.seats == 0 || e.seats == 1)
	case coupon.LogReissued:
		return e.order == "" && !e.expires.Valid
	default:
		return e.order != "" && !e.expires.Valid && e.seats == 0
	}
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
