package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/users"
)

// Tracer is what explaining reads of Redis; candidates.Store has it.
type Tracer interface {
	Store
	Traces(ctx context.Context, coupon, user uint64) (candidates.Traces, error)
}

// Explainer tells what is known of one user and one coupon. It changes nothing, and what cannot be looked up is told
// beside what can.
type Explainer struct {
	DB        *sql.DB
	Redis     Tracer
	Users     *users.Directory
	Now       func() time.Time
	SettlesAt func(arrival time.Time) time.Time // when what arrives then is to be settled
}

// What of one user is told at most; more than a person reads.
const (
	mostOutcomes = 40
	mostRuns     = 60
	mostAudits   = 60
	// MostEvents bounds a timeline.
	MostEvents = 200
)

// Explanation is what is known of one user and one coupon.
type Explanation struct {
	Facts      Facts      `json:"facts"`
	Events     []Event    `json:"events"`  // in order of time
	LeftOut    int        `json:"leftOut"` // events, the oldest
	Conclusion Conclusion `json:"conclusion"`

	Unread []error `json:"-"` // why facts are missing
}

// Explain gathers the facts, twice where they come to nothing: an application under review stands in neither place for a
// moment while a settlement takes back its record. The error is about the coupon, or ctx; servers that cannot be asked
// are in Unread.
func (e *Explainer) Explain(ctx context.Context, coupon, user uint64) (*Explanation, error) {
	x, err := e.explain(ctx, coupon, user)
	if err == nil && len(x.Unread) == 0 && len(x.Facts.Applications) == 0 && x.Facts.Held == nil {
		x, err = e.explain(ctx, coupon, user)
	}
	return x, err
}

func (e *Explainer) explain(ctx context.Context, coupon, user uint64) (*Explanation, error) {
	f := Facts{CouponID: coupon, UserID: user, At: e.Now().UTC(), Applications: []Application{}, Runs: []RunFacts{}}
	x := &Explanation{}
	// Redis first: what leaves it is in MySQL by then, and is not missed.
	traces, err := e.Redis.Traces(ctx, coupon, user)
	if err != nil {
		f.NoRedis = err.Error()
		x.Unread = append(x.Unread, err)
	} else {
		f.addTraces(traces, e.SettlesAt)
	}
	var audits []Event
	err = e.read(ctx, &f, &audits, &x.LeftOut)
	switch {
	case errors.Is(err, ErrNoCoupon), ctx.Err() != nil && err != nil:
		return nil, err
	case err != nil:
		f.NoMySQL = err.Error()
		f.forgetMySQL()
		audits = nil
		x.Unread = append(x.Unread, err)
	case f.Door != nil:
		if err := e.account(ctx, &f); err != nil {
			f.NoAccount = err.Error()
			x.Unread = append(x.Unread, err)
		}
	}
	f.keepSureOrder()
	x.Facts = f
	x.Conclusion = Conclude(&x.Facts)
	x.Events = events(&x.Facts, audits)
	if more := len(x.Events) - MostEvents; more > 0 {
		x.Events, x.LeftOut = x.Events[more:], x.LeftOut+more
	}
	return x, nil
}

// addTraces takes in what Redis says.
func (f *Facts) addTraces(t candidates.Traces, settlesAt func(time.Time) time.Time) {
	f.At = t.Now
	f.Door = &DoorFacts{Known: t.Door.Known, Paused: t.Door.Paused, Sold: t.Door.Sold, Waiting: t.Waiting}
	if t.Door.Known {
		f.Door.OpensAt, f.Door.ClosesAt = &t.Door.Opens, &t.Door.Closes
	} else {
		f.Door.Paused = false // nobody has said so
	}
	f.MarkedIssued, f.MarkedRejected = t.MarkedIssued, t.MarkedRejected
	for _, s := range t.Stands {
		a := f.application(s.Arrival)
		if a.Stands != "" {
			continue // the queue counts
		}
		a.Stands = places[s.Source]
		next := a.AppliedAt
		if s.Source == coupon.SourceQueue {
			a.Position = t.Position
		} else {
			a.Review = t.Reason
		}
		if s.Source == coupon.SourceRetryable && t.Reason.Night.After(next) {
			next = t.Reason.Night
		}
		settles := settlesAt(next).UTC()
		a.SettlesAt = &settles
	}
}

// application finds the user's application with that arrival, or makes it.
func (f *Facts) application(arrival int64) *Application {
	at, found := slices.BinarySearchFunc(f.Applications, arrival, func(a Application, arrival int64) int {
		return cmp.Compare(a.Arrival, arrival)
	})
	if !found {
		f.Applications = slices.Insert(f.Applications, at, Application{Arrival: arrival, AppliedAt: time.UnixMicro(arrival).UTC()})
	}
	return &f.Applications[at]
}

