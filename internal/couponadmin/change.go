// Package couponadmin changes coupons for operators: create, edit, close, extend, pause, resume, add seats, recount,
// freeze, unfreeze, change the cadence. It also grants, revokes, reissues and extends the coupon of one user.
//
// Each change is one transaction under the coupon's row lock. audit_event records the old and the new values. A change
// that would break a promise returns an error and changes nothing.
//
// Redis accepts applications by the window that was published last. A close or a pause goes to Redis before MySQL
// records it, so that no application is accepted after the recorded end. Any other change is published after COMMIT; if
// that fails, the next refresh of the catalog publishes it.
//
// A policy can name every change, which is then made only with an approval: see package approval. With DryRun a change
// is planned under the lock, and rolled back.
//
// Every change except AddSeats is safe to repeat, and Create if its coupon has a key. If the reply to COMMIT is lost,
// the transaction runs again and does nothing if it finds its audit event, or its coupon.
package couponadmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

type Redis interface {
	Now(ctx context.Context) (time.Time, error)
	// StopApplying makes Redis refuse new applications: it closes the window, or pauses the coupon. The caller has
	// locked the row, and writes the returned version into it. end is later than every arrival. If the caller
	// does not commit, the catalog restores the window.
	StopApplying(ctx context.Context, w coupon.Window, known coupon.Arrival,
		pause bool) (version int64, end time.Time, err error)
	// Announce publishes a window and renews the expiry of the coupon's keys. soldOut is set if Redis answers SOLD_OUT.
	Announce(ctx context.Context, w coupon.Window, known coupon.Arrival) (soldOut bool, err error)
	// CountMarked returns how many users Redis answers ALREADY_ISSUED, and how many it answers REJECTED.
	CountMarked(ctx context.Context, couponID coupon.CouponID) (issued, rejected int64, err error)
	// Remove with coupon.MarkIssued makes Redis answer ALREADY_ISSUED to the users. Arrival 0 says: given by hand.
	Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
		entries []coupon.Application) (removed int64, err error)
	// Observe looks at a coupon, and changes nothing.
	Observe(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (coupon.Look, error)
	// CountUndecided returns how many applications are in the queue, and how many in the DLQ.
	CountUndecided(ctx context.Context, couponID coupon.CouponID) (waiting, dlq int64, err error)
}

// Config is what an Admin needs. All fields but the last two are required.
type Config struct {
	DB       *mysqltx.DB
	Redis    Redis
	Now      func() time.Time // the time of the audit events
	Operator string
	Reason   string

	DryRun bool            // plan only
	Ticket approval.Ticket // who makes the change, and the approval of one that the policy names
}

type Admin struct{ Config }

func New(config Config) (*Admin, error) {
	if config.DB == nil || config.Redis == nil || config.Now == nil || config.Operator == "" || config.Reason == "" {
		return nil, errors.New("couponadmin: a field of Config is missing")
	}
	return &Admin{config}, nil
}

type Change struct {
	Before, After coupon.Coupon // Before is zero for a new coupon
	Changed       bool          // false: the coupon was already as requested, and nothing was written
	// Time of the change by the Redis clock; if Redis was unreachable, zero or the time of MySQL.
	At          time.Time
	NotSelected int           // number of users with the outcome NOT_SELECTED
	SoldOut     bool          // Redis answers SOLD_OUT; false if announced is false
	Skipped     int           // ids before that of a new coupon: Redis has their people, MySQL has lost the coupons
	PublishErr  error         // Redis may not have the new window; the catalog publishes it again
	Plan        approval.Plan // what was approved, or is to be approved; of no action if nothing changes

	announced bool // Redis has taken the window, and SoldOut is its answer
}

type operation struct {
	action       audit.Action
	asked        approval.Plan // action and arguments
	withoutRedis bool          // the change is possible while Redis is unreachable
	needsTime    bool          // plan reads now, also while Redis is unreachable
	rowOnly      bool          // the change concerns MySQL alone: Redis is not asked
	reopens      bool          // the window may move, which has not opened
	endsNow      bool          // the window ends at the moment of the change, which no plan can have
	needsQueue   bool          // plan reads facts.waiting and facts.dlq
	// needsMarks reports whether plan reads facts.marksLost. nil means that it never does.
	needsMarks func(old coupon.Coupon, now time.Time) bool
	// plan returns the changed coupon, or a *text.UsageError if the change is refused. It has no side effects.
	plan func(old coupon.Coupon, now time.Time, f facts) (coupon.Coupon, error)
}

