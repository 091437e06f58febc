package settle

import (
	"context"
	"fmt"
	"strings"
)

const insertAuditSQL = "INSERT INTO audit_event (at, actor, action, coupon_id, user_id, run_id, reason, detail) VALUES (?, ?, ?, ?, NULLIF(?, 0), NULLIF(?, 0), ?, ?)"

// What is kept in audit_event.
const (
	actionGapHeld     = "GAP_HELD"
	actionGapAccepted = "GAP_ACCEPTED"
	actionDLQRetried  = "DLQ_RETRIED"
	actionDLQDropped  = "DLQ_DROPPED"
)

// nightlyActor is who acts where no operator does.
const nightlyActor = "settle"

// maxDetailLetters is the width of audit_event.detail.
const maxDetailLetters = 2000

// audit keeps in audit_event what a run did to a coupon in somebody's name; user 0 is nobody in particular.
func audit(ctx context.Context, q querier, run run, action string, coupon, user uint64, detail string) error {
	actor := run.Operator
	if actor == "" {
		actor = nightlyActor
	}
	err := one(q.ExecContext(ctx, insertAuditSQL, run.startedAt, actor, action, coupon, user, run.id, run.Reason, shorten(detail, maxDetailLetters)))
	if err != nil {
		return fmt.Errorf("audit %s of coupon %d: %w", action, coupon, err)
	}
	return nil
}

const auditedSQL = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND run_id = ? AND action = ?)"

// audited is whether a run has kept this of a coupon already.
func audited(ctx context.Context, q querier, run run, action string, coupon uint64) (bool, error) {
	var found bool
	if err := q.QueryRowContext(ctx, auditedSQL, coupon, run.id, action).Scan(&found); err != nil {
		return false, fmt.Errorf("read audit of coupon %d: %w", coupon, err)
	}
	return found, nil
}

// shorten cuts text to a column's width, in letters, and makes it valid UTF-8.
func shorten(text string, letters int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if all := []rune(text); len(all) > letters {
		return string(all[:letters])
	}
	return text
}