// forgetMySQL leaves what Redis says, when MySQL went away half way.
func (f *Facts) forgetMySQL() {
	f.Coupon, f.Held, f.Missed, f.Runs = nil, nil, nil, []RunFacts{}
	f.UserKnown, f.UserActive, f.UserStatus = false, false, ""
	f.Applications = slices.DeleteFunc(f.Applications, func(a Application) bool { return a.Stands == "" })
	for i := range f.Applications {
		a := &f.Applications[i]
		a.Outcome, a.Reason, a.Run, a.RecordedAt, a.Dropped, a.Order = "", "", 0, nil, false, 0
	}
}

// keepSureOrder forgets how many had applied before, where some were lost or stand in Redis and are settled.
func (f *Facts) keepSureOrder() {
	if a := f.Account; a != nil && f.Gap == 0 && a.WrittenOff == 0 && a.Twice == 0 {
		return
	}
	for i := range f.Applications {
		f.Applications[i].Order = 0
	}
}

// account counts the promises of the coupon, under its lock before it says that any are missing.
func (e *Explainer) account(ctx context.Context, f *Facts) error {
	l := &Ledger{Store: e.Redis, Users: e.Users}
	v, err := l.accountOf(ctx, e.DB, f.CouponID, existsSQL)
	if err == nil && v.Gap() > 0 {
		v, err = l.accountOf(ctx, e.DB, f.CouponID, existsLockSQL)
	}
	if err != nil {
		return err
	}
	f.Account, f.Gap = &v, v.Gap()
	return nil
}

const (
	existsSQL     = "SELECT id FROM coupon WHERE id = ?"
	existsLockSQL = existsSQL + underLock
)

func (l *Ledger) accountOf(ctx context.Context, db *sql.DB, coupon uint64, query string) (a Account, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return a, fmt.Errorf("account for coupon %d: %w", coupon, err)
	}
	defer func() { _ = tx.Rollback() }() // only reads
	var id uint64
	if err := tx.QueryRowContext(ctx, query, coupon).Scan(&id); err != nil {
		return a, fmt.Errorf("account for coupon %d: %w", coupon, err)
	}
	return l.Account(ctx, tx, coupon)
}

// read takes in what MySQL says, all of it as of one instant.
func (e *Explainer) read(ctx context.Context, f *Facts, audits *[]Event, leftOut *int) error {
	tx, err := e.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("explain coupon %d: %w", f.CouponID, err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, part := range []struct {
		what string
		read func() error
	}{
		{"coupon", func() error { return e.readCoupon(ctx, tx, f) }},
		{"what the user holds of coupon", func() error { return f.readHeld(ctx, tx) }},
		{"outcomes of coupon", func() error { return f.readOutcomes(ctx, tx, leftOut) }},
		{"line of coupon", func() error { return e.readLine(ctx, tx, f) }},
		{"runs of coupon", func() error { return f.readRuns(ctx, tx, leftOut) }},
		{"audit of coupon", func() (err error) { *audits, err = f.readAudits(ctx, tx, leftOut); return err }},
	} {
		if err := part.read(); err != nil {
			return fmt.Errorf("read %s %d: %w", part.what, f.CouponID, err)
		}
	}
	return nil
}

const explainCouponSQL = `
SELECT c.name, c.total_quantity, c.issued_count, c.apply_opens_at, c.apply_closes_at, c.status = 'PAUSED', c.finalised_at,
       EXISTS (SELECT 1 FROM {users} WHERE {id} = ? AND ? <= {last}),
       EXISTS (SELECT 1 FROM {users} WHERE {id} = ? AND ? <= {last} AND {active}),
       COALESCE((SELECT {status} FROM {users} WHERE {id} = ? AND ? <= {last}), ''),
       COALESCE((SELECT accepted FROM promise WHERE coupon_id = c.id), 0),
       COALESCE((SELECT written_off FROM promise WHERE coupon_id = c.id), 0),
       COALESCE((SELECT MAX(last_arrival) FROM settlement WHERE coupon_id = c.id), 0),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = c.id AND run_id IS NULL)
FROM coupon c WHERE c.id = ?`

func (e *Explainer) readCoupon(ctx context.Context, tx *sql.Tx, f *Facts) error {
	directory, err := e.Users.Table(ctx, tx)
	if err != nil {
		return err
	}
	c := new(CouponFacts)
	var finalised sql.NullTime
	user := f.UserID
	err = tx.QueryRowContext(ctx, directory.SQL(explainCouponSQL), user, user, user, user, user, user, f.CouponID).Scan(&c.Name, &c.Seats, &c.Issued, &c.OpensAt, &c.ClosesAt,
		&c.Paused, &finalised, &f.UserKnown, &f.UserActive, &f.UserStatus, &c.Promised, &c.WrittenOff, &c.LastSeated, &c.ByHand)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoCoupon
	}
	c.FinalisedAt = instant(finalised)
	f.Coupon = c
	return err
}