func (a *Admin) change(ctx context.Context, couponID coupon.CouponID, op operation) (*Change, error) {
	now, clockErr := a.clock(ctx, op)
	if clockErr != nil && !(op.withoutRedis && mysqltx.ClassOf(clockErr) == coupon.Infrastructure) {
		return nil, clockErr
	}
	origin := a.origin()
	var made Change
	err := a.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, attempt int) error {
		old, err := lock(ctx, tx, couponID)
		if err != nil {
			return err
		}
		if attempt > 1 { // an earlier attempt may have been committed
			done, err := audit.Recorded(ctx, tx, origin, op.action, couponID)
			if err != nil {
				return err
			}
			if done {
				made.Changed, made.After = true, old
				return nil
			}
		}
		made = Change{Before: old, At: now, PublishErr: clockErr}
		return a.apply(ctx, tx, &made, origin, op)
	})
	switch {
	case errors.Is(err, errDryRun):
		return &made, nil
	case err != nil:
		return nil, approval.Void(ctx, a.DB, changeUnknown(couponID, err))
	}
	// A change that changed nothing is announced, too: Redis may lack an earlier one.
	if !op.rowOnly && !made.After.Finalised() && made.PublishErr == nil {
		made.SoldOut, made.PublishErr = a.Redis.Announce(ctx, made.After.Window(), made.After.Known)
		made.announced = made.PublishErr == nil
	}
	return &made, nil
}

// clock returns the Redis time; zero for a change that does not ask Redis.
func (a *Admin) clock(ctx context.Context, op operation) (now time.Time, err error) {
	if !op.rowOnly {
		now, err = a.Redis.Now(ctx)
	}
	return now.UTC().Truncate(time.Microsecond), err
}

func (a *Admin) apply(ctx context.Context, tx *sql.Tx, made *Change, origin audit.Origin, op operation) error {
	f, err := readFacts(ctx, tx, made.Before.ID)
	if err != nil {
		return err
	}
	if op.needsMarks != nil && op.needsMarks(made.Before, made.At) {
		if f.marksLost, err = a.marksLost(ctx, tx, made.Before, f.holders); err != nil {
			return err
		}
	}
	if op.needsQueue {
		if err := a.readQueue(ctx, made, &f); err != nil {
			return err
		}
	}
	if op.needsTime && made.At.IsZero() {
		if made.At, err = timeOfMySQL(ctx, tx, made.Before); err != nil {
			return err
		}
	}
	made.NotSelected = f.notSelected
	if made.After, err = op.plan(made.Before, made.At, f); err != nil {
		return err
	}
	if made.Changed = made.After != made.Before; !made.Changed {
		return nil
	}
	if made.After.TotalQuantity < made.Before.TotalQuantity {
		if err := a.nobodyIsOwedASeat(ctx, tx, made.Before.ID); err != nil {
			return err
		}
	}
	made.Plan = op.planned(made.Before, made.After)
	if err := a.permit(ctx, tx, made.Plan, origin); err != nil {
		return err
	}
	if op.reopens {
		if err := a.reopen(ctx, tx, made, origin, op); err != nil {
			return err
		}
		return write(ctx, tx, origin, op.action, *made, time.Time{})
	}
	shutAt, err := a.shut(ctx, tx, made, func() error { return rehearse(ctx, tx, origin, op.action, *made) })
	if err != nil {
		return err
	}
	withoutVersion := made.After
	withoutVersion.Version = made.Before.Version
	if made.Changed = withoutVersion != made.Before; !made.Changed { // Redis returned the end that the row already has
		made.After = made.Before
		return nil
	}
	return write(ctx, tx, origin, op.action, *made, shutAt)
}

