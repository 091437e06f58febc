package jajeongtest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// History is a coupon that is repeated in the nights after its own, with all rows that it has, except for audit events:
// their chain names the coupon.
type History struct {
	Of       coupon.CouponID
	Nights   int // one run settles the coupons of a night
	PerNight int // coupons
	Before   int // how many nights were added before
}

// AddFinished adds active users and a finalised coupon of a day in 2020, for which they applied in this order, a second
// after another, and which was settled at its end.
func (d *Deployment) AddFinished(seats int, users ...coupon.UserID) coupon.CouponID {
	d.T.Helper()
	return d.AddFinishedBetween(seats, time.Date(2020, 1, 1, 15, 0, 0, 0, time.UTC), 24*time.Hour, users...)
}

// AddFinishedBetween is AddFinished with a window of its own.
func (d *Deployment) AddFinishedBetween(seats int, opens time.Time, open time.Duration,
	users ...coupon.UserID) coupon.CouponID {
	d.T.Helper()
	d.AddUsers(users...)
	closes := opens.Add(open)
	id := d.AddCouponBetween(seats, opens, closes)
	for i, user := range users {
		d.ApplyAt(id, user.Member(), opens.Add(time.Duration(i)*time.Second))
	}
	order := Manual(id)
	order.Cutoff, order.CutoffNow = closes, false
	report, err := d.Settle(order)
	d.requireSuccess(report, err)
	d.Exec("UPDATE coupon SET finalised_at = apply_closes_at WHERE id = ?", id)
	require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Key("state", id), d.Key("issued", id)).Err())
	return id
}

// copied are the tables of a history, and which of their rows belong to coupon ?.
var copied = []struct{ table, rows string }{
	{"coupon", "t.id = ?"},
	{"settled", "t.coupon_id = ?"},
	{"settlement_run", "t.id IN (SELECT run_id FROM settlement WHERE coupon_id = ?)"},
	{"settlement", "t.coupon_id = ?"},
	{"run_coupon", "t.coupon_id = ?"},
	{"application_outcome", "t.coupon_id = ?"},
	{"seal", "t.coupon_id = ?"},
	{"user_application", "t.coupon_id = ?"},
	{"user_coupon", "t.coupon_id = ?"},
	{"coupon_log", "t.user_coupon_id IN (SELECT id FROM user_coupon WHERE coupon_id = ?)"},
	{"coupon_order", "t.user_coupon_id IN (SELECT id FROM user_coupon WHERE coupon_id = ?)"},
}

// numbersSQL is a table of so many numbers as the second ? says, after that of the first. It asks for less recursion
// than servers allow by default.
const numbersSQL = `WITH RECURSIVE few (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM few WHERE i < 499),
	numbers (n) AS (SELECT a.i * 500 + b.i + 1 + ? FROM few a CROSS JOIN few b WHERE a.i * 500 + b.i < ?)`

// AddHistory writes the copies, a table in one statement. Their ids follow those of the coupon, which must be the last
// one that was added and settled.
func (d *Deployment) AddHistory(h History) {
	d.T.Helper()
	columns := map[string][]string{}
	require.NoError(d.T, mysqltx.Each(d.T.Context(), d.DB, func(rows *sql.Rows) error {
		var table, column string
		err := rows.Scan(&table, &column)
		columns[table] = append(columns[table], column)
		return err
	}, columnsSQL))
	number := func(of string) int64 {
		d.T.Helper()
		return d.Number("SELECT COALESCE(MAX(id) - MIN(id) + 1, 0) FROM "+of, h.Of)
	}
	issued := number("user_coupon WHERE coupon_id = ?")
	logged := number("coupon_log WHERE user_coupon_id IN (SELECT id FROM user_coupon WHERE coupon_id = ?)")
	night := fmt.Sprintf("((n.n - 1) DIV %d + 1)", h.PerNight)
	for _, c := range copied {
		values := make([]string, len(columns[c.table]))
		for i, column := range columns[c.table] {
			values[i] = copyOf(c.table, column, night, issued, logged)
		}
		ignored := ""
		if c.table == "settlement_run" { // the copies of a night have one run
			ignored = "IGNORE "
		}
		d.Exec("INSERT "+ignored+"INTO "+c.table+" (`"+strings.Join(columns[c.table], "`, `")+"`) "+numbersSQL+
			" SELECT "+strings.Join(values, ", ")+" FROM "+c.table+" t CROSS JOIN numbers n WHERE "+c.rows,
			h.Before*h.PerNight, h.Nights*h.PerNight, h.Of)
		d.Analyze(c.table)
	}
}

