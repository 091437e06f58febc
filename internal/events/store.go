package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// settlement names a settlement that issued coupons.
type settlement struct {
	run    coupon.RunID
	coupon coupon.CouponID
}

// cursor is the row of event_relay: how far the relay came. If its settlement is zero, none is published in part.
type cursor struct {
	settlement
	position int                 // the last seat whose event is published
	left     int                 // number of events of the settlement that are not published
	row      coupon.UserCouponID // no row with an unpublished event has a lower id
	log      uint64              // the last id of coupon_log before the events were turned on
	Place                        // place of the last event that is published; without a server, it is not known yet
	on       bool                // the events are turned on
}

const lockSQL = `
SELECT COALESCE(run_id, 0), COALESCE(coupon_id, 0), position, unpublished, row_id, log_id, server, last_event,
    from_at IS NOT NULL
FROM event_relay WHERE sink = ? FOR UPDATE NOWAIT`

// lockCursor locks the row of a sink. mysqltx.IsLockWait reports its error if another relay works.
func lockCursor(ctx context.Context, tx *sql.Tx, sink string) (c cursor, found bool, err error) {
	err = tx.QueryRowContext(ctx, lockSQL, sink).Scan(&c.run, &c.coupon, &c.position, &c.left, &c.row, &c.log,
		&c.Server, &c.Last, &c.on)
	if errors.Is(err, sql.ErrNoRows) {
		return c, false, nil
	}
	return c, err == nil, mysqltx.Wrap(err, "lock the relay of sink %s", sink)
}

const moveSQL = `
UPDATE event_relay SET run_id = NULLIF(?, 0), coupon_id = NULLIF(?, 0), position = ?, unpublished = ?, row_id = ?,
    server = ?,
last_event = ? WHERE sink = ?`

func (c cursor) write(ctx context.Context, tx *sql.Tx, sink string) error {
	err := mysqltx.Exec(ctx, tx, 1, moveSQL, c.run, c.coupon, c.position, c.left, c.row, c.Server, c.Last, sink)
	return mysqltx.Wrap(err, "write how far the relay of sink %s came", sink)
}

// The index is named because a plan that follows another one would also read what is published.
const unpublishedSQL = `
SELECT run_id, coupon_id, first_user_coupon_id, issued_count FROM settlement FORCE INDEX (settlement_published)
WHERE published_at IS NULL AND first_user_coupon_id > 0 ORDER BY first_user_coupon_id LIMIT ?`

// unpublished returns the next settlements, as cursors before their first event. For one coupon, the order of their
// rows is the order of their commits.
func unpublished(ctx context.Context, q mysqltx.Querier, limit int) ([]cursor, error) {
	fields := func(c *cursor) []any { return []any{&c.run, &c.coupon, &c.row, &c.left} }
	all, err := mysqltx.Collect(ctx, q, fields, unpublishedSQL, limit)
	return all, mysqltx.Wrap(err, "read unpublished settlements")
}

const publishedSQL = `
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (run_id BIGINT UNSIGNED PATH '$[0]', coupon_id BIGINT UNSIGNED PATH '$[1]')) AS j
STRAIGHT_JOIN settlement s ON s.run_id = j.run_id AND s.coupon_id = j.coupon_id
SET s.published_at = UTC_TIMESTAMP(6)`

// markPublished marks settlements. `settle purge` may have deleted some meanwhile.
func markPublished(ctx context.Context, tx *sql.Tx, done []settlement) error {
	keys := make([][2]uint64, len(done))
	for i, s := range done {
		keys[i] = [2]uint64{uint64(s.run), uint64(s.coupon)}
	}
	return mark(ctx, tx, publishedSQL, keys)
}

func (i *Issued) fields() []any {
	return []any{&i.UserCoupon, &i.User, &i.Position, &i.AppliedAt, &i.IssuedAt, &i.ExpiresAt, &i.Coupon, &i.Run}
}

// By another index, a plan would read all coupons of a campaign to find the few of a run.
const winnersSQL = `
SELECT id, user_id, position, applied_at, issued_at, expires_at, coupon_id, run_id FROM user_coupon
    FORCE INDEX (PRIMARY)
WHERE id >= ? AND coupon_id = ? AND run_id = ? AND position > ? ORDER BY id LIMIT ?`

// winners reads the coupons of a settlement after a position, from an id on, in the order of their ids.
func (s settlement) winners(ctx context.Context, q mysqltx.Querier, from coupon.UserCouponID, after,
	limit int) ([]Issued, error) {
	rows, err := mysqltx.Collect(ctx, q, (*Issued).fields, winnersSQL, from, s.coupon, s.run, after, limit)
	return rows, mysqltx.Wrap(err, "read what run %d issued of coupon %d", s.run, s.coupon)
}

// change is a row of coupon_log.
type change struct {
	Changed
	id     uint64
	kind   coupon.LogKind
	seq    int
	at     time.Time
	behind bool // the event of its issue is not published yet
}

// columnsOfChange are in the order of fields, without behind.
const columnsOfChange = `
SELECT l.id, l.user_coupon_id, l.seq, l.kind, l.order_id, l.amount_won, l.discount_won, l.expires_at, l.at, u.coupon_id,
    u.user_id`

func (c *change) fields() []any {
	return []any{&c.id, &c.UserCoupon, &c.seq, &c.kind, &c.Order, &c.Amount, &c.Discount, &c.ExpiresAt, &c.at,
		&c.Coupon, &c.User}
}

func (c *change) event() *Event { return c.Changed.Event(c.kind, c.seq, c.at) }

const changesSQL = columnsOfChange + `, s.published_at IS NULL AND s.first_user_coupon_id IS NOT NULL
FROM coupon_log l FORCE INDEX (coupon_log_published) JOIN user_coupon u ON u.id = l.user_coupon_id
LEFT JOIN settlement s ON s.run_id = u.run_id AND s.coupon_id = u.coupon_id
WHERE l.published_at IS NULL AND l.id > ? ORDER BY l.id LIMIT ?`

// unpublishedChanges returns the next rows of coupon_log above an id, also those whose issue is not published yet. For
// one issued coupon, the order of ids is the order of seq.
func unpublishedChanges(ctx context.Context, q mysqltx.Querier, above uint64, limit int) ([]change, error) {
	fields := func(c *change) []any { return append(c.fields(), &c.behind) }
	all, err := mysqltx.Collect(ctx, q, fields, changesSQL, above, limit)
	return all, mysqltx.Wrap(err, "read unpublished rows of coupon_log")
}

// As a subquery, MariaDB would read the ids again for each row of coupon_log.
const changesPublishedSQL = `
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j STRAIGHT_JOIN coupon_log l ON l.id = j.id
SET l.published_at = UTC_TIMESTAMP(6)`

func markChanges(ctx context.Context, tx *sql.Tx, ids []uint64) error {
	return mark(ctx, tx, changesPublishedSQL, ids)
}

// mark runs a statement that marks the rows with these keys.
func mark[T any](ctx context.Context, tx *sql.Tx, query string, keys []T) error {
	if len(keys) == 0 {
		return nil
	}
	text, err := json.Marshal(keys)
	if err == nil {
		_, err = tx.ExecContext(ctx, query, string(text))
	}
	return mysqltx.Wrap(err, "mark rows as published")
}
