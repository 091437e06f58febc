package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
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
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/sleep"
)

// Line is the part of Redis to which applications return. candidates.Store implements it.
type Line interface {
	Publish(ctx context.Context, w coupon.Window,
		known coupon.Arrival) (now candidates.Published, published bool, err error)
	Look(ctx context.Context, couponID coupon.CouponID, known coupon.Known) (coupon.Look, error)
	Absent(ctx context.Context, couponID coupon.CouponID, answers []coupon.Answer) ([]coupon.Answer, error)
	Enter(ctx context.Context, couponID coupon.CouponID, epoch string,
		entries []candidates.Entry) (candidates.Entered, error)
	Returned(ctx context.Context, couponID coupon.CouponID,
		after uint64) (all []coupon.Application, next uint64, err error)
	TakeReturned(ctx context.Context, couponID coupon.CouponID, handled []coupon.Application) error
	EndRestore(ctx context.Context, couponID coupon.CouponID, e candidates.Ending) (candidates.Ended, error)
	AddExcess(ctx context.Context, couponID coupon.CouponID, epoch string, settled int64) (done bool, err error)
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
	Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
		settled []coupon.Application) (removed int64, err error)
	Marked(ctx context.Context, couponID coupon.CouponID, mark coupon.Mark,
		after uint64) (users []coupon.Application, next uint64, err error)
}

// Restorer enters again whom Redis has lost. All fields but Progress and HandOverTime are required.
type Restorer struct {
	DB       *mysqltx.DB
	Line     Line
	Ledger   *ledger.Ledger
	Now      func() time.Time         // the time of audit events
	Progress func(compared, of int64) // called after each page of the journal

	HandOverTime time.Duration // that pods need; zero: candidates.HandOverTime
}

// Order says what to restore, and in whose name.
type Order struct {
	Coupon   coupon.CouponID
	Operator string // empty: the program itself
	Reason   string
	NoWait   bool // fail with a transient error if the coupon's row is locked
	Quiet    bool // pods have just compared their memory, and do not so again
	DryRun   bool // change nothing, and count what would change

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

	// Those of Back whom only their marks knew: MySQL has lost their settlement.
	FromMarks int64 `json:"fromMarks"`
	// Promises that the journal has seen accepted, and that neither the new server nor MySQL knows.
	Unknown int64 `json:"unknown"`
	// Rows of the journal that cannot be, or not yet: before the opening, or ahead of the clock.
	Impossible int64 `json:"impossible"`

	Finalised bool `json:"-"` // the coupon is finalised: nothing was done

	// How long until the last of those Impossible can be entered who are ahead of the clock by at most waitedFor; 0:
	// none is. Another restore is then due.
	Again time.Duration `json:"-"`

	Plan approval.Plan `json:"-"` // of a dry run
	lost hash.Hash     // of a dry run: over the applications that Redis has lost
}

func (r *Restored) plan(o Order) {
	r.Plan = approval.Plan{Action: approval.Restore, Coupon: o.Coupon,
		Changes: []approval.Change{{What: "put back", To: fmt.Sprint(r.Back)},
			{What: "list", To: "sha256:" + hex.EncodeToString(r.lost.Sum(nil))}}}
}

// Changed reports whether anybody was entered or moved.
func (r Restored) Changed() bool { return r.Back+r.Moved > 0 }

// Restore enters again, at the arrival that the journal knows, whoever is accounted for nowhere. It waits until pods
// have had time to hand over whom they know. It is safe to repeat, and to kill at any step. The error is
// promise.ErrTakenOver if another Redis server takes over meanwhile.
func (r *Restorer) Restore(ctx context.Context, o Order) (done Restored, err error) {
	one := &restore{Restorer: r, db: r.DB, lock: records.Lock, order: o, done: &done}
	if o.NoWait { // the caller comes again by itself
		one.db, one.lock = mysqltx.NewBrief(r.DB.Pool()), records.LockNow
	}
	return done, mysqltx.Wrap(approval.Void(ctx, r.DB, one.phases(ctx)), "restore coupon %d", o.Coupon)
}

// RestoreCoupon is Restore for a settlement, which has released the coupon's lock. It restores a second time once those
// can be entered who are a little ahead of the clock, or, if people are missing, once pods have had time to hand over
// whom they know. The end of the first one makes them compare, unless it has only taken whom they had handed over.
func (r *Restorer) RestoreCoupon(ctx context.Context, couponID coupon.CouponID) error {
	order := Order{Coupon: couponID}
	done, err := r.Restore(ctx, order)
	wait := done.Again
	if done.Missing > 0 {
		wait = max(wait, cmp.Or(r.HandOverTime, candidates.HandOverTime))
	}
	if err == nil && wait > 0 {
		if err = sleep.For(ctx, wait); err == nil {
			order.Quiet = true
			_, err = r.Restore(ctx, order)
		}
	}
	return err
}