// planned is what a second person approves.
func (op operation) planned(was, is coupon.Coupon) approval.Plan {
	plan := op.asked
	plan.CostWon = max(0, is.Discount.Cost(int64(is.TotalQuantity))-was.Discount.Cost(int64(was.TotalQuantity)))
	plan.Changes = []approval.Change{}
	add := func(what string, from, to any) {
		if from != to {
			plan.Changes = append(plan.Changes, approval.Change{What: what, From: fmt.Sprint(from), To: fmt.Sprint(to)})
		}
	}
	closes := stamp(is.ClosesAt)
	if op.endsNow {
		closes = "now"
	}
	add("name", was.Name, is.Name)
	add("total_quantity", was.TotalQuantity, is.TotalQuantity)
	add("issued_count", was.IssuedCount, is.IssuedCount)
	add("apply_opens_at", stamp(was.OpensAt), stamp(is.OpensAt))
	add("apply_closes_at", stamp(was.ClosesAt), closes)
	add("discount-won", was.DiscountWon, is.DiscountWon)
	add("discount-percent", was.DiscountPercent, is.DiscountPercent)
	add("discount-max-won", was.DiscountMaxWon, is.DiscountMaxWon)
	add("minimum-won", was.MinimumWon, is.MinimumWon)
	add("validity-days", was.ValidityDays, is.ValidityDays)
	add("campaign", orNone(was.CampaignID), orNone(is.CampaignID))
	add("status", was.Status, is.Status)
	add("cadence", was.Cadence, is.Cadence)
	add("frozen", was.Frozen, is.Frozen)
	return plan
}

// errDryRun rolls a planned change back.
var errDryRun = &coupon.Error{Class: coupon.Setup, Err: errors.New("a plan is rolled back")}

// permit ends a dry run, and refuses a change that needs an approval and has none.
func (a *Admin) permit(ctx context.Context, tx *sql.Tx, plan approval.Plan, origin audit.Origin) error {
	if a.DryRun {
		return errDryRun
	}
	return a.Ticket.Use(ctx, tx, plan, origin)
}

// readQueue counts the applications in Redis. It publishes the window first: a pause that Redis does not have yet would
// let users apply after the count. It reads the clock again, because the lock may have been waited for.
func (a *Admin) readQueue(ctx context.Context, made *Change, f *facts) error {
	if !made.Before.Finalised() {
		if _, err := a.Redis.Announce(ctx, made.Before.Window(), made.Before.Known); err != nil {
			return err
		}
	}
	now, err := a.Redis.Now(ctx)
	if err != nil {
		return err
	}
	made.At = now.UTC().Truncate(time.Microsecond)
	f.waiting, f.dlq, err = a.Redis.CountUndecided(ctx, made.Before.ID)
	return err
}

const journalledSQL = "SELECT COALESCE(MAX(arrival), 0) FROM line_journal WHERE coupon_id = ? AND arrival <= ?"

// timeOfMySQL returns the time of MySQL, or the instant after the last arrival that MySQL knows, whichever is later. It
// is not after the end of the window. A row of the journal more than coupon.MaxAhead ahead of the clock was written by
// hand.
func timeOfMySQL(ctx context.Context, tx *sql.Tx, c coupon.Coupon) (time.Time, error) {
	now, err := mysqltx.Now(ctx, tx)
	if err != nil {
		return now, err
	}
	var journalled coupon.Arrival
	if err := tx.QueryRowContext(ctx, journalledSQL, c.ID,
		coupon.ArrivalAt(now.Add(coupon.MaxAhead))).Scan(&journalled); err != nil {
		return now, fmt.Errorf("read the journal of coupon %d: %w", c.ID, err)
	}
	last := max(c.Known, journalled)
	return min(max(coupon.ArrivalAt(now), last+1), coupon.ArrivalAt(c.ClosesAt)).Time(), nil
}

// rehearse writes what will be written, and undoes it except for its locks: MySQL refuses a change, or lets it wait,
// before Redis knows of it. Nobody is then turned away by a change that is not made.
func rehearse(ctx context.Context, tx *sql.Tx, origin audit.Origin, action audit.Action, made Change) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT rehearsed"); err != nil {
		return mysqltx.Wrap(err, "set savepoint")
	}
	if err := write(ctx, tx, origin, action, made, time.Time{}); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT rehearsed")
	return mysqltx.Wrap(err, "undo a rehearsal")
}

