package journal

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// Line is the part of Redis to which applications return. candidates.Store implements it.
type Line interface {
	Publish(ctx context.Context, w coupon.Window,
		known coupon.Promise) (now candidates.Published, published bool, err error)
	Missing(ctx context.Context, couponID coupon.CouponID,
		answers []candidates.Answer) (epoch string, missing []candidates.Answer, err error)
	PutBack(ctx context.Context, couponID coupon.CouponID, lost []candidates.Answer) (candidates.Restored, error)
	PutBackJournalled(ctx context.Context, couponID coupon.CouponID,
		lost []candidates.Answer) (candidates.Restored, error)
	ResumeJournal(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival) (resumed bool, err error)
	KeepRestored(ctx context.Context, couponID coupon.CouponID, epoch string, missing int64) (kept bool, err error)
	Counts(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (candidates.Counts, error)
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
	Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
		settled []coupon.Application) (removed int64, err error)
	Marked(ctx context.Context, couponID coupon.CouponID, mark coupon.Mark,
		after uint64) (users []string, next uint64, err error)
	Readmit(ctx context.Context, couponID coupon.CouponID, winners []candidates.Answer) (entered int64, err error)
}

// Restorer puts applications back that Redis has lost. All fields but Progress are required.
type Restorer struct {
	DB       *mysqltx.DB
	Line     Line
	Ledger   *ledger.Ledger
	Now      func() time.Time         // the time of audit events
	Progress func(compared, of int64) // called after each page of the journal
}

// Order says what to restore, and in whose name.
type Order struct {
	Coupon   coupon.CouponID
	Operator string // empty: the program itself
	Reason   string
	NoWait   bool // fail with a transient error if the coupon's row is locked
	DryRun   bool // change nothing, and count what would change

	// FromMarks enters users again whom Redis marks as issued although MySQL has no coupon of theirs: MySQL was
	// restored to before their settlement.
	FromMarks bool

	Ticket approval.Ticket // who restores, and the approval if the policy names restores

	at time.Time // of the audit events
}

// Restored says what a restore did.
type Restored struct {
	Compared int64 `json:"compared"` // rows of the journal
	Back     int64 `json:"putBack"`  // applications that Redis had lost
	Moved    int64 `json:"moved"`    // applications that stood at a later arrival, and now stand at their first one
	Marked   int64 `json:"marked"`   // users whom Redis did not know any more as issued or rejected
	Missing  int64 `json:"missing"`  // promises that are still missing
	Accepted int64 `json:"accepted"`

	// Winners who were entered again, because MySQL has forgotten them.
	FromMarks int64           `json:"fromMarks"`
	Unknown   []coupon.UserID `json:"unknown,omitempty"` // winners whose arrival the journal does not know

	Finalised bool `json:"-"` // the coupon is finalised: nothing was done

	Plan approval.Plan `json:"-"` // of a dry run
	// Of a dry run: over the applications that Redis has lost, and the winners whom MySQL has forgotten.
	lost hash.Hash
}

// note adds applications to the plan of a dry run.
func (r Restored) note(applications []candidates.Answer) {
	for _, a := range applications {
		fmt.Fprintf(r.lost, "%d %d\n", a.Arrival, a.User)
	}
}

func (r *Restored) plan(o Order) {
	r.Plan = approval.Plan{Action: approval.Restore, Coupon: o.Coupon,
		Arguments: map[string]string{"from-marks": fmt.Sprint(o.FromMarks)},
		Changes: []approval.Change{{What: "put back", To: fmt.Sprint(r.Back)},
			{What: "winners entered again", To: fmt.Sprint(r.FromMarks)},
			{What: "list", To: "sha256:" + hex.EncodeToString(r.lost.Sum(nil))}}}
}

// Changed reports whether anybody was put back or moved.
func (r Restored) Changed() bool { return r.Back+r.Moved+r.FromMarks > 0 }

// maxTakeovers bounds how often a restore begins again because another Redis server took over.
const maxTakeovers = 3

var errTakenOver = errors.New("another Redis server has taken over; repeat the restore")