func (o Order) origin() audit.Origin {
	return audit.Origin{At: o.at, Actor: o.Operator, SignIn: o.Ticket.Person.SignIn, Reason: o.Reason}
}

// restore is a restore at work.
type restore struct {
	*Restorer
	db    *mysqltx.DB
	lock  func(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (coupon.Coupon, error)
	order Order
	done  *Restored
	plan  *approval.Plan // that needs an approval; nil: not made yet

	tx     *sql.Tx // has the lock of the coupon's row
	coupon coupon.Coupon

	// When it began:
	look     coupon.Look          // at the server with which it compares the journal
	missing  int64                // promises
	back     int64                // how many former attempts have entered
	again    bool                 // pods compare their memory once more: more was due than to take returned
	asked    int64                // restores that were asked for
	returned []coupon.Application // users who were handed over

	later int64 // applications in the journal that lie ahead of the clock
}

// first reports whether no restore of the epoch has ended before.
func (r *restore) first() bool { return !r.look.Restored }

// phases waits, compares the coupon with the Redis server, and lets Redis note the end.
func (r *restore) phases(ctx context.Context) error {
	if !r.order.DryRun {
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	r.order.at = r.Now().UTC().Truncate(time.Microsecond)
	if err := r.locked(ctx, r.run); err != nil || r.done.Finalised || r.order.DryRun {
		return err
	}
	// Only now may Redis note the end: nobody would come back for what MySQL lacks.
	return r.locked(ctx, r.end)
}

// wait waits until a restore may begin. Of a finalised coupon, Redis may have nothing any more, and gets nothing.
func (r *restore) wait(ctx context.Context) error {
	var c coupon.Coupon
	err := r.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		c, err = records.Coupon(ctx, q, r.order.Coupon)
		return err
	})
	if err != nil || c.Finalised() {
		return err
	}
	look, err := r.Line.Look(ctx, c.ID, coupon.Known{Highest: c.Known, Opens: c.OpensAt})
	if err == nil && look.RestoresIn > 0 && !look.Restored {
		err = sleep.For(ctx, look.RestoresIn)
	}
	return err
}

// locked runs work in a transaction that has the lock of the coupon's row.
func (r *restore) locked(ctx context.Context, work func(ctx context.Context) error) error {
	return r.db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		if r.coupon, err = r.lock(ctx, tx, r.order.Coupon); err != nil {
			return err
		}
		r.tx = tx
		if r.done.Finalised = r.coupon.Finalised(); r.done.Finalised {
			return nil
		}
		return work(ctx)
	})
}

// run compares the coupon.
func (r *restore) run(ctx context.Context) error {
	if err := r.permit(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	if r.order.DryRun {
		return r.foresee(ctx)
	}
	accepted, err := r.adopt(ctx)
	if err != nil {
		return err
	}
	if err := r.walk(ctx); err != nil {
		return err
	}
	issued, err := r.mark(ctx)
	if err != nil {
		return err
	}
	if err := r.enterMarked(ctx, issued); err != nil {
		return err
	}
	return r.record(ctx, accepted)
}

// permit refuses a restore by an operator that needs an approval and has none. A restore by the program itself needs
// none.
func (r *restore) permit(ctx context.Context) error {
	o := r.order
	if o.DryRun || o.Operator == "" {
		return nil
	}
	needed, err := o.Ticket.Needed(ctx, r.tx, approval.Restore)
	if err != nil || !needed {
		return err
	}
	// An attempt whose COMMIT got no reply may have used it.
	if used, err := audit.Recorded(ctx, r.tx, o.origin(), audit.ApprovalUsed, o.Coupon); err != nil || used {
		return err
	}
	if r.plan == nil {
		dry, planned := *r, Restored{}
		dry.order.DryRun, dry.done = true, &planned
		if err := dry.run(ctx); err != nil {
			return err
		}
		r.plan = &planned.Plan
	}
	return o.Ticket.Use(ctx, r.tx, *r.plan, o.origin())
}

// foresee says what a restore would do.
func (r *restore) foresee(ctx context.Context) error {
	*r.done = Restored{lost: sha256.New()}
	if err := r.walk(ctx); err != nil {
		return err
	}
	account, err := r.Ledger.Account(ctx, r.tx, r.coupon.ID)
	if err != nil {
		return err
	}
	r.done.Accepted, r.done.Missing = account.Accepted, max(account.Gap()-r.done.Back, 0)
	r.done.plan(r.order)
	return nil
}

// begin publishes the window, so that Redis has the coupon's state, and reads what is missing.
func (r *restore) begin(ctx context.Context) error {
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	id, dry := r.coupon.ID, r.order.DryRun
	if !dry {
		if _, _, err := r.Line.Publish(redis, r.coupon.Window(), r.coupon.Known); err != nil {
			return err
		}
	}
	var err error
	r.look, err = r.Line.Look(redis, id,
		coupon.Known{Highest: r.coupon.Known, Opens: r.coupon.OpensAt, Observe: dry})
	switch {
	case err != nil:
		return err
	case !dry && r.look.RestoresIn > 0 && r.first():
		return promise.ErrTakenOver
	}
	books, err := promise.Read(ctx, r.tx, id)
	r.missing, r.back = books.Missing(r.look.Line), r.done.Back
	taking := books.Due(r.look.Line) == promise.HandedOver && books.Asked == 0 && r.order.Operator == ""
	r.again = r.again || !taking && !r.order.Quiet
	return err
}

// beside runs work in a transaction of its own, which is committed at once. The session that has the coupon's lock must
// not be silent meanwhile: work calls alive between two statements that may wait for locks.
func (r *restore) beside(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) error) error {
	return mysqltx.NewBrief(r.DB.Pool()).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if err := r.alive(ctx); err != nil {
			return err
		}
		if err := promise.Begin(ctx, tx, r.coupon.ID); err != nil { // it locks the row, too
			return err
		}
		return work(ctx, tx)
	})
}

