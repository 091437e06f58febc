package privacy

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// PurgedCoupon is what remains of a coupon: its row of table purged_coupon.
type PurgedCoupon struct {
	Coupon        coupon.CouponID `json:"coupon"`
	Name          string          `json:"name"`
	CampaignID    *uint64         `json:"campaignId"`
	OpensAt       time.Time       `json:"opensAt"`
	ClosesAt      time.Time       `json:"closesAt"`
	FinalisedAt   time.Time       `json:"finalisedAt"`
	TotalQuantity int             `json:"totalQuantity"`
	Accepted      int64           `json:"accepted"` // accepted applications, each once
	Issued        int             `json:"issued"`
	Used          int             `json:"used"`    // orders that had the coupon when the purge began
	UsedWon       int64           `json:"usedWon"` // sum of the discounts of these orders
	Revoked       int             `json:"revoked"`
	NotSelected   int64           `json:"notSelected"` // includes those that settle user forget had deleted
	Rejected      int64           `json:"rejected"`    // includes those, too
	AuditSeq      uint64          `json:"auditSeq"`    // number of the audit events
	AuditHash     string          `json:"auditHash"`   // hash of the last one
	Actor         string          `json:"actor"`
	Reason        string          `json:"reason"`
	PurgedAt      time.Time       `json:"purgedAt"`
	RowsDeletedAt *time.Time      `json:"rowsDeletedAt"` // null: rows may remain, and the next purge deletes them
}

const purgedSQL = `
SELECT coupon_id, name, campaign_id, apply_opens_at, apply_closes_at, finalised_at, total_quantity, accepted,
       issued_count, used_count, used_won, revoked_count, not_selected_count, rejected_count,
       audit_seq, audit_hash, actor, reason, purged_at, rows_deleted_at
FROM purged_coupon WHERE coupon_id = ?`

// ReadPurged returns what remains of a coupon whose purge has begun; nil if there is none.
func ReadPurged(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (*PurgedCoupon, error) {
	found, err := mysqltx.Collect(ctx, q, func(p *PurgedCoupon) []any {
		return []any{&p.Coupon, &p.Name, &p.CampaignID, &p.OpensAt, &p.ClosesAt, &p.FinalisedAt, &p.TotalQuantity,
			&p.Accepted, &p.Issued,
			&p.Used, &p.UsedWon, &p.Revoked, &p.NotSelected, &p.Rejected, &p.AuditSeq, &p.AuditHash, &p.Actor,
			&p.Reason, &p.PurgedAt, &p.RowsDeletedAt}
	}, purgedSQL, id)
	if err != nil || len(found) == 0 {
		return nil, mysqltx.Wrap(err, "read purged coupon %d", id)
	}
	return &found[0], nil
}

// Err says when the purge began, in the given form, by whom, whether it has ended, and the figures of the coupon.
func (p *PurgedCoupon) Err(at string) error {
	message := text.CouponWasPurged
	if p.RowsDeletedAt == nil {
		message = text.CouponInPurge
	}
	return text.MissingErrorf(message, p.Coupon, p.Name, at, p.Actor, p.Reason, p.Accepted, p.Issued, p.Used, p.UsedWon,
		p.Revoked, p.NotSelected, p.Rejected)
}
