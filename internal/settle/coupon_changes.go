package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Desk is where people change coupons: each change under the coupon's lock, kept in audit_event with the old and the new
// values, and refused where it would break a promise. A door that is to let in fewer is told before it is written, one that
// is to let in more when it has committed; the catalog tells it again. Safe to repeat, but for Create and for adding seats, which make and add more.
type Desk struct {
	DB     *mysqltx.DB
	Clock  Clock // judges windows, as at the door
	Doors  Doors
	Now    func() time.Time // for the record
	Person Person
}

// Person is in whose name a change is kept, and why.
type Person struct{ Operator, Reason string }

// Doors decide in Redis which applications are accepted, by the window that they were last given.
type Doors interface {
	// Shut ends the window now, or pauses the coupon. w is the window that the coupon's row still has. It returns the version
	// that the row is to have, and an instant behind every arrival. The caller holds the lock of the row and writes it
	// afterwards; if that fails, the catalog restores the window after some minutes. Safe to repeat.
	Shut(ctx context.Context, w coupon.Window, known coupon.Promise, pause bool) (version int64, end time.Time, err error)
	// Announce publishes a window, gives the coupon's keys the life that it asks for, and returns whether applying answers
	// SOLD_OUT: a run changes that, no operator. Safe to repeat.
	Announce(ctx context.Context, w coupon.Window, known coupon.Promise) (soldOut bool, err error)
	// CountMarked counts the users whom applying answers ALREADY_ISSUED and REJECTED.
	CountMarked(ctx context.Context, couponID coupon.CouponID) (issued, rejected int64, err error)
}

// CouponChange is what became of a change.
type CouponChange struct {
	Was, Is     coupon.Coupon
	Changed     bool      // false: it was so already, and nothing was written
	At          time.Time // by the Redis clock; zero where it was away
	ShutAt      time.Time // since when the door lets fewer in, by its clock: behind whoever it accepted; zero: not so, or not known
	NotSelected int       // who waits for free seats, when seats were added
	SoldOut     bool      // newcomers are told so, as far as the window lets them in
	Untold      error     // why it is not known whether the door goes by it; the catalog tells it again
}

// Close ends a coupon's window now. Who was accepted before stands.
func (d *Desk) Close(ctx context.Context, couponID coupon.CouponID) (*CouponChange, error) {
	return d.change(ctx, couponID, audit.CouponClosed, func(c *coupon.Coupon, now time.Time, _ facts) error {
		switch {
		case !c.FinalisedAt.IsZero():
			return refuse(RefusedFinalised, c.ID, c.FinalisedAt)
		case !c.OpensAt.Before(now):
			return refuse(RefusedNotOpen, c.ID, c.OpensAt)
		case c.ClosesAt.After(now):
			c.ClosesAt = now
		}
		return nil
	})
}

// Extend makes a coupon's window end later. One that has closed opens again: nobody can arrive below a settled cutoff,
// since the fence stands and the promise row remembers it. But the door must still know whom it has to turn away.
func (d *Desk) Extend(ctx context.Context, couponID coupon.CouponID, closes time.Time) (*CouponChange, error) {
	return d.change(ctx, couponID, audit.CouponExtended, func(c *coupon.Coupon, now time.Time, f facts) error {
		switch {
		case !c.FinalisedAt.IsZero():
			return refuse(RefusedFinalised, c.ID, c.FinalisedAt)
		case f.swept:
			return refuse(RefusedSwept, c.ID)
		case !closes.After(c.OpensAt):
			return refuse(RefusedEndsBeforeItOpens, c.ID, closes, c.OpensAt)
		case !closes.After(now):
			return refuse(RefusedPast, c.ID, closes, now)
		case closes.After(lastInstant):
			return refuse(RefusedFar, closes, lastInstant)
		case closes.Before(c.ClosesAt):
			return refuse(RefusedShorter, c.ID, closes, c.ClosesAt)
		case !c.ClosesAt.After(now):
			forgotten, err := f.forgotten()
			switch {
			case err == nil && forgotten && f.unfinished:
				err = refuse(RefusedUnfinished, c.ID)
			case err == nil && forgotten:
				err = refuse(RefusedForgotten, c.ID)
			}
			if err != nil {
				return err
			}
		}
		c.ClosesAt = closes.UTC().Truncate(time.Microsecond)
		return nil
	})
}

