package verify

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// auditEvents has what the audit chain says about the coupon, its runs and the applications that operators dropped.
type auditEvents struct {
	runs    map[coupon.RunID]runIdentity
	dropped map[droppedApplication]string // value: the operator's reason
	created bool                          // the chain has the creation of the coupon

	// What the events of the chain add up to: seats, lost promises that operators have accepted, and outcomes of users
	// who were forgotten.
	seats, writtenOff, erased int64
}

// runIdentity has the fields of a run that audit events repeat. An event may lack the cutoff and the trigger.
type runIdentity struct {
	actor, reason     string
	settledAt, cutoff string
	trigger           coupon.Trigger
}

type droppedApplication struct {
	run     coupon.RunID
	user    coupon.UserID // 0: the member of the DLQ was no user id
	arrival coupon.Arrival
}

func (r *auditEvents) add(e audit.Event) {
	r.seats += e.Seats
	switch is := e.Payload().(type) {
	case audit.WrittenOff:
		r.writtenOff += is.Missing
	case audit.Forgotten:
		r.erased += int64(is.Outcomes)
	default: // events of other actions do not change these sums
	}
	r.created = r.created || e.Action == audit.CouponCreated
	if e.Run == nil {
		return
	}
	run, known := r.runs[*e.Run]
	if !known {
		run = runIdentity{actor: e.Actor, reason: e.Reason, settledAt: stamp(e.At)}
	}
	switch is := e.Payload().(type) {
	case audit.Retried:
		run.trigger = coupon.DLQRetry
	case audit.Settled:
		run.trigger, run.cutoff = coupon.Manual, stamp(is.Cutoff)
	case audit.Application:
		run.trigger = coupon.Manual
		d := droppedApplication{run: *e.Run, arrival: is.Arrival}
		if e.User != nil {
			d.user = *e.User
		}
		r.dropped[d] = e.Reason
	default: // events of other actions name neither trigger nor cutoff
	}
	r.runs[*e.Run] = run
}

// checkAudit checks invariant 6: the audit chain is complete and unchanged, and explains the seats and whose promises
// count as kept although nobody has them.
func (c *check) checkAudit(ctx context.Context) error {
	chain, err := audit.Check(ctx, c.tx, c.Coupon, c.events.add)
	if err != nil {
		return err
	}
	c.AuditHead = chain.Head
	c.findAny(6, AuditChanged, chain.Changed.Count, "changed audit events: %d; the first is event %d",
		chain.Changed.First)
	c.findAny(6, AuditRemoved, chain.Removed.Count, "removed audit events: %d of %d; the first is event %d",
		chain.Head.Seq, chain.Removed.First)
	c.findAny(6, AuditInserted, chain.Inserted,
		"audit events that Jajeong did not write: %d; the audit chain ends with event %d", chain.Head.Seq)
	whole := chain.Changed.Count+chain.Removed.Count == 0
	if whole && !c.events.created {
		c.find(6, CreatedBySQL, 1, "no audit event tells who created the coupon; its seats count from its first event")
	}
	if seats := c.events.seats; whole && chain.Head.Seq > 0 && seats != c.TotalQuantity {
		c.find(6, SeatsUnexplained, c.TotalQuantity-seats,
			"the audit events add up to %d seats, but total_quantity is %d", seats, c.TotalQuantity)
	}
	if w, e := c.books.writtenOff, c.books.erased; whole && (w != c.events.writtenOff || e != c.events.erased) {
		n := int64(0)
		for _, differs := range []bool{w != c.events.writtenOff, e != c.events.erased} {
			if differs {
				n++
			}
		}
		c.find(6, SumWrong, n, "table settled has %d promises written off and %d outcomes erased, the audit events "+
			"add up to %d and %d", w, e, c.events.writtenOff, c.events.erased)
	}
	return nil
}

const auditedRunsSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, ` + settledAt + `, r.cutoff FROM settlement_run r
WHERE r.id IN (SELECT e.run_id FROM audit_event e WHERE e.coupon_id = ? AND e.run_id IS NOT NULL) ORDER BY r.id`

// checkRuns checks invariant 6: each run agrees with its audit events.
func (c *check) checkRuns(ctx context.Context) error {
	if len(c.events.runs) == 0 {
		return nil
	}
	var wrong int64
	var first coupon.RunID
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var id coupon.RunID
		var is runIdentity
		var settledAt, cutoff time.Time
		if err := rows.Scan(&id, (*string)(&is.trigger), &is.actor, &is.reason, &settledAt, &cutoff); err != nil {
			return err
		}
		is.settledAt, is.cutoff, is.actor = stamp(settledAt), stamp(cutoff), cmp.Or(is.actor, audit.NightlyActor)
		if audited, known := c.events.runs[id]; known && audited.differs(is) {
			wrong++
			first = cmp.Or(first, id)
		}
		return nil
	}, auditedRunsSQL, c.Coupon)
	c.findAny(6, RunWrong, wrong,
		"runs that differ from their audit events in trigger, operator, reason, start or cutoff: %d; the first is "+
			"run %d", first)
	return err
}

// differs reports whether a run differs from its audit events. A field that the events lack is not compared.
func (audited runIdentity) differs(run runIdentity) bool {
	audited.cutoff, audited.trigger = cmp.Or(audited.cutoff, run.cutoff), cmp.Or(audited.trigger, run.trigger)
	return audited != run
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

const rejectedSQL = `
SELECT user_id, applied_at, run_id, note FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND cause IS NULL AND LENGTH(note) > 0`

// checkRejected checks invariant 6 for REJECTED outcomes without a cause: an audit event has the operator's words, too.
func (c *check) checkRejected(ctx context.Context) error {
	var unaudited int64
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var user coupon.UserID
		var run coupon.RunID
		var appliedAt time.Time
		var note string
		if err := rows.Scan(&user, &appliedAt, &run, &note); err != nil {
			return err
		}
		audited, ok := c.events.dropped[droppedApplication{run, user, coupon.ArrivalAt(appliedAt)}]
		if !ok || audited != note {
			unaudited++
		}
		return nil
	}, rejectedSQL, c.Coupon)
	c.findAny(6, OutcomeWrong, unaudited, "REJECTED outcomes without an audit event of their reason: %d")
	return err
}