// shut sets the version of the new row. For a close or a pause it first makes Redis refuse new applications. A close
// gets its end from Redis, later than every arrival. If Redis is unreachable, the change is recorded nevertheless: then
// a close lets the pods have their time to publish it, so that nobody is accepted after the end.
func (a *Admin) shut(ctx context.Context, tx *sql.Tx, made *Change,
	rehearse func() error) (shutAt time.Time, err error) {
	was, is := made.Before, &made.After
	closes, pauses := is.ClosesAt.Before(was.ClosesAt), is.Paused() && !was.Paused()
	if is.ClosesAt.Equal(was.ClosesAt) && is.Status == was.Status {
		return time.Time{}, nil
	}
	is.Version = was.Version + 1
	if !closes && !pauses {
		return time.Time{}, nil
	}
	if err := rehearse(); err != nil {
		return time.Time{}, err
	}
	version, end, err := a.Redis.StopApplying(ctx, was.Window(), was.Known, pauses)
	switch {
	case err != nil && pauses:
		return time.Time{}, nil
	case err != nil && mysqltx.ClassOf(err) == coupon.Infrastructure:
		now, err := timeOfMySQL(ctx, tx, was)
		if is.ClosesAt = now.Add(publishTime); is.ClosesAt.After(was.ClosesAt) {
			is.ClosesAt = was.ClosesAt
		}
		return time.Time{}, err
	case err != nil:
		return time.Time{}, &coupon.Error{Class: mysqltx.ClassOf(err), Err: text.Errorf(text.DoorNotShut, was.ID, err)}
	case closes:
		is.ClosesAt = end
	}
	is.Version, made.At = version, end
	return end, nil
}

// publishTime is how long a pod may take applications after a close that Redis did not get: it reads the window every
// five seconds, and the clocks of Redis and MySQL differ by less than five.
const publishTime = 10 * time.Second

const updateSQL = `
UPDATE coupon SET total_quantity = ?, issued_count = ?, apply_closes_at = ?, status = ?, finalised_at = ?, version = ?,
       cadence = ?, frozen = ?, name = ?, apply_opens_at = ?, campaign_id = NULLIF(?, 0), validity_days = ?,
       discount_won = ?, discount_percent = ?, discount_max_won = ?, minimum_won = ?
 WHERE id = ?`

func write(ctx context.Context, tx *sql.Tx, origin audit.Origin, action audit.Action, made Change,
	shutAt time.Time) error {
	if err := update(ctx, tx, origin, made); err != nil {
		return err
	}
	is := made.After
	change := audit.ChangeOf(made.Before, is)
	if is.Paused() && !shutAt.IsZero() { // a close has this instant as its new apply_closes_at
		change.StoppedAt = new(shutAt.UTC())
	}
	return audit.Append(ctx, tx, origin, action, is.ID, audit.Entry{Payload: change, Seats: made.seats()})
}

// seats is by how much the change moves total_quantity.
func (c Change) seats() int64 { return int64(c.After.TotalQuantity) - int64(c.Before.TotalQuantity) }

// update writes the coupon's row. An audit event tells if the coupon is no longer finalised.
func update(ctx context.Context, tx *sql.Tx, origin audit.Origin, made Change) error {
	is := made.After
	if made.Before.Finalised() && !is.Finalised() {
		unfinalised := audit.Entry{Payload: audit.Unfinalised{}}
		if err := audit.Append(ctx, tx, origin, audit.CouponUnfinalised, is.ID, unfinalised); err != nil {
			return err
		}
	}
	finalised := sql.NullTime{Time: is.FinalisedAt, Valid: is.Finalised()}
	if err := mysqltx.Exec(ctx, tx, 1, updateSQL, is.TotalQuantity, is.IssuedCount, is.ClosesAt.UTC(), is.Status,
		finalised, is.Version, is.Cadence, is.Frozen, is.Name, is.OpensAt.UTC(), is.CampaignID,
		is.ValidityDays, is.DiscountWon, is.DiscountPercent, is.DiscountMaxWon, is.MinimumWon, is.ID); err != nil {
		return fmt.Errorf("change coupon %d: %w", is.ID, err)
	}
	return nil
}