// Pause has the door turn newcomers away until Resume. While Redis is away the row is changed all the same.
func (d *Desk) Pause(ctx context.Context, couponID coupon.CouponID) (*CouponChange, error) {
	return d.pause(ctx, couponID, audit.CouponPaused, coupon.Paused)
}

// Resume undoes Pause.
func (d *Desk) Resume(ctx context.Context, couponID coupon.CouponID) (*CouponChange, error) {
	return d.pause(ctx, couponID, audit.CouponResumed, coupon.Open)
}

func (d *Desk) pause(ctx context.Context, couponID coupon.CouponID, action audit.Action, status coupon.Status) (*CouponChange, error) {
	return d.change(ctx, couponID, action, func(c *coupon.Coupon, _ time.Time, _ facts) error {
		if !c.FinalisedAt.IsZero() {
			return refuse(RefusedFinalised, c.ID, c.FinalisedAt)
		}
		c.Status = status
		return nil
	})
}

// AddSeats gives a coupon so many more seats.
func (d *Desk) AddSeats(ctx context.Context, couponID coupon.CouponID, more int) (*CouponChange, error) {
	return d.seats(ctx, couponID, func(c *coupon.Coupon) int { return c.TotalQuantity + more })
}

// SetSeats gives a coupon so many seats in all: fewer than before, too, but not fewer than are issued.
func (d *Desk) SetSeats(ctx context.Context, couponID coupon.CouponID, total int) (*CouponChange, error) {
	return d.seats(ctx, couponID, func(*coupon.Coupon) int { return total })
}

// seats: new ones go to whoever was not selected, by arrival, in the next run. A finalised coupon is due again for that;
// its account is complete without Redis, and a run sweeps and finalises it again.
func (d *Desk) seats(ctx context.Context, couponID coupon.CouponID, total func(*coupon.Coupon) int) (*CouponChange, error) {
	return d.change(ctx, couponID, audit.CouponSeats, func(c *coupon.Coupon, _ time.Time, f facts) error {
		switch n := total(c); {
		case n < c.IssuedCount:
			return refuse(RefusedFewerThanIssued, c.ID, c.IssuedCount, n)
		case n < 1 || n > MostSeats:
			return refuse(RefusedSeats, n, int64(MostSeats))
		default:
			c.TotalQuantity = n
		}
		awaitSeats(c, f)
		return nil
	})
}

// Recount makes issued_count the number of coupons there are: after somebody has written to the tables by hand, runs hold
// the coupon until it is.
func (d *Desk) Recount(ctx context.Context, couponID coupon.CouponID) (*CouponChange, error) {
	return d.change(ctx, couponID, audit.CouponRecounted, func(c *coupon.Coupon, _ time.Time, f facts) error {
		if f.coupons > c.TotalQuantity {
			return refuse(RefusedMoreThanSeats, c.ID, f.coupons, c.TotalQuantity)
		}
		c.IssuedCount = f.coupons
		awaitSeats(c, f)
		return nil
	})
}

// awaitSeats: a finalised coupon is due again when seats are free and somebody is NOT_SELECTED.
func awaitSeats(c *coupon.Coupon, f facts) {
	if c.TotalQuantity > c.IssuedCount && f.notSelected > 0 {
		c.FinalisedAt = time.Time{}
	}
}

// facts are what a change must know beside the row.
type facts struct {
	notSelected int
	coupons     int  // rows of user_coupon
	swept       bool // it was finalised once
	unfinished  bool // a settlement has committed, and Redis may not have heard

	forgotten func() (bool, error) // whether the door knows fewer whom it has to turn away than MySQL
}

