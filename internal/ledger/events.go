package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// runEvents are the runs of a coupon and the applications that operators dropped, according to the audit chain.
type runEvents struct {
	runs    map[coupon.RunID]runIdentity
	dropped map[droppedApplication]string // the reason
}

// runIdentity is a run. In an audit event the cutoff and the trigger can be missing.
type runIdentity struct {
	actor, reason string
	startedAt     int64 // µs since 1970
	cutoff        string
	trigger       coupon.Trigger
}

// droppedApplication is an application that an operator dropped.
type droppedApplication struct {
	run     coupon.RunID
	user    coupon.UserID  // 0: the member is no user id
	arrival coupon.Arrival // 0: the member left no room for it in the detail
}

func (r *runEvents) add(e audit.Event) {
	if e.Run == nil {
		return
	}
	if r.runs == nil {
		r.runs, r.dropped = map[coupon.RunID]runIdentity{}, map[droppedApplication]string{}
	}
	run, known := r.runs[*e.Run]
	if !known {
		run = runIdentity{actor: e.Actor, reason: e.Reason, startedAt: e.At.UnixMicro()}
	}
	switch e.Action {
	case audit.DLQRetried:
		run.trigger = coupon.DLQRetry
	case audit.ManualSettle:
		run.trigger, run.cutoff = coupon.Manual, e.Cutoff()
	case audit.DLQDropped:
		run.trigger = coupon.Manual
		d := droppedApplication{run: *e.Run, arrival: e.Arrival()}
		if e.User != nil {
			d.user = *e.User
		}
		r.dropped[d] = e.Reason
	default: // no more about the run
	}
	r.runs[*e.Run] = run
}

// whyDropped is the reason for which an operator dropped an application; false when none did.
func (r *runEvents) whyDropped(run coupon.RunID, user coupon.UserID, arrival coupon.Arrival) (reason string, ok bool) {
	if reason, ok = r.dropped[droppedApplication{run, user, arrival}]; !ok {
		reason, ok = r.dropped[droppedApplication{run, user, 0}]
	}
	return reason, ok
}

// checkAudit: invariant 6. The audit chain is complete and unchanged.
func (c *check) checkAudit(ctx context.Context) error {
	chain, err := audit.Check(ctx, c.tx, c.Coupon, c.events.add)
	if err != nil {
		return err
	}
	c.AuditHead = chain.Head
	c.findAny(6, AuditChanged, chain.Changed.Count, "%d audit event{|s} {was|were} changed; the first is event %d", chain.Changed.First)
	c.findAny(6, AuditRemoved, chain.Removed.Count, "%d of %d audit event{|s} removed; the first is event %d", chain.Head.Seq, chain.Removed.First)
	c.findAny(6, AuditInserted, chain.Inserted, "%d audit event{|s} {was|were} not written by Jajeong; the audit chain has %d event{|s}", chain.Head.Seq)
	return nil
}

const auditedRunsSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, r.started_at, r.cutoff FROM settlement_run r
WHERE r.id IN (SELECT e.run_id FROM audit_event e WHERE e.coupon_id = ? AND e.run_id IS NOT NULL) ORDER BY r.id`

// checkRuns: invariant 6. Each run agrees with its audit events.
func (c *check) checkRuns(ctx context.Context) error {
	if len(c.events.runs) == 0 {
		return nil
	}
	var wrong int64
	var first coupon.RunID
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var id coupon.RunID
		var is runIdentity
		var startedAt, cutoff time.Time
		if err := rows.Scan(&id, (*string)(&is.trigger), &is.actor, &is.reason, &startedAt, &cutoff); err != nil {
			return err
		}
		is.startedAt, is.cutoff = startedAt.UnixMicro(), stamp(cutoff)
		if c.events.differs(id, is) {
			wrong++
			first = cmp.Or(first, id)
		}
		return nil
	}, auditedRunsSQL, c.Coupon)
	c.findAny(6, RunWrong, wrong, "%d run{|s} {differs|differ} from {its|their} audit events in trigger, operator, reason, start or cutoff; the first is run %d", first)
	return err
}

// differs compares a run with its intact events, field by field that these have.
func (r *runEvents) differs(id coupon.RunID, is runIdentity) bool {
	audited, known := r.runs[id]
	if !known {
		return false
	}
	if is.actor == "" {
		is.actor = audit.NightlyActor
	}
	if audited.cutoff == "" {
		is.cutoff = ""
	}
	if audited.trigger == "" {
		is.trigger = ""
	}
	return is != audited
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// causeOfRun is the cause with which the reason of a run begins, when it rejects an application.
var causeOfRun = regexp.MustCompile(`^(UNKNOWN_USER|INACTIVE_USER|MALFORMED_USER_ID|PASSED_OVER|BAD_ROW|DATABASE_AWAY): `)

const rejectedSQL = `
SELECT user_id, applied_at, run_id, reason FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND run_id IS NOT NULL AND LENGTH(reason) > 0`

// checkRejected: invariant 6. Runs reject with a cause, operators with an audit event of the same reason. The reason for a
// member that is no user id begins with the member and can be cut.
func (c *check) checkRejected(ctx context.Context) error {
	var unaudited int64
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var user coupon.UserID
		var run coupon.RunID
		var appliedAt time.Time
		var reason string
		if err := rows.Scan(&user, &appliedAt, &run, &reason); err != nil || causeOfRun.MatchString(reason) {
			return err
		}
		if why, ok := c.events.whyDropped(run, user, coupon.ArrivalAt(appliedAt)); !ok || user != 0 && why != reason {
			unaudited++
		}
		return nil
	}, rejectedSQL, c.Coupon)
	c.findAny(6, OutcomeWrong, unaudited, "%d REJECTED outcome{|s} {has|have} no audit event with {its|their} reason")
	return err
}