func orNone(id uint64) string {
	if id == 0 {
		return approval.None
	}
	return strconv.FormatUint(id, 10)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return approval.None
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func (a *Admin) origin() audit.Origin {
	return audit.Origin{At: a.Now().UTC().Truncate(time.Microsecond), Actor: a.Operator, SignIn: a.Ticket.Person.SignIn,
		Reason: a.Reason}
}

const purgedSQL = "SELECT EXISTS (SELECT 1 FROM purged_coupon WHERE coupon_id = ?)"

// lock reads the coupon and locks its row, which keeps settlements of this coupon out. A coupon that is being purged is
// refused.
func lock(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (c coupon.Coupon, err error) {
	err = tx.QueryRowContext(ctx, coupon.LockSQL, id).Scan(c.FieldsWithKnown()...)
	purged, missing := false, errors.Is(err, sql.ErrNoRows)
	if err == nil || missing {
		if failed := tx.QueryRowContext(ctx, purgedSQL, id).Scan(&purged); failed != nil {
			return c, fmt.Errorf("read purge of coupon %d: %w", id, failed)
		}
	}
	switch {
	case purged:
		return c, text.UsageErrorf(text.CouponIsPurged, id)
	case missing:
		return c, &coupon.Error{Class: coupon.Setup, Err: text.MissingErrorf(text.NoSuchCoupon, id)}
	case err != nil:
		return c, fmt.Errorf("lock coupon %d: %w", id, err)
	}
	return c, nil
}

type facts struct {
	notSelected    int  // number of users with the outcome NOT_SELECTED
	holders        int  // number of the coupon's rows in user_coupon
	swept          bool // the coupon was finalised once, and its Redis keys were deleted
	pendingCleanup bool // a settlement is committed, but its results may not be in Redis yet
	marksLost      bool // the result of Admin.marksLost; set only if operation.needsMarks returns true

	waiting, dlq int64 // number of applications in the queue and in the DLQ; set only with operation.needsQueue
}

const factsSQL = `
SELECT (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?),
       EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = '` + string(audit.CouponUnfinalised) + `'),
       EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL)`

func readFacts(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (f facts, err error) {
	if err := tx.QueryRowContext(ctx, factsSQL, id, id, id, id).Scan(&f.notSelected, &f.holders, &f.swept,
		&f.pendingCleanup); err != nil {
		return f, fmt.Errorf("read the outcomes of coupon %d: %w", id, err)
	}
	return f, nil
}

const (
	givenByHandSQL = `
SELECT user_id FROM user_coupon WHERE coupon_id = ? AND user_id > ? AND run_id IS NULL ORDER BY user_id LIMIT ?`
	rejectedSQL = "SELECT COUNT(DISTINCT user_id) FROM application_outcome WHERE coupon_id = ? AND outcome = " +
		"'REJECTED' AND user_id > 0"
)

// marksLost reports whether Redis has fewer holders or fewer rejected users than MySQL. If holders are missing, it
// first marks those who were given the coupon by hand: Redis may have been unreachable then.
func (a *Admin) marksLost(ctx context.Context, tx *sql.Tx, c coupon.Coupon, holders int) (bool, error) {
	var rejected int64
	if err := tx.QueryRowContext(ctx, rejectedSQL, c.ID).Scan(&rejected); err != nil {
		return false, fmt.Errorf("count rejected users of coupon %d: %w", c.ID, err)
	}
	issued, markedRejected, err := a.Redis.CountMarked(ctx, c.ID)
	if err == nil && issued < int64(holders) {
		if err = a.markGiven(ctx, tx, c); err == nil {
			issued, _, err = a.Redis.CountMarked(ctx, c.ID)
		}
	}
	return issued < int64(holders) || markedRejected < rejected, err
}

// markGiven marks everybody who was given the coupon by hand.
func (a *Admin) markGiven(ctx context.Context, tx *sql.Tx, c coupon.Coupon) error {
	for after := coupon.UserID(0); ; {
		users, err := mysqltx.Column[coupon.UserID](ctx, tx, givenByHandSQL, c.ID, after, listPage)
		if err != nil || len(users) == 0 {
			return mysqltx.Wrap(err, "read who was given coupon %d by hand", c.ID)
		}
		if err := a.markIssued(ctx, c, users...); err != nil {
			return err
		}
		after = users[len(users)-1]
	}
}

// markIssued makes Redis answer ALREADY_ISSUED to users, and leaves the queue as it is.
func (a *Admin) markIssued(ctx context.Context, c coupon.Coupon, users ...coupon.UserID) error {
	entries := make([]coupon.Application, len(users))
	for i, user := range users {
		entries[i] = coupon.Application{Member: user.Member()}
	}
	_, err := a.Redis.Remove(ctx, c.ID, c.ClosesAt, coupon.MarkIssued, entries)
	return err
}

// changeUnknown tells the operator to check whether an unconfirmed COMMIT took effect. couponID is 0 for a new coupon.
func changeUnknown(couponID coupon.CouponID, err error) error {
	unknown, ok := errors.AsType[*mysqltx.CommitUnknown](err)
	switch {
	case !ok:
		return err
	case couponID == 0:
		err = text.Errorf(text.CreationUnknown, unknown.Err)
	default:
		err = text.Errorf(text.ChangeUnknown, couponID, unknown.Err)
	}
	return &coupon.Error{Class: coupon.Infrastructure, Err: err}
}