// change makes one change. edit must be pure: it may run again.
func (d *Desk) change(ctx context.Context, couponID coupon.CouponID, action audit.Action, edit func(c *coupon.Coupon, now time.Time, f facts) error) (*CouponChange, error) {
	now, away := d.Clock.Now(ctx)
	if away != nil && !(judgesNoWindow(action) && mysqltx.ClassOf(away) == coupon.Infrastructure) {
		return nil, away
	}
	now = now.UTC().Truncate(time.Microsecond)
	r := d.signedRun()
	made := &CouponChange{At: now, Untold: away}
	tried := false
	err := d.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if _, err := lockCoupon(ctx, tx, couponID); err != nil {
			return err
		}
		again := tried
		tried = true
		if again { // a COMMIT whose reply was lost may have done it
			done, err := audit.RecordedBy(ctx, tx, r.origin(), action, couponID)
			if err != nil {
				return err
			}
			if done {
				made.Changed = true
				made.Is, err = selectRow(ctx, tx, couponID)
				return err
			}
		}
		row, err := selectRow(ctx, tx, couponID)
		if err != nil {
			return err
		}
		f, err := selectFacts(ctx, tx, couponID)
		if err != nil {
			return err
		}
		f.forgotten = func() (bool, error) { return d.forgotten(ctx, tx, couponID) }
		made.Was, made.NotSelected = row, f.notSelected
		if err := edit(&row, now, f); err != nil {
			return err
		}
		if made.Changed = row != made.Was; made.Changed {
			version, err := d.shut(ctx, made, &row)
			if err != nil {
				return err
			}
			if row != made.Was {
				err = d.write(ctx, tx, r, action, version, made, row)
			}
			if made.Changed = row != made.Was; err != nil {
				return err
			}
		}
		made.Is, err = selectRow(ctx, tx, couponID)
		return err
	})
	if err != nil {
		return nil, changeUnknown(couponID, err)
	}
	if made.Is.FinalisedAt.IsZero() && made.Untold == nil { // also where nothing was changed: the door may not have heard the last time
		made.SoldOut, made.Untold = d.Doors.Announce(ctx, made.Is.Window(), made.Is.Promise)
	}
	return made, nil
}

// shut has the door obey first where fewer are let in, so that the end that is written is the one that the door goes by: who
// is accepted until then lies before it, however long the row was waited for. Where more are let in, the row comes first. It
// returns the version that the row is to have. A pause that the door has not heard of is written all the same: it says of no
// instant that nobody came after it.
func (d *Desk) shut(ctx context.Context, made *CouponChange, is *coupon.Coupon) (version int64, err error) {
	closes, pauses := is.ClosesAt.Before(made.Was.ClosesAt), is.Paused() && !made.Was.Paused()
	if is.ClosesAt.Equal(made.Was.ClosesAt) && is.Status == made.Was.Status {
		return made.Was.Version, nil
	}
	if !closes && !pauses {
		return made.Was.Version + 1, nil
	}
	version, end, err := d.Doors.Shut(ctx, made.Was.Window(), made.Was.Promise, pauses)
	switch {
	case err != nil && pauses:
		return made.Was.Version + 1, nil
	case err != nil:
		return 0, &coupon.Error{Class: mysqltx.ClassOf(err), Err: told(DoorNotShut, made.Was.ID, err)}
	case closes:
		is.ClosesAt = end
	}
	made.At, made.ShutAt = end, end
	return version, nil
}

// judgesNoWindow are the changes that need no clock: they are made also while Redis is away, and it hears of them later.
func judgesNoWindow(action audit.Action) bool {
	return action == audit.CouponPaused || action == audit.CouponResumed
}

func (d *Desk) signedRun() run {
	return run{Order: Order{Operator: d.Person.Operator, Reason: d.Person.Reason}, startedAt: d.Now().UTC().Truncate(time.Microsecond)}
}

const updateRowSQL = `
UPDATE coupon SET total_quantity = ?, issued_count = ?, apply_closes_at = ?, status = ?, finalised_at = ?, version = ?
 WHERE id = ?`

func (d *Desk) write(ctx context.Context, tx *sql.Tx, r run, action audit.Action, version int64, made *CouponChange, is coupon.Coupon) error {
	finalised := sql.NullTime{Time: is.FinalisedAt, Valid: !is.FinalisedAt.IsZero()}
	if err := mysqltx.One(tx.ExecContext(ctx, updateRowSQL, is.TotalQuantity, is.IssuedCount, is.ClosesAt.UTC(), is.Status, finalised, version, is.ID)); err != nil {
		return fmt.Errorf("change coupon %d: %w", is.ID, err)
	}
	if made.Was.FinalisedAt != is.FinalisedAt {
		if err := r.audit(ctx, tx, audit.CouponUnfinalised, is.ID, audit.Entry{Detail: "so that a run gives the new seats"}); err != nil {
			return err
		}
	}
	detail := difference(made.Was, is)
	if is.Paused() && !made.ShutAt.IsZero() { // an end says it itself
		detail += ", door_shut_at " + stamp(made.ShutAt)
	}
	return r.audit(ctx, tx, action, is.ID, audit.Entry{Detail: detail})
}