// Analyze lets MySQL count a table that has just grown, as it does by itself some seconds later.
func (d *Deployment) Analyze(table string) {
	d.T.Helper()
	ignore := func(*sql.Rows) error { return nil }
	require.NoError(d.T, mysqltx.Each(d.T.Context(), d.DB, ignore, "ANALYZE TABLE "+table))
}

// copyOf is the value of a column in copy n of a row.
func copyOf(table, column, night string, issued, logged int64) string {
	later := "t.`" + column + "` + INTERVAL " + night + " DAY"
	switch column {
	case "coupon_id":
		return "t.coupon_id + n.n"
	case "run_id":
		return "t.run_id + " + night
	case "user_coupon_id", "first_user_coupon_id":
		return fmt.Sprintf("t.%s + n.n * %d", column, issued)
	case "order_id":
		return "CONCAT(t.order_id, '-', n.n)"
	case "nonce":
		return "UNHEX(LEFT(SHA2(CONCAT(HEX(t.nonce), " + night + "), 256), 32))"
	case "first_arrival", "last_arrival", "settled_up_to", "last_issued":
		return "t." + column + " + " + night + " * 86400000000"
	case "id":
		return map[string]string{"coupon": "t.id + n.n", "settlement_run": "t.id + " + night,
			"user_coupon": fmt.Sprintf("t.id + n.n * %d", issued),
			"coupon_log":  fmt.Sprintf("t.id + n.n * %d", logged)}[table]
	case "at", "cutoff", "reserved_until":
		return later
	}
	if strings.HasSuffix(column, "_at") {
		return later
	}
	return "t.`" + column + "`"
}

// Cost is how much work MySQL has with a session.
type Cost struct{ Statements, Rows int64 }

// CostOf is the cost of what a function does on a pool of one connection.
func (d *Deployment) CostOf(do func(db *sql.DB)) (c Cost) {
	d.T.Helper()
	db := d.open(d.Admin.MySQLDSN)
	db.SetMaxOpenConns(1)
	before := costNow(d.T, db)
	do(db)
	after := costNow(d.T, db)
	return Cost{after.Statements - before.Statements, after.Rows - before.Rows}
}

// costNow is the cost of the session until now.
func costNow(t testing.TB, db *sql.DB) (c Cost) {
	t.Helper()
	require.NoError(t, mysqltx.Each(context.WithoutCancel(t.Context()), db, func(rows *sql.Rows) error {
		var name string
		var n int64
		err := rows.Scan(&name, &n)
		if name == "Questions" {
			c.Statements += n
		} else {
			c.Rows += n
		}
		return err
	}, "SHOW SESSION STATUS WHERE Variable_name = 'Questions' OR Variable_name LIKE 'Handler_read%'"))
	return c
}

// RequireAsCheap demands that a read costs about the same with a history of a tenth and with the whole.
func RequireAsCheap(t testing.TB, name string, tenth, whole Cost) {
	t.Helper()
	t.Logf("%s: %d statements and %d rows; with ten times the history %d and %d", name, tenth.Statements, tenth.Rows,
		whole.Statements, whole.Rows)
	require.Equal(t, tenth.Statements, whole.Statements, "statements of %s", name)
	require.LessOrEqual(t, whole.Rows, tenth.Rows+tenth.Rows/5+20, "rows that %s reads", name)
}
