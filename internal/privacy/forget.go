package privacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/seal"
	"github.com/jajeong/jajeong/internal/text"
)

// Forgotten says what Forget deleted and what remains. It does not name the user, because the log of a Job may keep it.
type Forgotten struct {
	Coupons      []coupon.CouponID `json:"coupons"`      // changed by this call
	Applications int               `json:"applications"` // deleted outcomes
	AuditEvents  int               `json:"auditEvents"`  // events that do not name the user any more
	Remains      Remains           `json:"remains"`
}

// Remains counts what still names the user.
type Remains struct {
	Coupons       int `json:"coupons"`       // issued coupons: evidence until settle purge
	AlreadyIssued int `json:"alreadyIssued"` // outcomes beside an issued coupon
	NotFinalised  int `json:"notFinalised"`  // outcomes and marks of coupons that were not finalised five minutes ago
	AuditEvents   int `json:"auditEvents"`   // those of coupons that are not finalised
}

// Forget deletes the user's outcomes NOT_SELECTED and REJECTED in finalised coupons, and takes the user out of their
// audit events. Each coupon is one transaction. It is safe to repeat: what is gone is not counted again. It returns a
// *text.UsageError and changes nothing while an application of the user may still get a coupon.
func Forget(ctx context.Context, db *mysqltx.DB, redis Redis, user coupon.UserID,
	origin audit.Origin) (*Forgotten, error) {
	p, redisErr, err := Read(ctx, db.Pool(), redis, user)
	if err = errors.Join(err, redisErr); err != nil { // an unknown queue may have an application of the user
		return nil, err
	}
	if open := p.obtainable; len(open) > 0 {
		return nil, text.UsageErrorf(text.UserStillWaits,
			strings.ReplaceAll(strings.Trim(fmt.Sprint(open), "[]"), " ", ", "))
	}
	done := &Forgotten{Coupons: []coupon.CouponID{}}
	for _, id := range p.erasable() {
		outcomes, events, err := forgetIn(ctx, db, id, user, origin)
		if err != nil {
			return nil, err
		}
		if outcomes+events > 0 {
			done.Coupons = append(done.Coupons, id)
		}
		done.Applications += outcomes
		done.AuditEvents += events
	}
	if err := db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return mysqltx.Upsert(ctx, q, forgetApprovalsSQL, user)
	}); err != nil {
		return nil, mysqltx.Wrap(err, "forget a user in approvals")
	}
	p, redisErr, err = Read(ctx, db.Pool(), redis, user)
	if err = errors.Join(err, redisErr); err != nil {
		return nil, err
	}
	done.Remains = p.remains()
	return done, nil
}

