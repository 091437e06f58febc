package settle

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
)

// origin is what all audit events of the run have in common.
func (r run) origin() audit.Origin {
	return audit.Origin{At: r.startedAt, Actor: r.Operator, Run: r.id, Reason: r.Reason}
}

// audit appends events of the run to the coupon's chain. The transaction must hold the coupon's lock.
func (r run) audit(ctx context.Context, tx *sql.Tx, action audit.Action, couponID coupon.CouponID, entries ...audit.Entry) error {
	return audit.Append(ctx, tx, r.origin(), action, couponID, entries...)
}

// applicationEntries are one audit entry for each application.
func applicationEntries(applications []coupon.Application) []audit.Entry {
	entries := make([]audit.Entry, len(applications))
	for i, a := range applications {
		entries[i] = audit.ApplicationEntry(a.Member, a.Arrival)
	}
	return entries
}
