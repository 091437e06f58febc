package ledger

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// signed is what the audit events of a coupon say of runs and of who was rejected by a person: a copy of what the tables say,
// bound by the chain.
type signed struct {
	runs    map[uint64]signature
	dropped map[drop]string // why
}

// signature is a run as its first event has it.
type signature struct {
	actor, reason string
	at            int64  // when it began, µs since 1970
	cutoff        string // empty: not said
	trigger       string // the same
}

// drop is an application that a person rejected.
type drop struct {
	run, user uint64 // user 0: no user id
	arrival   int64  // 0: too long a member left no room for it
}

// The events that say more, and the account of a run that nobody asked for, as the settlement writes them.
const (
	eventDropped = "DLQ_DROPPED"
	eventSettled = "SETTLED_BY_HAND"
	eventRetried = "DLQ_RETRIED"
	nightlyActor = "settle"
)

func (s *signed) note(e AuditEvent) {
	if e.Run == nil {
		return
	}
	if s.runs == nil {
		s.runs, s.dropped = map[uint64]signature{}, map[drop]string{}
	}
	said, known := s.runs[*e.Run]
	if !known {
		said = signature{actor: e.Actor, reason: e.Reason, at: e.At.UnixMicro()}
	}
	switch e.Action {
	case eventRetried:
		said.trigger = "DLQ_RETRY"
	case eventSettled:
		said.trigger = "MANUAL"
		if cutoff, ok := strings.CutPrefix(e.Detail, "cutoff "); ok {
			said.cutoff, _, _ = strings.Cut(cutoff, ",")
		}
	case eventDropped:
		said.trigger = "MANUAL"
		d := drop{run: *e.Run}
		if e.User != nil {
			d.user = *e.User
		}
		if at := strings.LastIndex(e.Detail, "\", arrival "); at >= 0 {
			d.arrival, _ = strconv.ParseInt(e.Detail[at+len("\", arrival "):], 10, 64)
		}
		s.dropped[d] = e.Reason
	}
	s.runs[*e.Run] = said
}

// ended is why an application was rejected by a person; false where nobody has.
func (s *signed) ended(run, user uint64, arrival int64) (reason string, ok bool) {
	if reason, ok = s.dropped[drop{run, user, arrival}]; !ok {
		reason, ok = s.dropped[drop{run, user, 0}]
	}
	return reason, ok
}

const signedRunsSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, r.started_at, r.cutoff FROM settlement_run r
WHERE r.id IN (SELECT e.run_id FROM audit_event e WHERE e.coupon_id = ? AND e.run_id IS NOT NULL)`

// checkSigned: invariant 6. A run is what was kept of it with what it did to this coupon.
func checkSigned(ctx context.Context, tx *sql.Tx, v *Verdict) error {
	if len(v.signed.runs) == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, signedRunsSQL, v.Coupon)
	if err != nil {
		return err
	}
	defer rows.Close()
	var wrong, first uint64
	for rows.Next() {
		var id uint64
		var is signature
		var began, cutoff time.Time
		if err := rows.Scan(&id, &is.trigger, &is.actor, &is.reason, &began, &cutoff); err != nil {
			return err
		}
		is.at = began.UnixMicro()
		if is.actor == "" {
			is.actor = nightlyActor
		}
		said, known := v.signed.runs[id]
		if !known { // its event is not what it was
			continue
		}
		if said.cutoff != "" {
			is.cutoff = stamp(cutoff)
		}
		if said.trigger == "" {
			is.trigger = ""
		}
		if is != said {
			if wrong++; first == 0 || id < first {
				first = id
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if wrong > 0 {
		v.find(6, RunWrong, int64(wrong), "%d runs have another kind, operator, reason, start or cutoff than was kept in audit_event, the first of them run %d", wrong, first)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// byItself is how a reason begins that a run gave: the cause for which somebody who was not selected cannot take a seat.
var byItself = regexp.MustCompile(`^(UNKNOWN_USER|INACTIVE_USER|MALFORMED_USER_ID|PASSED_OVER|BAD_ROW|DATABASE_AWAY): `)

const rejectedSQL = `
SELECT user_id, applied_at, run_id, reason FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND run_id IS NOT NULL AND LENGTH(reason) > 0`

// checkRejected: invariant 6. Whoever was not rejected by a run was rejected by a person, who is kept with the reason.
func checkRejected(ctx context.Context, tx *sql.Tx, v *Verdict) error {
	rows, err := tx.QueryContext(ctx, rejectedSQL, v.Coupon)
	if err != nil {
		return err
	}
	defer rows.Close()
	var unsigned int64
	for rows.Next() {
		var user, run uint64
		var appliedAt time.Time
		var reason string
		if err := rows.Scan(&user, &appliedAt, &run, &reason); err != nil {
			return err
		}
		if byItself.MatchString(reason) {
			continue
		}
		// Of a member that is no user id the reason begins with the member, and may be cut.
		if why, ok := v.signed.ended(run, user, appliedAt.UnixMicro()); !ok || user != 0 && why != reason {
			unsigned++
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if unsigned > 0 {
		v.find(6, OutcomeWrong, unsigned, "%d applications are recorded REJECTED, and audit_event does not say by whom, or says another reason", unsigned)
	}
	return nil
}
