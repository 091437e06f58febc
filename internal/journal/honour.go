package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/records"
)

// Fate is what became of an application that somebody can prove.
type Fate string

const (
	PutBack     Fate = "PUT_BACK" // Honour has entered it
	Moved       Fate = "MOVED"    // Honour has moved it to its own arrival
	Waiting     Fate = "WAITING"  // in the queue, perhaps at a later arrival
	UnderReview Fate = "UNDER_REVIEW"
	Issued      Fate = "ISSUED" // the user has the coupon, or had it until it was revoked
	NotSelected Fate = "NOT_SELECTED"
	Rejected    Fate = "REJECTED"
	Final       Fate = "FINAL" // found nowhere, and the coupon is finalised
	Lost        Fate = "LOST"  // found nowhere
)

// Whereabouts says where an application is.
type Whereabouts struct {
	Fate     Fate
	Arrival  coupon.Arrival // of the queue or DLQ entry, or of the outcome; 0: none
	Position int64          // in the queue, from 1; 0: not in the queue
	Plan     approval.Plan  // of a dry run; of no action if nothing would change
}

// honourable reports whether Honour changes something for an application of this arrival.
func (w Whereabouts) honourable(arrival coupon.Arrival) bool {
	return w.Fate == Lost || w.Fate == Waiting && w.Arrival > arrival
}

// Find says what became of a user's application with this arrival. It changes nothing.
func (r *Restorer) Find(ctx context.Context, couponID coupon.CouponID, user coupon.UserID,
	arrival coupon.Arrival) (w Whereabouts, err error) {
	err = r.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		c, err := records.Coupon(ctx, q, couponID)
		if err == nil {
			w, err = r.find(ctx, q, c, proof{user, arrival})
		}
		return err
	})
	return w, mysqltx.Wrap(err, "look for an application for coupon %d", couponID)
}

// proof is an application that somebody can prove.
type proof struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// HonourOrder says whose application to put back, and in whose name.
type HonourOrder struct {
	Coupon  coupon.CouponID
	User    coupon.UserID
	Arrival coupon.Arrival
	Receipt string // that proves it, for who approves
	Origin  audit.Origin
	Ticket  approval.Ticket
	DryRun  bool // change nothing
}

func (o HonourOrder) proof() proof { return proof{o.User, o.Arrival} }

// plan says what a second person approves.
func (o HonourOrder) plan(is Whereabouts) approval.Plan {
	stamp := func(at coupon.Arrival) string { return at.Time().UTC().Format(time.RFC3339Nano) }
	change := approval.Change{What: "arrival", To: stamp(o.Arrival)}
	if is.Arrival > 0 {
		change.From = stamp(is.Arrival)
	}
	return approval.Plan{Action: approval.Honour, Coupon: o.Coupon, User: o.User,
		Arguments: map[string]string{"receipt": o.Receipt}, Changes: []approval.Change{change}}
}

// errPlanned rolls a dry run back.
var errPlanned = &coupon.Error{Class: coupon.Setup, Err: errors.New("a plan is rolled back")}

// Honour puts a lost application back at its arrival, and moves one that stands at a later arrival to its own. Every
// other application is left alone.
//
// The row of the journal and the audit event are committed first; Redis follows in a second transaction. Both hold the
// coupon's lock. After a crash in between, the next restore enters the application, as any that is in the journal.
func (r *Restorer) Honour(ctx context.Context, o HonourOrder) (w Whereabouts, err error) {
	p := o.proof()
	err = r.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		w, err = r.order(ctx, tx, o)
		return err
	})
	if errors.Is(err, errPlanned) {
		return w, nil
	}
	if err == nil && (w.Fate == Lost || w.Fate == Waiting) {
		done := w.Fate
		err = r.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
			w, err = r.carryOut(ctx, tx, o.Coupon, p)
			if w.Fate == PutBack || w.Fate == Moved {
				done = w.Fate
			} else if w.Fate == Waiting && done != Lost { // an earlier attempt has put it back
				w.Fate = done
			}
			return err
		})
	}
	return w, mysqltx.Wrap(approval.Void(ctx, r.DB, err), "honour an application for coupon %d", o.Coupon)
}