// Restore puts back, at the lowest arrival that the journal knows, whoever is accounted for neither in Redis nor in
// MySQL. It is safe to repeat, and to kill at any step.
func (r *Restorer) Restore(ctx context.Context, o Order) (done Restored, err error) {
	o.at = r.Now().UTC().Truncate(time.Microsecond)
	lock := records.Lock
	if o.NoWait {
		lock = records.LockNow
	}
	db := r.DB
	if o.NoWait { // the caller comes again by itself
		db = mysqltx.NewBrief(db.Pool())
	}
	complete := false // the attempt before reached its COMMIT
	err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		before := done
		if complete || o.DryRun {
			before = Restored{}
		}
		complete = false
		defer func() { complete = err == nil }()
		c, err := lock(ctx, tx, o.Coupon)
		if err != nil {
			return err
		}
		done = Restored{Finalised: c.Finalised(), Back: before.Back, Moved: before.Moved, Marked: before.Marked,
			FromMarks: before.FromMarks}
		if done.Finalised {
			return nil
		}
		if err := r.permit(ctx, tx, c, o); err != nil {
			return err
		}
		o.Ticket.Expect = "" // another attempt finds what this one has put back
		for n := 1; ; n++ {
			again, err := r.restore(ctx, tx, c, o, &done)
			if err != nil || !again {
				return err
			}
			if n == maxTakeovers {
				return &coupon.Error{Class: coupon.Infrastructure, Err: errTakenOver}
			}
		}
	})
	return done, mysqltx.Wrap(approval.Void(ctx, r.DB, err), "restore coupon %d", o.Coupon)
}

// permit refuses a restore by an operator that needs an approval and has none. A restore by the program itself needs
// none.
func (r *Restorer) permit(ctx context.Context, tx *sql.Tx, c coupon.Coupon, o Order) error {
	if o.DryRun || o.Operator == "" {
		return nil
	}
	needed, err := o.Ticket.Needed(ctx, tx, approval.Restore)
	if err != nil || !needed {
		return err
	}
	// An attempt whose COMMIT got no reply may have used it.
	if used, err := audit.Recorded(ctx, tx, o.origin(), audit.ApprovalUsed, o.Coupon); err != nil || used {
		return err
	}
	dry := o
	dry.DryRun = true
	var planned Restored
	if _, err := r.restore(ctx, tx, c, dry, &planned); err != nil {
		return err
	}
	return o.Ticket.Use(ctx, tx, planned.Plan, o.origin())
}

func (o Order) origin() audit.Origin {
	return audit.Origin{At: o.at, Actor: o.Operator, SignIn: o.Ticket.Person.SignIn, Reason: o.Reason}
}

// RestoreCoupon is Restore for a settlement, which has released the coupon's lock.
func (r *Restorer) RestoreCoupon(ctx context.Context, couponID coupon.CouponID, noWait bool) error {
	_, err := r.Restore(ctx, Order{Coupon: couponID, NoWait: noWait})
	return err
}

// restore compares the coupon once. again reports that another Redis server took over meanwhile.
func (r *Restorer) restore(ctx context.Context, tx *sql.Tx, c coupon.Coupon, o Order,
	done *Restored) (again bool, err error) {
	epoch := ""
	if !o.DryRun {
		if epoch, err = r.begin(ctx, c); err != nil || epoch == "" {
			return false, err
		}
		if err := r.resume(ctx, tx, c.ID); err != nil {
			return false, err
		}
		marked, err := r.mark(ctx, tx, c)
		if done.Marked += marked; err != nil {
			return false, err
		}
	}
	done.Compared, done.lost = 0, sha256.New()
	of, err := count(ctx, tx, c.ID)
	if err != nil {
		return false, err
	}
	for last := (row{}); ; {
		page, err := readRows(ctx, tx, c.ID, last)
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			break
		}
		last = page[len(page)-1]
		if again, err := r.comparePage(ctx, tx, c, page, epoch, o.DryRun, done); err != nil || again {
			return again, err
		}
		done.Compared += int64(len(page))
		if r.Progress != nil {
			r.Progress(done.Compared, max(of, done.Compared))
		}
	}
	if o.FromMarks {
		if err := r.fromMarks(ctx, tx, c, o.DryRun, done); err != nil {
			return false, err
		}
	}
	account, err := r.Ledger.Account(ctx, tx, c.ID)
	if err != nil {
		return false, err
	}
	if done.Accepted, done.Missing = account.Accepted, max(account.Gap(), 0); o.DryRun {
		done.Missing = max(done.Missing-done.Back-done.FromMarks, 0)
		done.plan(o)
		return false, nil
	}
	if err := r.keep(ctx, tx, c.ID, account, o, audit.ApplicationsRestored, *done); err != nil {
		return false, err
	}
	kept, err := r.Line.KeepRestored(ctx, c.ID, epoch, done.Missing)
	return !kept, err
}