const explainHeldSQL = `
SELECT position, applied_at, issued_at, expires_at, COALESCE(run_id, 0), status FROM user_coupon WHERE coupon_id = ? AND user_id = ?`

func (f *Facts) readHeld(ctx context.Context, tx *sql.Tx) error {
	h := new(HeldCoupon)
	var applied, expires sql.NullTime
	err := tx.QueryRowContext(ctx, explainHeldSQL, f.CouponID, f.UserID).Scan(&h.Seat, &applied, &h.IssuedAt, &expires, &h.Run, &h.Status)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	h.AppliedAt, h.ExpiresAt = instant(applied), instant(expires)
	f.Held = h
	if h.Run > 0 && h.AppliedAt != nil { // else it is no application's
		a := f.application(h.AppliedAt.UnixMicro())
		a.Outcome, a.Run, a.RecordedAt = "ISSUED", h.Run, &h.IssuedAt
	}
	return nil
}

const explainOutcomesSQL = `
SELECT o.applied_at, o.outcome, o.reason, COALESCE(o.run_id, 0), o.recorded_at,
       EXISTS (SELECT 1 FROM audit_event a WHERE a.user_id = o.user_id AND a.coupon_id = o.coupon_id AND a.run_id = o.run_id AND a.action = 'DLQ_DROPPED')
FROM application_outcome o WHERE o.coupon_id = ? AND o.user_id = ? ORDER BY o.applied_at DESC LIMIT ?`

func (f *Facts) readOutcomes(ctx context.Context, tx *sql.Tx, leftOut *int) error {
	rows, err := tx.QueryContext(ctx, explainOutcomesSQL, f.CouponID, f.UserID, mostOutcomes+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		if n > mostOutcomes {
			*leftOut++ // at least
			break
		}
		var o Application
		var recorded time.Time
		if err := rows.Scan(&o.AppliedAt, &o.Outcome, &o.Reason, &o.Run, &recorded, &o.Dropped); err != nil {
			return err
		}
		a := f.application(o.AppliedAt.UnixMicro())
		if a.Outcome == "ISSUED" {
			continue // an application is never both; `settle verify` says so where it is
		}
		a.Outcome, a.Reason, a.Run, a.RecordedAt, a.Dropped = o.Outcome, o.Reason, o.Run, &recorded, o.Dropped
	}
	return rows.Err()
}

const explainOrderSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND applied_at <= ?)
     + (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND applied_at <= ?)`

const explainRankSQL = `
SELECT COUNT(*) FROM application_outcome
WHERE coupon_id = ? AND outcome = 'NOT_SELECTED' AND (applied_at < ? OR (applied_at = ? AND user_id <= ?))`

// readLine finds out the place of the last application that was settled.
func (e *Explainer) readLine(ctx context.Context, tx *sql.Tx, f *Facts) error {
	a := f.latest()
	if a == nil {
		return nil
	}
	if f.Door != nil {
		var settled int64
		if err := tx.QueryRowContext(ctx, explainOrderSQL, f.CouponID, a.AppliedAt, f.CouponID, a.AppliedAt).Scan(&settled); err != nil {
			return err
		}
		if figures, err := e.Redis.Figures(ctx, f.CouponID, a.Arrival); err == nil { // else it is not told
			a.Order = settled + figures.Waiting - figures.WaitingBehind + figures.DLQ - figures.DLQBehind
		}
	}
	if a.Outcome != "NOT_SELECTED" {
		return nil
	}
	f.Missed = &Missed{Arrival: a.Arrival}
	if f.Coupon.LastSeated > 0 && f.Coupon.LastSeated < a.Arrival {
		f.Missed.Micros = a.Arrival - f.Coupon.LastSeated
	}
	return tx.QueryRowContext(ctx, explainRankSQL, f.CouponID, a.AppliedAt, a.AppliedAt, f.UserID).Scan(&f.Missed.Rank)
}

// explainRunsSQL finds the runs with a cutoff behind the user's first application that have a record of the coupon, and
// those that came to no good end, with this coupon or with everything, while something of the user's was to be settled.
const explainRunsSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, r.cutoff, r.started_at, r.heartbeat_at, r.finished_at, ` + runStatus + `,
       s.run_id IS NOT NULL, COALESCE(s.read_count, 0), COALESCE(s.issued_count, 0), COALESCE(s.not_selected_count, 0),
       COALESCE(s.last_arrival, 0), s.cleaned_at IS NOT NULL
FROM settlement_run r LEFT JOIN settlement s ON s.run_id = r.id AND s.coupon_id = ?
WHERE r.cutoff > ? AND (s.run_id IS NOT NULL AND r.started_at <= ? OR s.run_id IS NULL AND r.status <> 'SUCCEEDED' AND r.started_at <= ?
  AND (r.finished_at IS NULL OR EXISTS (SELECT 1 FROM run_coupon x WHERE x.run_id = r.id AND x.coupon_id = ?)))
ORDER BY r.id DESC LIMIT ?`

const explainRunSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, r.cutoff, r.started_at, r.heartbeat_at, r.finished_at, ` + runStatus + `,
       s.run_id IS NOT NULL, COALESCE(s.read_count, 0), COALESCE(s.issued_count, 0), COALESCE(s.not_selected_count, 0),
       COALESCE(s.last_arrival, 0), s.cleaned_at IS NOT NULL
FROM settlement_run r LEFT JOIN settlement s ON s.run_id = r.id AND s.coupon_id = ?
WHERE r.id = ?`

func (f *Facts) readRuns(ctx context.Context, tx *sql.Tx, leftOut *int) error {
	if len(f.Applications) > 0 {
		settled, unsettled := f.concernedUntil()
		first := f.Applications[0].AppliedAt
		if err := f.scanRuns(ctx, tx, mostRuns, leftOut, explainRunsSQL, SilentSeconds, f.CouponID, first, settled, unsettled, f.CouponID, mostRuns+1); err != nil {
			return err
		}
	}
	named := map[uint64]bool{0: true}
	for _, r := range f.Runs {
		named[r.ID] = true
	}
	wanted := []uint64{}
	for _, a := range f.Applications {
		wanted = append(wanted, a.Run)
		if a.Review != nil {
			wanted = append(wanted, a.Review.Run)
		}
	}
	if f.Held != nil {
		wanted = append(wanted, f.Held.Run)
	}
	for _, id := range wanted { // as many as outcomes at most
		if named[id] {
			continue
		}
		named[id] = true
		if err := f.scanRuns(ctx, tx, 1, leftOut, explainRunSQL, SilentSeconds, f.CouponID, id); err != nil {
			return err
		}
	}
	slices.SortFunc(f.Runs, func(a, b RunFacts) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// never is later than any run.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// concernedUntil is until when runs that settled the coupon concern the user, and until when those that did not: what
// comes behind the last outcome does no more, but for who is not selected and may still be given a seat.
func (f *Facts) concernedUntil() (settled, unsettled time.Time) {
	if queued, reviewed := f.undecided(); queued != nil || reviewed != nil {
		return never, never
	}
	for _, a := range f.Applications {
		if a.RecordedAt != nil && a.RecordedAt.After(unsettled) {
			unsettled = *a.RecordedAt
		}
	}
	if latest := f.latest(); f.Held == nil && latest != nil && latest.Outcome == "NOT_SELECTED" {
		return never, unsettled
	}
	return unsettled, unsettled
}

func (f *Facts) scanRuns(ctx context.Context, tx *sql.Tx, most int, leftOut *int, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		if n > most {
			*leftOut++ // at least
			break
		}
		var r RunFacts
		var finished sql.NullTime
		if err := rows.Scan(&r.ID, &r.Trigger, &r.Operator, &r.Reason, &r.Cutoff, &r.StartedAt, &r.HeartbeatAt, &finished, &r.Status,
			&r.Settled, &r.Read, &r.Issued, &r.NotSelected, &r.LastArrival, &r.Cleaned); err != nil {
			return err
		}
		r.FinishedAt = instant(finished)
		f.Runs = append(f.Runs, r)
	}
	return rows.Err()
}

// explainAuditsSQL are what was done to the user, and to the coupon as a whole. An event that stands in no chain was not
// written by the program, and is no fact: `settle verify` tells it.
const explainAuditsSQL = `
SELECT e.at, e.actor, e.action, COALESCE(e.run_id, 0), e.reason, e.detail FROM audit_event e
JOIN audit_head h ON h.coupon_id = e.coupon_id AND e.seq BETWEEN 1 AND h.seq
WHERE e.coupon_id = ? AND (e.user_id IS NULL OR e.user_id = ?)
ORDER BY e.seq DESC LIMIT ?`

func (f *Facts) readAudits(ctx context.Context, tx *sql.Tx, leftOut *int) (audits []Event, err error) {
	rows, err := tx.QueryContext(ctx, explainAuditsSQL, f.CouponID, f.UserID, mostAudits+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if len(audits) == mostAudits {
			*leftOut++ // at least
			break
		}
		e := Event{Kind: EventAudit}
		if err := rows.Scan(&e.At, &e.Actor, &e.Action, &e.Run, &e.Reason, &e.Detail); err != nil {
			return nil, err
		}
		audits = append(audits, e)
	}
	return audits, rows.Err()
}

func instant(t sql.NullTime) *time.Time {
	if !t.Valid {
		return nil
	}
	return &t.Time
}
