package settle

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	insertAuditSQL = "INSERT INTO audit_event (seq, at, actor, action, coupon_id, user_id, run_id, reason, detail, hash) VALUES "
	auditRow       = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

	// auditBatch events are inserted at once: at their longest, 2 MB.
	auditBatch = 200
)

const moveAuditHeadSQL = `
INSERT INTO audit_head (coupon_id, seq, hash) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE seq = ?, hash = ?`

// What is kept in audit_event.
const (
	actionGapHeld     = "GAP_HELD"
	actionCountHeld   = "COUNT_HELD"
	actionGapAccepted = "GAP_ACCEPTED"
	actionDLQRetried  = "DLQ_RETRIED"
	actionDLQDropped  = "DLQ_DROPPED"
	actionSettled     = "SETTLED_BY_HAND"
)

// Actions are all that is kept in audit_event.
var Actions = []string{actionGapHeld, actionCountHeld, actionGapAccepted, actionDLQRetried, actionDLQDropped, actionSettled, actionCouponCreated,
	actionCouponClosed, actionCouponExtended, actionCouponPaused, actionCouponResumed, actionCouponSeats, actionCouponRecounted, actionCouponUnfinalised}

// nightlyActor is who acts where no operator does.
const nightlyActor = "settle"

// maxDetailLetters is the width of audit_event.detail.
const maxDetailLetters = 2000

// audit keeps in audit_event what a run did to a coupon in somebody's name; user 0 is nobody in particular. The
// transaction must hold the coupon's lock: the chain of its events must not fork.
func audit(ctx context.Context, tx *sql.Tx, run run, action string, couponID coupon.CouponID, user coupon.UserID, detail string) error {
	return auditAll(ctx, tx, run, action, couponID, []deed{{user, detail}})
}

// auditEach keeps one event for each application.
func auditEach(ctx context.Context, tx *sql.Tx, run run, action string, couponID coupon.CouponID, applications []coupon.Application) error {
	all := make([]deed, len(applications))
	for i, a := range applications {
		all[i] = deed{a.User(), fmt.Sprintf("%q, arrival %d", a.Member, a.Arrival)}
	}
	return auditAll(ctx, tx, run, action, couponID, all)
}

// deed is what differs between events that are kept together.
type deed struct {
	user   coupon.UserID
	detail string
}

// auditAll is the only writer of audit_event: it adds to the end of the coupon's chain and moves the head.
func auditAll(ctx context.Context, tx *sql.Tx, run run, action string, couponID coupon.CouponID, all []deed) error {
	if len(all) == 0 {
		return nil
	}
	head, err := ledger.AuditHead(ctx, tx, couponID)
	if err != nil {
		return err
	}
	event := ledger.AuditEvent{At: run.startedAt, Actor: run.Operator, Action: action, Coupon: couponID, Run: orNull(run.id), Reason: run.Reason}
	if event.Actor == "" {
		event.Actor = nightlyActor
	}
	for batch := range slices.Chunk(all, auditBatch) {
		var args []any
		for _, one := range batch {
			head.Seq++
			event.Seq, event.User, event.Detail = head.Seq, orNull(one.user), mysqltx.Shorten(one.detail, maxDetailLetters)
			head.Hash = event.Hash(head.Hash)
			args = append(args, event.Seq, event.At, event.Actor, event.Action, event.Coupon, event.User, event.Run, event.Reason, event.Detail, head.Hash)
		}
		statement := insertAuditSQL + strings.Repeat(auditRow+", ", len(batch)-1) + auditRow
		stored, err := mysqltx.Affected(tx.ExecContext(ctx, statement, args...))
		if mysqltx.IsDuplicate(err) {
			return &coupon.Error{Class: coupon.Invariant, Err: fmt.Errorf("audit %s of coupon %d: the chain of its events goes on behind its head: %w; nothing was done; run `settle verify`", action, couponID, err)}
		}
		if err == nil && stored != len(batch) {
			err = fmt.Errorf("%d rows stored, want %d", stored, len(batch))
		}
		if err != nil {
			return fmt.Errorf("audit %s of coupon %d: %w", action, couponID, err)
		}
	}
	if _, err := mysqltx.Affected(tx.ExecContext(ctx, moveAuditHeadSQL, couponID, head.Seq, head.Hash, head.Seq, head.Hash)); err != nil {
		return fmt.Errorf("move head of the audit chain of coupon %d: %w", couponID, err)
	}
	return nil
}

// orNull is an id, or NULL for nobody's.
func orNull(id uint64) *uint64 {
	if id == 0 {
		return nil
	}
	return &id
}

const auditedSQL = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND run_id = ? AND action = ?)"

// audited is whether a run has kept this of a coupon already.
func audited(ctx context.Context, q mysqltx.Querier, run run, action string, couponID coupon.CouponID) (bool, error) {
	var found bool
	if err := q.QueryRowContext(ctx, auditedSQL, couponID, run.id, action).Scan(&found); err != nil {
		return false, fmt.Errorf("read audit of coupon %d: %w", couponID, err)
	}
	return found, nil
}