// erasable are the coupons with rows that may go, if they are finalised. Of one that the user has, that is the journal.
func (p *Person) erasable() []coupon.CouponID {
	found := map[coupon.CouponID]bool{}
	for _, c := range p.Coupons {
		found[c.Coupon] = true
	}
	for _, a := range p.Applications {
		if a.erasable && a.Outcome != coupon.OutcomeAlreadyIssued {
			found[a.Coupon] = true
		}
	}
	for _, e := range p.AuditEvents {
		if e.erasable {
			found[*e.Coupon] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (p *Person) remains() (r Remains) {
	r.Coupons, r.AuditEvents = len(p.Coupons), len(p.AuditEvents)
	for _, a := range p.Applications {
		switch {
		case !a.erasable:
			r.NotFinalised++
		case a.Outcome == coupon.OutcomeAlreadyIssued:
			r.AlreadyIssued++
		}
	}
	r.NotFinalised += len(p.Undecided)
	return r
}

const (
	deleteJournalSQL  = "DELETE FROM line_journal WHERE coupon_id = ? AND user_id = ?"
	deleteOutcomesSQL = "DELETE FROM application_outcome WHERE coupon_id = ? AND user_id = ? AND outcome = ?"
	// unlistSQL leaves a user's application whose outcome says that the user had the coupon already.
	unlistSQL = `
DELETE FROM user_application WHERE user_id = ? AND coupon_id = ?
   AND NOT EXISTS (SELECT 1 FROM application_outcome o WHERE o.coupon_id = ? AND o.user_id = ?)`
	addErasedSQL = `
UPDATE settled SET concluded = concluded - ?, erased = erased + ?, erased_rejected = erased_rejected + ?
WHERE coupon_id = ?`
	// forgetApprovalsSQL leaves digest, persons and times. The digest reveals no user: it covers a salt that was in the
	// plan.
	forgetApprovalsSQL = "UPDATE approval SET user_id = NULL, plan = '', void_plan = NULL WHERE user_id = ?"
	forgetEventsSQL    = "UPDATE audit_event SET user_id = NULL, user_salt = NULL WHERE user_id = ? AND coupon_id = ?"
)

// forgetIn forgets the user in one coupon. A coupon that is not finalised any more is left alone, and one that was
// finalised just now: Redis may lose its end.
func forgetIn(ctx context.Context, db *mysqltx.DB, id coupon.CouponID, user coupon.UserID,
	origin audit.Origin) (outcomes, events int, err error) {
	err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, attempt int) error {
		var c coupon.Coupon
		err := tx.QueryRowContext(ctx, coupon.LockSQL, id).Scan(c.FieldsWithKnown()...)
		if errors.Is(err, sql.ErrNoRows) { // purged
			return nil
		}
		if err != nil {
			return err
		}
		if attempt > 1 { // an earlier attempt may have been committed, and then its counts are right
			if done, err := audit.Recorded(ctx, tx, origin, audit.UserForgotten, id); err != nil || done {
				return err
			}
		}
		now, err := mysqltx.Now(ctx, tx)
		if err != nil {
			return err
		}
		safe := c.Finalised() && now.Sub(c.FinalisedAt) > coupon.EndGuard
		if purged, err := ReadPurged(ctx, tx, id); err != nil || !safe {
			return err
		} else if purged != nil {
			return forgetInPurge(ctx, tx, id, user, &outcomes, &events)
		}
		outcomes, events = 0, 0
		sealed, err := seal.Before(ctx, tx, id, user)
		if err != nil {
			return err
		}
		if outcomes, err = deleteOutcomes(ctx, tx, id, user); err != nil {
			return err
		}
		if events, err = mysqltx.Affected(tx.ExecContext(ctx, forgetEventsSQL, user, id)); err != nil ||
			outcomes+events == 0 {
			return err
		}
		err = audit.Append(ctx, tx, origin, audit.UserForgotten, id,
			audit.Entry{Payload: audit.Forgotten{Outcomes: outcomes, Events: events}})
		if err != nil {
			return err
		}
		return sealed.After(ctx, tx)
	})
	return outcomes, events, mysqltx.Wrap(err, "forget a user in coupon %d", id)
}

// forgetInPurge forgets the user in a coupon whose purge was interrupted, under the lock that the purge takes too. It
// counts nothing in MySQL: the figures of the coupon are in purged_coupon already, and the purge deletes the account
// and the audit chain. An earlier attempt may have been committed: the larger counts are right.
func forgetInPurge(ctx context.Context, tx *sql.Tx, id coupon.CouponID, user coupon.UserID, outcomes,
	events *int) error {
	notSelected, rejected, err := deleteRows(ctx, tx, id, user)
	if err != nil {
		return err
	}
	taken, err := mysqltx.Affected(tx.ExecContext(ctx, forgetEventsSQL, user, id))
	*outcomes, *events = max(*outcomes, notSelected+rejected), max(*events, taken)
	return err
}

// deleteOutcomes deletes the user's outcomes NOT_SELECTED and REJECTED, and counts them as erased.
func deleteOutcomes(ctx context.Context, tx *sql.Tx, id coupon.CouponID, user coupon.UserID) (outcomes int, err error) {
	notSelected, rejected, err := deleteRows(ctx, tx, id, user)
	if outcomes = notSelected + rejected; err != nil || outcomes == 0 {
		return 0, err
	}
	return outcomes, mysqltx.Exec(ctx, tx, 1, addErasedSQL, outcomes, outcomes, rejected, id)
}

func deleteRows(ctx context.Context, tx *sql.Tx, id coupon.CouponID,
	user coupon.UserID) (notSelected, rejected int, err error) {
	if _, err := tx.ExecContext(ctx, deleteJournalSQL, id, user); err != nil {
		return 0, 0, err
	}
	notSelected, err = mysqltx.Affected(tx.ExecContext(ctx, deleteOutcomesSQL, id, user, coupon.OutcomeNotSelected))
	if err == nil {
		rejected, err = mysqltx.Affected(tx.ExecContext(ctx, deleteOutcomesSQL, id, user, coupon.OutcomeRejected))
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, unlistSQL, user, id, id, user)
	}
	return notSelected, rejected, err
}