// begin publishes the window, so that Redis has the coupon's state, and returns its epoch. The epoch is empty if the
// coupon was swept from Redis, so that every application has its outcome.
func (r *Restorer) begin(ctx context.Context, c coupon.Coupon) (epoch string, err error) {
	if _, _, err := r.Line.Publish(ctx, c.Window(), c.Promise); err != nil {
		return "", err
	}
	begun, err := r.Line.PutBack(ctx, c.ID, nil)
	if err == nil && begun.Code == candidates.RestoreNoWindow {
		err = &coupon.Error{Class: coupon.Infrastructure, Err: errTakenOver}
	}
	return begun.Epoch, err
}

const upToSQL = "SELECT COALESCE(MAX(up_to), 0) FROM journal WHERE coupon_id = ?"

// resume keeps the journal from reading again what the restore puts back.
func (r *Restorer) resume(ctx context.Context, tx *sql.Tx, id coupon.CouponID) error {
	var upTo coupon.Arrival
	if err := tx.QueryRowContext(ctx, upToSQL, id).Scan(&upTo); err != nil {
		return mysqltx.Wrap(err, "read the journal of coupon %d", id)
	}
	_, err := r.Line.ResumeJournal(ctx, id, upTo)
	return err
}

// row is a row of line_journal.
type row struct {
	arrival coupon.Arrival
	user    coupon.UserID
}

const (
	countSQL = "SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?"
	rowsSQL  = `
SELECT arrival, user_id FROM line_journal
WHERE coupon_id = ? AND arrival >= ? AND (arrival > ? OR user_id > ?) ORDER BY arrival, user_id LIMIT ?`
)

