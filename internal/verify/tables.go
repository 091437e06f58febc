package verify

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Table is how much of a table there is.
type Table struct {
	Name   string
	Bytes  int64        // with its indexes, as MySQL estimates it
	Oldest sql.NullTime // when the first row was written; of coupons, when the first one closed. NULL: not known
}

const sizesSQL = `
SELECT TABLE_NAME, COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME`

// oldestRows read the first row by an index. Rows of an outcome and of a record are those of the oldest coupon and run.
var oldestRows = map[string]string{
	"coupon":      "SELECT MIN(apply_closes_at) FROM coupon",
	"user_coupon": "SELECT issued_at FROM user_coupon ORDER BY id LIMIT 1",
	"coupon_log":  "SELECT at FROM coupon_log ORDER BY id LIMIT 1",
	"application_outcome": "SELECT recorded_at FROM application_outcome " +
		"ORDER BY coupon_id, user_id, applied_at LIMIT 1",
	"settlement_run": "SELECT started_at FROM settlement_run ORDER BY id LIMIT 1",
	"settlement":     "SELECT settled_at FROM settlement ORDER BY run_id, coupon_id LIMIT 1",
	"audit_event":    "SELECT at FROM audit_event ORDER BY id LIMIT 1",
	"approval":       "SELECT created_at FROM approval ORDER BY id LIMIT 1",
}

// Tables returns our tables, and others in the same database.
func Tables(ctx context.Context, db *sql.DB) ([]Table, error) {
	all, err := mysqltx.Collect(ctx, db, func(t *Table) []any { return []any{&t.Name, &t.Bytes} }, sizesSQL)
	if err != nil {
		return nil, mysqltx.Wrap(err, "read the sizes of tables")
	}
	for i := range all {
		query := oldestRows[all[i].Name]
		if query == "" {
			continue
		}
		if err := db.QueryRowContext(ctx, query).Scan(&all[i].Oldest); err != nil && err != sql.ErrNoRows {
			return nil, mysqltx.Wrap(err, "read the oldest row of table %s", all[i].Name)
		}
	}
	return all, nil
}

// KeptOpen is a coupon that closed long ago and is not finalised: somebody is under review, or a run holds it.
type KeptOpen struct {
	ID       coupon.CouponID
	ClosesAt time.Time
}

const (
	maxKeptOpen = 100
	keptOpenSQL = `
SELECT id, apply_closes_at FROM coupon FORCE INDEX (coupon_due)
WHERE finalised_at IS NULL AND apply_closes_at < ? ORDER BY apply_closes_at, id LIMIT ?`
)

// ListKeptOpen lists the first of these coupons.
func ListKeptOpen(ctx context.Context, db *sql.DB, now time.Time) ([]KeptOpen, error) {
	all, err := mysqltx.Collect(ctx, db, func(k *KeptOpen) []any { return []any{&k.ID, &k.ClosesAt} }, keptOpenSQL,
		now.Add(-coupon.KeptOpenAfter).UTC(), maxKeptOpen)
	return all, mysqltx.Wrap(err, "list coupons that are kept open")
}