const aliveSQL = "SELECT 1"

func (r *restore) alive(ctx context.Context) error {
	return r.tx.QueryRowContext(ctx, aliveSQL).Scan(new(int))
}

const lockJournalSQL = "SELECT epoch, up_to, accepted, asked FROM journal WHERE coupon_id = ? FOR UPDATE"

// adopt commits those handed over to the journal, and returns its count of accepted. It waits for a copy under way:
// what the copy has read is then in the journal, too.
func (r *restore) adopt(ctx context.Context) (accepted int64, err error) {
	err = r.beside(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var mark promise.Mark
		err := tx.QueryRowContext(ctx, lockJournalSQL, r.coupon.ID).
			Scan(&mark.Epoch, &mark.UpTo, &accepted, &r.asked)
		if err != nil {
			return mysqltx.Wrap(err, "lock the journal of coupon %d", r.coupon.ID)
		}
		r.returned = nil
		for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
			if err := r.alive(ctx); err != nil {
				return err
			}
			page, next, err := r.returnedPage(ctx, cursor)
			if err != nil {
				return err
			}
			if err := r.addRows(ctx, tx, r.answersOf(page)); err != nil {
				return err
			}
			r.returned, cursor = append(r.returned, page...), next
		}
		return nil
	})
	return accepted, err
}

// wroteSQL lets written_at grow by the least: after a fall of MySQL, it stays behind that of the last copy.
const wroteSQL = "UPDATE journal SET written_at = written_at + INTERVAL 1 MICROSECOND WHERE coupon_id = ?"

// addRows adds applications of the past to the journal. No copy reads them again, unless MySQL falls back to before.
func (r *restore) addRows(ctx context.Context, tx *sql.Tx, all []coupon.Answer) error {
	if len(all) == 0 {
		return nil
	}
	if err := promise.AddRows(ctx, tx, r.coupon.ID, all); err != nil {
		return err
	}
	return mysqltx.Exec(ctx, tx, 1, wroteSQL, r.coupon.ID)
}

func (r *restore) returnedPage(ctx context.Context, after uint64) ([]coupon.Application, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	page, next, err := r.Line.Returned(ctx, r.coupon.ID, after)
	if err != nil { // a repetition at once would lock the row for as long again
		err = &coupon.Error{Class: mysqltx.ClassOf(err), Err: err}
	}
	return page, next, err
}

// answersOf leaves out members that are no users, which were written by hand, and arrivals before the opening: nobody
// could delete their rows. Who is ahead of the clock gets a row: the clock of the server before may have been wrong,
// and a later restore enters them.
func (r *restore) answersOf(all []coupon.Application) (answers []coupon.Answer) {
	for _, a := range all {
		if user := a.User(); user != 0 && r.deservesARow(a.Arrival) {
			answers = append(answers, coupon.Answer{User: user, Arrival: a.Arrival})
		}
	}
	return answers
}

// unfoundSQL bounds the sum as table journal does: accepted may have been written by hand.
const unfoundSQL = `
UPDATE journal SET accepted = LEAST(accepted, ?), unfound = LEAST(unfound + ?, 9007199254740991) WHERE coupon_id = ?`

