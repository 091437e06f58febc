package ledger

import (
	"context"
	"database/sql"
	"regexp"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// runEvents are what a coupon's audit events say of runs and of applications that operators rejected: a copy of the tables
// that the chain protects.
type runEvents struct {
	runs    map[coupon.RunID]runIdentity
	dropped map[droppedApplication]string // the reason
}

// runIdentity is what the first event of a run says of it.
type runIdentity struct {
	actor, reason string
	startedAt     int64          // µs since 1970
	cutoff        string         // empty: not said
	trigger       coupon.Trigger // empty: not said
}

// droppedApplication is an application that an operator rejected.
type droppedApplication struct {
	run     coupon.RunID
	user    coupon.UserID  // 0: the member is no user id
	arrival coupon.Arrival // 0: the member was too long for the detail to have it
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
	default: // says no more
	}
	r.runs[*e.Run] = run
}

// whyDropped is the reason why an operator rejected an application; false when none did.
func (r *runEvents) whyDropped(run coupon.RunID, user coupon.UserID, arrival coupon.Arrival) (reason string, ok bool) {
	if reason, ok = r.dropped[droppedApplication{run, user, arrival}]; !ok {
		reason, ok = r.dropped[droppedApplication{run, user, 0}]
	}
	return reason, ok
}

// checkAudit: invariant 6. The coupon's chain of audit events is complete and unchanged.
func (c *check) checkAudit(ctx context.Context) error {
	chain, err := audit.Check(ctx, c.tx, c.Coupon, c.events.add)
	if err != nil {
		return err
	}
	c.AuditHead = chain.Head
	if d := chain.Changed; d.Count > 0 {
		c.find(6, AuditChanged, d.Count, "%d audit events are not what they were when written, the first of them event %d", d.Count, d.First)
	}
	if d := chain.Removed; d.Count > 0 {
		c.find(6, AuditRemoved, d.Count, "%d audit events are gone, the first of them event %d; there were %d", d.Count, d.First, chain.Head.Seq)
	}
	if n := chain.Inserted; n > 0 {
		c.find(6, AuditInserted, n, "%d audit events were not written by the program: the chain ends with event %d", n, chain.Head.Seq)
	}
	return nil
}

const auditedRunsSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, r.started_at, r.cutoff FROM settlement_run r
WHERE r.id IN (SELECT e.run_id FROM audit_event e WHERE e.coupon_id = ? AND e.run_id IS NOT NULL)`

// checkRuns: invariant 6. Each run is as its audit events say.
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
			if wrong++; first == 0 || id < first {
				first = id
			}
		}
		return nil
	}, auditedRunsSQL, c.Coupon)
	if err == nil && wrong > 0 {
		c.find(6, RunWrong, wrong, "%d runs have another kind, operator, reason, start or cutoff than was kept in audit_event, the first of them run %d", wrong, first)
	}
	return err
}

// differs compares a run with what its intact events say; what they do not say cannot differ.
func (r *runEvents) differs(id coupon.RunID, is runIdentity) bool {
	said, known := r.runs[id]
	if !known {
		return false
	}
	if is.actor == "" {
		is.actor = audit.NightlyActor
	}
	if said.cutoff == "" {
		is.cutoff = ""
	}
	if said.trigger == "" {
		is.trigger = ""
	}
	return is != said
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// causeOfRun is the beginning of a reason that a run gave: why an application that was not selected cannot get a seat.
var causeOfRun = regexp.MustCompile(`^(UNKNOWN_USER|INACTIVE_USER|MALFORMED_USER_ID|PASSED_OVER|BAD_ROW|DATABASE_AWAY): `)

const rejectedSQL = `
SELECT user_id, applied_at, run_id, reason FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND run_id IS NOT NULL AND LENGTH(reason) > 0`

// checkRejected: invariant 6. An application that no run rejected was rejected by an operator, with an audit event and the
// same reason. The reason of a member that is no user id begins with the member, and may be cut.
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
		if why, ok := c.events.whyDropped(run, user, appliedAt.UnixMicro()); !ok || user != 0 && why != reason {
			unaudited++
		}
		return nil
	}, rejectedSQL, c.Coupon)
	if err == nil && unaudited > 0 {
		c.find(6, OutcomeWrong, unaudited, "%d applications are recorded REJECTED, and audit_event does not say by whom, or says another reason", unaudited)
	}
	return err
}
