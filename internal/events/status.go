package events

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// MaxCounted bounds the rows that a Status counts. If it is reached, there may be more.
const MaxCounted = 1_000_000

// Status is how far a sink is, by MySQL.
type Status struct {
	Sink   string     `json:"sink"`
	Active bool       `json:"active"`            // the sink of the deployment: a process claimed it last
	On     *time.Time `json:"onSince,omitempty"` // when events were turned on; nil: that is under way
	// Number with unpublished events; at most 1,000,000 are counted.
	Settlements int `json:"settlements"`
	Issued      int `json:"issued"` // number of their unpublished events
	// Number of unpublished rows of coupon_log; at most 1,000,000 are counted.
	Changes int `json:"changes"`
	// When the oldest unpublished event was due; nil: all are published.
	Since    *time.Time      `json:"since,omitempty"`
	Coupon   coupon.CouponID `json:"couponId,omitempty"`
	Run      coupon.RunID    `json:"runId,omitempty"`    // the settlement of Coupon that is published in part
	Position int             `json:"position,omitempty"` // the last seat of it that is published
	// What the sink may have lost; nil: nothing is known to be missing.
	MayLack *Gap      `json:"mayLack,omitempty"`
	AsOf    time.Time `json:"asOf"`

	Consumers []Lag  `json:"consumers,omitempty"`
	SinkError string `json:"sinkError,omitempty"` // the sink did not tell how far its consumers are
}

const statusSQL = `
SELECT r.sink, r.claimed_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM event_relay o WHERE o.claimed_at > r.claimed_at),
    r.from_at,
       COALESCE(r.coupon_id, 0), COALESCE(r.run_id, 0), r.position, UTC_TIMESTAMP(6), r.may_lack_from, r.may_lack_to,
       (SELECT COUNT(*) FROM (SELECT 1 FROM settlement FORCE INDEX (settlement_published)
                              WHERE published_at IS NULL AND first_user_coupon_id > 0 LIMIT ?) a),
       (SELECT COALESCE(SUM(issued_count), 0) FROM (SELECT issued_count FROM settlement
         FORCE INDEX (settlement_published)
                              WHERE published_at IS NULL AND first_user_coupon_id > 0 LIMIT ?) b)
       - COALESCE((SELECT s.issued_count - r.unpublished FROM settlement s
                   WHERE s.run_id = r.run_id AND s.coupon_id = r.coupon_id AND s.published_at IS NULL), 0)
FROM event_relay r ORDER BY r.sink`

const countChangesSQL = `
SELECT COUNT(*) FROM (SELECT 1 FROM coupon_log FORCE INDEX (coupon_log_published)
                      WHERE published_at IS NULL AND id > (SELECT log_id FROM event_relay WHERE sink = ?) LIMIT ?) a`

// ReadStatus returns the status of each sink for which events were turned on.
func ReadStatus(ctx context.Context, q mysqltx.Querier) ([]Status, error) {
	type row struct {
		Status
		lacking
	}
	fields := func(r *row) []any {
		return []any{&r.Sink, &r.Active, &r.On, &r.Coupon, &r.Run, &r.Position, &r.AsOf, &r.from, &r.to, &r.Settlements,
			&r.Issued}
	}
	rows, err := mysqltx.Collect(ctx, q, fields, statusSQL, MaxCounted, MaxCounted)
	if err != nil {
		return nil, mysqltx.Wrap(err, "read the relays")
	}
	all := make([]Status, len(rows))
	for i := range rows {
		all[i] = rows[i].Status
		s := &all[i]
		if s.On == nil {
			continue
		}
		s.MayLack = rows[i].gap(s.Sink)
		if err := q.QueryRowContext(ctx, countChangesSQL, s.Sink, MaxCounted).Scan(&s.Changes); err != nil {
			return nil, mysqltx.Wrap(err, "count unpublished rows of coupon_log")
		}
		due, err := oldestDue(ctx, q, s.Sink)
		if err != nil {
			return nil, err
		}
		s.Since = due
	}
	return all, nil
}
