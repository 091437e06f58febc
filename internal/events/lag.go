package events

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

const oldestSQL = `
(SELECT settled_at FROM settlement FORCE INDEX (settlement_published)
WHERE published_at IS NULL AND first_user_coupon_id > 0 ORDER BY first_user_coupon_id LIMIT 1)
UNION ALL
(SELECT at FROM coupon_log FORCE INDEX (coupon_log_published)
WHERE published_at IS NULL AND id > (SELECT log_id FROM event_relay WHERE sink = ?) ORDER BY id LIMIT 1)`

// oldestDue returns when the oldest event was due that a sink has not got. It is nil if the sink has all.
func oldestDue(ctx context.Context, q mysqltx.Querier, sink string) (oldest *time.Time, err error) {
	all, err := mysqltx.Column[time.Time](ctx, q, oldestSQL, sink)
	for i := range all {
		if oldest == nil || all[i].Before(*oldest) {
			oldest = &all[i]
		}
	}
	return oldest, mysqltx.Wrap(err, "read the oldest unpublished event")
}

// Shortfall is what a sink has not got. It is zero if the sink has all, or was never turned on.
type Shortfall struct {
	Delay   time.Duration // how long the oldest unpublished event is due, by MySQL's clock
	MayLack bool          // the sink may lack events that were published: see Gap
}

// ReadShortfall reads what a sink has not got.
func ReadShortfall(ctx context.Context, q mysqltx.Querier, sink string) (s Shortfall, err error) {
	type relay struct {
		now     time.Time
		mayLack bool
	}
	on, err := mysqltx.Collect(ctx, q, func(r *relay) []any { return []any{&r.now, &r.mayLack} },
		"SELECT UTC_TIMESTAMP(6), may_lack_from IS NOT NULL FROM event_relay WHERE sink = ? AND from_at IS NOT NULL",
		sink)
	if err != nil || len(on) == 0 {
		return s, mysqltx.Wrap(err, "read the relay of sink %s", sink)
	}
	s.MayLack = on[0].mayLack
	due, err := oldestDue(ctx, q, sink)
	if err == nil && due != nil {
		s.Delay = max(0, on[0].now.Sub(*due))
	}
	return s, err
}
