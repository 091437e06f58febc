package journal

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
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

// Honour puts a lost application back at its arrival, and moves one that stands at a later arrival to its own. Every
// other application is left alone.
//
// The audit event is committed first; Redis and the promise follow in a second transaction. Both hold the coupon's
// lock. After a crash in between, the operator's order is recorded but not carried out. A repetition finds the
// application as lost as before: it records another event, and carries it out. After a crash later on, it sets the
// promise right.
func (r *Restorer) Honour(ctx context.Context, origin audit.Origin, couponID coupon.CouponID, user coupon.UserID,
	arrival coupon.Arrival) (w Whereabouts, err error) {
	p := proof{user, arrival}
	err = r.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, attempt int) (err error) {
		w, err = r.order(ctx, tx, origin, couponID, p, attempt)
		return err
	})
	if err == nil && (w.Fate == Lost || w.Fate == Waiting) {
		done := w.Fate
		err = r.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
			w, err = r.carryOut(ctx, tx, origin, couponID, p)
			if w.Fate == PutBack || w.Fate == Moved {
				done = w.Fate
			} else if w.Fate == Waiting && done != Lost { // an earlier attempt has put it back
				w.Fate = done
			}
			return err
		})
	}
	return w, mysqltx.Wrap(err, "honour an application for coupon %d", couponID)
}

// order records that an operator wants the application back.
func (r *Restorer) order(ctx context.Context, tx *sql.Tx, origin audit.Origin, id coupon.CouponID, p proof,
	attempt int) (Whereabouts, error) {
	c, err := records.Lock(ctx, tx, id)
	if err != nil {
		return Whereabouts{}, err
	}
	w, err := r.find(ctx, tx, c, p)
	if err != nil || !w.honourable(p.arrival) {
		return w, err
	}
	if attempt > 1 { // an earlier attempt may have been committed
		recorded, err := audit.RecordedOfUser(ctx, tx, origin, audit.ReceiptHonoured, id, p.user)
		if err != nil || recorded {
			return w, err
		}
	}
	return w, audit.Append(ctx, tx, origin, audit.ReceiptHonoured, id,
		audit.Entry{User: p.user, Payload: audit.Honoured{Arrival: p.arrival}})
}

// carryOut puts the application back, if it is not yet, and keeps the promises in line with what is found.
func (r *Restorer) carryOut(ctx context.Context, tx *sql.Tx, origin audit.Origin, id coupon.CouponID,
	p proof) (Whereabouts, error) {
	c, err := records.Lock(ctx, tx, id)
	if err != nil {
		return Whereabouts{}, err
	}
	w, err := r.find(ctx, tx, c, p)
	if err == nil && w.honourable(p.arrival) {
		w, err = r.putBack(ctx, tx, c, p)
	}
	if err != nil || w.Fate == Final {
		return w, err
	}
	account, err := r.Ledger.Account(ctx, tx, id)
	if err != nil {
		return w, err
	}
	return w, r.keep(ctx, tx, id, account, Order{Operator: origin.Actor, Reason: origin.Reason, at: origin.At},
		audit.ReceiptHonoured, Restored{})
}

func (r *Restorer) putBack(ctx context.Context, tx *sql.Tx, c coupon.Coupon, p proof) (Whereabouts, error) {
	epoch, err := r.begin(ctx, c)
	if err != nil {
		return Whereabouts{}, err
	}
	if epoch == "" {
		return Whereabouts{Fate: Final}, nil
	}
	put, err := r.Line.PutBack(ctx, c.ID, []candidates.Answer{{User: p.user, Arrival: p.arrival}})
	if err != nil {
		return Whereabouts{}, err
	}
	w, err := r.find(ctx, tx, c, p)
	switch {
	case err != nil:
	case w.honourable(p.arrival):
		err = &coupon.Error{Class: coupon.Infrastructure, Err: errTakenOver}
	case put.Moved > 0:
		w.Fate = Moved
	case put.Back > 0:
		w.Fate = PutBack
	}
	return w, err
}

const (
	hasCouponSQL = "SELECT EXISTS (SELECT 1 FROM user_coupon WHERE coupon_id = ? AND user_id = ?)"
	outcomesSQL  = `
SELECT outcome = 'REJECTED', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) FROM application_outcome
WHERE coupon_id = ? AND user_id = ? ORDER BY applied_at`
)

// find looks into Redis first, and then into MySQL: a settled application is in MySQL before it leaves Redis.
func (r *Restorer) find(ctx context.Context, q mysqltx.Querier, c coupon.Coupon, p proof) (w Whereabouts, err error) {
	found, err := r.Line.Watch(ctx, c.ID, 0, p.user)
	if err != nil {
		return w, err
	}
	var has bool
	if err := q.QueryRowContext(ctx, hasCouponSQL, c.ID, p.user).Scan(&has); err != nil || has {
		return Whereabouts{Fate: Issued}, err
	}
	w.Fate = Lost
	if c.Finalised() {
		w.Fate = Final
	}
	err = mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var rejected bool
		var at coupon.Arrival
		err := rows.Scan(&rejected, &at)
		switch {
		case rejected:
			w = Whereabouts{Fate: Rejected, Arrival: at}
		case w.Fate != Rejected && at >= p.arrival:
			w = Whereabouts{Fate: NotSelected, Arrival: at}
		}
		return err
	}, outcomesSQL, c.ID, p.user)
	if err != nil || w.Fate == Rejected || w.Fate == NotSelected {
		return w, err
	}
	for _, entry := range found.Users[0].Entries {
		if entry.Source != coupon.SourceQueue {
			return Whereabouts{Fate: UnderReview, Arrival: entry.Arrival}, nil
		}
		w = Whereabouts{Fate: Waiting, Arrival: entry.Arrival, Position: found.Users[0].Position}
	}
	return w, nil
}
