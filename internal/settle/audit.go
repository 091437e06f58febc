package settle

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
)

func (r run) origin() audit.Origin {
	return audit.Origin{At: r.settledAt(), Actor: r.Operator, SignIn: r.Person.SignIn, Run: r.id, Reason: r.Reason}
}

// auditOnce appends events to the coupon's audit chain, unless the run has already recorded this action for the coupon.
func (r run) auditOnce(ctx context.Context, tx *sql.Tx, action audit.Action, couponID coupon.CouponID,
	entries ...audit.Entry) error {
	if done, err := audit.Recorded(ctx, tx, r.origin(), action, couponID); err != nil || done {
		return err
	}
	return audit.Append(ctx, tx, r.origin(), action, couponID, entries...)
}

// auditManual records the operator for a page of the close-out, unless an earlier transaction of the run has done it.
func (s *settlement) auditManual(ctx context.Context, tx *sql.Tx, w winners) error {
	if !s.run.rules.auditsOperator {
		return nil
	}
	return s.run.auditOnce(ctx, tx, audit.ManualSettle, s.coupon.ID, s.settleEntry(w))
}

func (s *settlement) settleEntry(w winners) audit.Entry {
	return audit.Entry{Payload: audit.Settled{Cutoff: s.run.cutoff.UTC(), Issued: w.count, Digest: w.digest}}
}

// hold is an error that holds the coupon, and what the audit chain says about it.
type hold struct {
	error
	action audit.Action
	why    audit.Payload
}

func (h *hold) Unwrap() error { return h.error }

func (s *settlement) auditHold(ctx context.Context, h *hold) error {
	return s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, _ coupon.Coupon) error {
		return s.run.auditOnce(ctx, tx, h.action, s.coupon.ID, audit.Entry{Payload: h.why})
	})
}