// difference is old → new of what a change may change.
func difference(was, is coupon.Coupon) string {
	var parts []string
	note := func(what string, was, is any) {
		if was != is {
			parts = append(parts, fmt.Sprintf("%s %v → %v", what, was, is))
		}
	}
	note("total_quantity", was.TotalQuantity, is.TotalQuantity)
	note("issued_count", was.IssuedCount, is.IssuedCount)
	note("apply_closes_at", stamp(was.ClosesAt), stamp(is.ClosesAt))
	note("status", was.Status, is.Status)
	note("finalised_at", stamp(was.FinalisedAt), stamp(is.FinalisedAt))
	return strings.Join(parts, ", ")
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

const selectRowSQL = "SELECT " + coupon.Columns + ", " + coupon.PromiseColumns + `
FROM coupon c LEFT JOIN promise p ON p.coupon_id = c.id WHERE c.id = ?`

func selectRow(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (c coupon.Coupon, err error) {
	if err := tx.QueryRowContext(ctx, selectRowSQL, couponID).Scan(append(c.Fields(), c.Promise.Fields()...)...); err != nil {
		return c, fmt.Errorf("read coupon %d: %w", couponID, err)
	}
	return c, nil
}

const selectFactsSQL = `
SELECT (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?),
       EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = '` + string(audit.CouponUnfinalised) + `'),
       EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL)`

func selectFacts(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (f facts, err error) {
	if err := tx.QueryRowContext(ctx, selectFactsSQL, couponID, couponID, couponID, couponID).Scan(&f.notSelected, &f.coupons, &f.swept, &f.unfinished); err != nil {
		return f, fmt.Errorf("look at the past of coupon %d: %w", couponID, err)
	}
	return f, nil
}

const turnedAwaySQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(DISTINCT user_id) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED' AND user_id > 0)`

// forgotten: Redis is swept before it is committed that a coupon is finalised, and may have lost what it knew. MySQL counts no
// more than is marked once a settlement has told Redis; until then the next run does.
func (d *Desk) forgotten(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (bool, error) {
	var issued, rejected int64
	if err := tx.QueryRowContext(ctx, turnedAwaySQL, couponID, couponID).Scan(&issued, &rejected); err != nil {
		return false, fmt.Errorf("count who is turned away from coupon %d: %w", couponID, err)
	}
	markedIssued, markedRejected, err := d.Doors.CountMarked(ctx, couponID)
	return markedIssued < issued || markedRejected < rejected, err
}

// ChangeUnknown: the reply to COMMIT was lost, and nobody can tell whether a coupon was changed. No run finds that out, as it
// does for its own: making the change again could make it twice.
type ChangeUnknown struct {
	Coupon coupon.CouponID // 0: one that was to be created
	err    error
}

func (e *ChangeUnknown) Error() string {
	if e.Coupon == 0 {
		return fmt.Sprintf("whether the coupon was created could not be found out: look at `settle coupon list` before you create it again (%s)", e.err)
	}
	return fmt.Sprintf("whether coupon %d was changed could not be found out: look at `settle coupon show %d` before you repeat it (%s)", e.Coupon, e.Coupon, e.err)
}
func (e *ChangeUnknown) Unwrap() error { return e.err }

// changeUnknown is a failed change's error, told for whoever would repeat it.
func changeUnknown(couponID coupon.CouponID, err error) error {
	if unknown := new(mysqltx.CommitUnknown); errors.As(err, &unknown) {
		return &coupon.Error{Class: coupon.Infrastructure, Err: &ChangeUnknown{couponID, unknown.Err}}
	}
	return err
}

// errSent: creating once more could make a second coupon.
var errSent = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("the reply to COMMIT was lost")}