// record writes what the restore has done, and how many promises are unknown: those that the journal has seen accepted,
// that the first restore of an epoch does not find below its start, and that the server does not miss by its own count.
func (r *restore) record(ctx context.Context, accepted int64) error {
	id, origin := r.coupon.ID, r.order.origin()
	account, err := r.Ledger.Account(ctx, r.tx, id)
	if err != nil {
		return err
	}
	missing := max(account.Gap(), 0)
	// With the epoch in the journal, the server was compared before: somebody has written in Redis that it was not.
	if r.first() && account.Books.Epoch != r.look.Epoch {
		redis, cancel := mysqltx.Meanwhile(ctx)
		defer cancel()
		look, err := r.Line.Look(redis, id, coupon.Known{After: r.look.Since - 1})
		if err != nil {
			return err
		}
		older := look.Waiting + look.DLQ - look.WaitingAfter - look.DLQAfter
		if err := r.warn(ctx, accepted, older+account.Settled()-account.InBoth+missing+r.later); err != nil {
			return err
		}
	}
	if !r.done.Changed() {
		return nil
	}
	// An attempt whose COMMIT got no reply may have recorded it.
	if recorded, err := audit.Recorded(ctx, r.tx, origin, audit.ApplicationsRestored, id); err != nil || recorded {
		return err
	}
	if !r.first() {
		missing -= min(missing, r.done.Moved)
	}
	return audit.Append(ctx, r.tx, origin, audit.ApplicationsRestored, id, audit.Entry{Payload: audit.Restored{
		Back: r.done.Back - r.done.FromMarks, Moved: r.done.Moved, FromMarks: r.done.FromMarks, Missing: missing}})
}

// warn notes that fewer promises are known than the journal has seen accepted.
func (r *restore) warn(ctx context.Context, accepted, known int64) error {
	id, unknown := r.coupon.ID, accepted-known
	if unknown <= 0 {
		return nil
	}
	r.done.Unknown = unknown
	if err := mysqltx.Exec(ctx, r.tx, 1, unfoundSQL, known, unknown, id); err != nil {
		return mysqltx.Wrap(err, "write the journal of coupon %d", id)
	}
	return audit.Append(ctx, r.tx, r.order.origin(), audit.PromiseUnknown, id,
		audit.Entry{Payload: audit.UnknownPromises{Accepted: accepted, Known: known}})
}

const (
	highestSQL  = "SELECT COALESCE(MAX(arrival), 0) FROM line_journal WHERE coupon_id = ? AND arrival <= ?"
	restoredSQL = `
UPDATE journal SET epoch = ?, up_to = ?, asked = GREATEST(asked - LEAST(asked, ?), ?), accepted = LEAST(accepted, ?)
WHERE coupon_id = ?`
)

// end notes in Redis, and in table journal, that the server was compared with the journal. No copy is under way then:
// it would not know of an accepted that is lowered, or of a last that is set back.
func (r *restore) end(ctx context.Context) error {
	id := r.coupon.ID
	var mark promise.Mark
	var highest coupon.Arrival
	err := r.tx.QueryRowContext(ctx, lockJournalSQL, id).Scan(&mark.Epoch, &mark.UpTo, new(int64), new(int64))
	if err != nil {
		return mysqltx.Wrap(err, "lock the journal of coupon %d", id)
	}
	look, err := r.Line.Look(ctx, id, coupon.Known{Observe: true})
	if err != nil {
		return err
	}
	last := look.Latest() // a copy may have come as far since the restore began, but no further
	if err := r.tx.QueryRowContext(ctx, highestSQL, id, last).Scan(&highest); err != nil {
		return mysqltx.Wrap(err, "read the journal of coupon %d", id)
	}
	account, err := r.Ledger.Account(ctx, r.tx, id)
	if err != nil {
		return err
	}
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for some := range slices.Chunk(r.returned, candidates.MaxTaken) {
		if err := r.Line.TakeReturned(redis, id, some); err != nil {
			return err
		}
	}
	ending := candidates.Ending{Epoch: r.look.Epoch, Settled: account.Settled(), InBoth: account.InBoth,
		Began:   max(0, r.missing-(r.done.Back-r.back)),
		Highest: max(highest, min(max(mark.UpTo, r.coupon.Known), last)), Compare: r.again}
	ended, err := r.Line.EndRestore(redis, id, ending)
	switch {
	case err != nil:
		return err
	case !ended.Done:
		return promise.ErrTakenOver
	}
	r.done.Missing, r.done.Accepted = ended.Missing, ended.Accepted
	if account.Sums != account.Stored { // rows were changed by hand: by wrong sums, restores would be due for ever
		if err := records.KeepSums(ctx, r.tx, id, account.Sums); err != nil {
			return err
		}
	}
	mark = begin(mark, r.look.Epoch, r.look.Since)
	err = mysqltx.Exec(ctx, r.tx, 1, restoredSQL, mark.Epoch, mark.UpTo, r.asked, r.done.Again > 0, ended.Accepted, id)
	r.asked = 0 // a repetition after a lost COMMIT would answer others
	return mysqltx.Wrap(err, "write the journal of coupon %d", id)
}