// order records that an operator wants the application back.
func (r *Restorer) order(ctx context.Context, tx *sql.Tx, o HonourOrder) (Whereabouts, error) {
	p, id := o.proof(), o.Coupon
	c, err := records.Lock(ctx, tx, id)
	if err != nil {
		return Whereabouts{}, err
	}
	w, err := r.find(ctx, tx, c, p)
	if err != nil || !w.honourable(p.arrival) {
		return w, err
	}
	plan := o.plan(w)
	if o.DryRun {
		w.Plan = plan
		return w, errPlanned
	}
	// An earlier call may have recorded it, and failed afterwards. Then only Redis is to follow.
	honoured := audit.Honoured{Arrival: p.arrival}
	done, err := audit.Happened(ctx, tx, audit.ReceiptHonoured, id, p.user, honoured)
	if err == nil && !done {
		err = o.Ticket.Use(ctx, tx, plan, o.Origin)
	}
	if err == nil {
		err = promise.AddRows(ctx, tx, id, []coupon.Answer{{User: p.user, Arrival: p.arrival}})
	}
	if err != nil || done {
		return w, err
	}
	return w, audit.Append(ctx, tx, o.Origin, audit.ReceiptHonoured, id,
		audit.Entry{User: p.user, Payload: honoured})
}

// carryOut enters the application, if it does not stand yet, and raises the promises to what is found.
func (r *Restorer) carryOut(ctx context.Context, tx *sql.Tx, id coupon.CouponID, p proof) (Whereabouts, error) {
	c, err := records.Lock(ctx, tx, id)
	if err != nil {
		return Whereabouts{}, err
	}
	w, err := r.find(ctx, tx, c, p)
	if err != nil || !w.honourable(p.arrival) {
		return w, err
	}
	if _, _, err := r.Line.Publish(ctx, c.Window(), c.Known); err != nil {
		return w, err
	}
	look, err := r.Line.Look(ctx, id, coupon.Known{Highest: c.Known, Opens: c.OpensAt})
	if err != nil {
		return w, err
	}
	entry := candidates.Entry{Answer: coupon.Answer{User: p.user, Arrival: p.arrival}}
	put, err := r.Line.Enter(ctx, id, look.Epoch, []candidates.Entry{entry})
	switch {
	case err != nil:
		return w, err
	case put.Epoch != look.Epoch:
		return w, promise.ErrTakenOver
	}
	if w, err = r.find(ctx, tx, c, p); err != nil {
		return w, err
	}
	if put.Moved > 0 {
		w.Fate = Moved
	} else if put.Entered > 0 {
		w.Fate = PutBack
	}
	account, err := r.Ledger.Account(ctx, tx, id)
	if err != nil {
		return w, err
	}
	done, err := r.Line.AddExcess(ctx, id, look.Epoch, account.Settled()-account.InBoth)
	if err == nil && !done {
		err = promise.ErrTakenOver
	}
	return w, err
}

// find looks into Redis first, and then into MySQL: a settled application is in MySQL before it leaves Redis.
func (r *Restorer) find(ctx context.Context, q mysqltx.Querier, c coupon.Coupon, p proof) (w Whereabouts, err error) {
	found, err := r.Line.Watch(ctx, c.ID, 0, p.user)
	if err != nil {
		return w, err
	}
	pasts, err := readPasts(ctx, q, c.ID, p.user)
	past := pasts[p.user]
	if err != nil || past.byRun || past.byHand {
		return Whereabouts{Fate: Issued}, err
	}
	for _, o := range past.outcomes {
		switch {
		case o.Outcome == coupon.OutcomeRejected:
			w = Whereabouts{Fate: Rejected, Arrival: o.Arrival}
		case w.Fate != Rejected && p.arrival < past.accountedBelow() && o.Arrival >= w.Arrival:
			w = Whereabouts{Fate: NotSelected, Arrival: o.Arrival}
		}
	}
	if w.Fate != "" {
		return w, nil
	}
	w.Fate = Lost
	if c.Finalised() {
		w.Fate = Final
	}
	for _, entry := range found.Users[0].Entries {
		if entry.Source != coupon.SourceQueue {
			return Whereabouts{Fate: UnderReview, Arrival: entry.Arrival}, nil
		}
		w = Whereabouts{Fate: Waiting, Arrival: entry.Arrival, Position: found.Users[0].Position}
	}
	return w, nil
}