func count(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (n int64, err error) {
	err = tx.QueryRowContext(ctx, countSQL, id).Scan(&n)
	return n, mysqltx.Wrap(err, "count the journal of coupon %d", id)
}

func readRows(ctx context.Context, tx *sql.Tx, id coupon.CouponID, after row) ([]row, error) {
	page, err := mysqltx.Collect(ctx, tx, func(r *row) []any { return []any{&r.arrival, &r.user} },
		rowsSQL, id, after.arrival, after.arrival, after.user, MaxRows)
	return page, mysqltx.Wrap(err, "read the journal of coupon %d", id)
}

// comparePage looks into Redis first, and then into MySQL: a settled application is in MySQL before it leaves Redis.
func (r *Restorer) comparePage(ctx context.Context, tx *sql.Tx, c coupon.Coupon, page []row, epoch string, dryRun bool,
	done *Restored) (again bool, err error) {
	missing, again, err := r.missing(ctx, c.ID, page, epoch, dryRun)
	if err != nil || again {
		return again, err
	}
	lost, err := unsettled(ctx, tx, c.ID, missing)
	if err != nil {
		return false, err
	}
	if dryRun {
		done.note(lost)
		done.Back += int64(len(lost))
		return false, nil
	}
	return r.putAllBack(ctx, c.ID, lost, epoch, done)
}

// missing returns whom of a page of the journal Redis does not have at that arrival.
func (r *Restorer) missing(ctx context.Context, id coupon.CouponID, page []row, epoch string,
	dryRun bool) (missing []candidates.Answer, again bool, err error) {
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for part := range slices.Chunk(page, candidates.MaxAnswers) {
		answers := make([]candidates.Answer, len(part))
		for i, one := range part {
			answers[i] = candidates.Answer{User: one.user, Arrival: one.arrival}
		}
		on, found, err := r.Line.Missing(ctx, id, answers)
		if err != nil {
			return nil, false, err
		}
		if !dryRun && on != epoch {
			return nil, true, nil
		}
		missing = append(missing, found...)
	}
	return missing, false, nil
}

func (r *Restorer) putAllBack(ctx context.Context, id coupon.CouponID, lost []candidates.Answer, epoch string,
	done *Restored) (again bool, err error) {
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for part := range slices.Chunk(lost, candidates.MaxRestored) {
		put, err := r.Line.PutBackJournalled(ctx, id, part)
		if err != nil {
			return false, err
		}
		done.Back, done.Moved = done.Back+int64(put.Back), done.Moved+int64(put.Moved)
		if put.Epoch != epoch {
			return true, nil
		}
	}
	return false, nil
}

const (
	settledCouponsSQL = `
SELECT user_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at), FALSE FROM user_coupon
WHERE coupon_id = ? AND run_id IS NOT NULL AND user_id IN `
	settledOutcomesSQL = `
SELECT user_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at), outcome = 'REJECTED' FROM application_outcome
WHERE coupon_id = ? AND user_id IN `
)

// unsettled leaves out the users who have the coupon from a run or were rejected, and the applications with an outcome
// of their arrival or a later one. A user who got the coupon from an operator may still wait: the next run settles
// that.
func unsettled(ctx context.Context, tx *sql.Tx, id coupon.CouponID,
	missing []candidates.Answer) (lost []candidates.Answer, err error) {
	if len(missing) == 0 {
		return nil, nil
	}
	users := make([]coupon.UserID, len(missing))
	for i, a := range missing {
		users[i] = a.User
	}
	settledUpTo := make(map[coupon.UserID]coupon.Arrival)
	read := func(query string, final bool) error {
		return mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
			var user coupon.UserID
			var at coupon.Arrival
			var rejected bool
			if err := rows.Scan(&user, &at, &rejected); err != nil {
				return err
			}
			if final || rejected {
				at = coupon.MaxArrival
			}
			settledUpTo[user] = max(settledUpTo[user], at)
			return nil
		}, query+mysqltx.In(len(missing)), args(id, users)...)
	}
	if err := errors.Join(read(settledCouponsSQL, true), read(settledOutcomesSQL, false)); err != nil {
		return nil, mysqltx.Wrap(err, "look for outcomes of coupon %d", id)
	}
	for _, a := range missing {
		if settledUpTo[a.User] < a.Arrival {
			lost = append(lost, a)
		}
	}
	return lost, nil
}

const lessWrittenOffSQL = "UPDATE promise SET written_off = written_off - ? WHERE coupon_id = ?"

// keep writes what the restore has found out: who came back is not written off any more, and no application that is
// found lacks a promise. An excess would hide as many losses.
func (r *Restorer) keep(ctx context.Context, tx *sql.Tx, id coupon.CouponID, a ledger.Account, o Order,
	action audit.Action, done Restored) error {
	excess := max(-a.Gap(), 0)
	less := min(excess, a.WrittenOff)
	a.Accepted += excess - less
	if err := records.KeepPromise(ctx, tx, id, a, o.at); err != nil {
		return err
	}
	if less > 0 {
		if err := mysqltx.Exec(ctx, tx, 1, lessWrittenOffSQL, less, id); err != nil {
			return mysqltx.Wrap(err, "lower written_off of coupon %d", id)
		}
	}
	if !done.Changed() && less == 0 {
		return nil
	}
	payload := audit.Payload(audit.Restored{Back: done.Back, Moved: done.Moved, FromMarks: done.FromMarks,
		WrittenOff: less, Missing: done.Missing})
	if action == audit.ReceiptHonoured {
		payload = audit.Honoured{WrittenOff: less}
	}
	return audit.Append(ctx, tx, o.origin(), action, id, audit.Entry{Payload: payload})
}
