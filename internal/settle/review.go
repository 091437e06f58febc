package settle

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/text"
)

// Retry makes DLQ entries of one coupon retryable and settles the coupon. members are members of the DLQ; an empty list
// means all entries. An application that still cannot be settled stays in the DLQ. A retry is safe to repeat.
func (s *Settler) Retry(stop context.Context, couponID coupon.CouponID, order Order,
	members []string) (*Report, error) {
	order.Trigger = coupon.DLQRetry
	return s.runReview(stop, couponID, order, members, func(one *settlement, ctx context.Context) (settled, error) {
		if err := one.release(ctx, members); err != nil {
			return settled{}, err
		}
		return one.settle(ctx)
	})
}

// Drop rejects DLQ entries of one coupon, for the order's reason. A drop is recorded as a run, so that the next run
// repairs a crash between MySQL and Redis. Dropping an entry twice is an error, because it has left the DLQ.
func (s *Settler) Drop(stop context.Context, couponID coupon.CouponID, order Order, members []string) (*Report, error) {
	order.Trigger, order.CutoffNow = coupon.Manual, true
	return s.runReview(stop, couponID, order, members, func(one *settlement, ctx context.Context) (settled, error) {
		return one.drop(ctx, members)
	})
}

// runReview does a run over one coupon. All members must be in its DLQ, unless MayBeGone is set.
func (s *Settler) runReview(stop context.Context, couponID coupon.CouponID, order Order, members []string,
	what work) (*Report, error) {
	s = s.withFreshDB()
	ctx, release := outlive(stop, s.Grace)
	defer release()
	order.Coupons = []coupon.CouponID{couponID}
	r, err := s.newRun(ctx, stop, order, what)
	if err != nil {
		return nil, err
	}
	if _, err := s.underReview(ctx, couponID, members, order.MayBeGone); err != nil {
		return nil, err
	}
	coupons, err := s.beginRun(ctx, &r)
	if err != nil {
		return nil, err
	}
	return s.doRun(ctx, r, coupons)
}

// release makes DLQ entries retryable. Before that, it records the operator in an audit event.
func (s *settlement) release(ctx context.Context, members []string) error {
	named, err := s.underReview(ctx, s.coupon.ID, members, s.run.MayBeGone)
	if err != nil {
		return err
	}
	entries := audit.RetriedEach(named)
	if len(members) == 0 {
		entries = []audit.Entry{{Payload: audit.Retried{All: true}}}
	}
	err = s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, _ coupon.Coupon) error {
		return s.run.auditOnce(ctx, tx, audit.DLQRetried, s.coupon.ID, entries...)
	})
	if err != nil {
		return err
	}
	if len(members) > 0 {
		_, err := s.Line.Release(ctx, s.coupon.ID, named)
		return err
	}
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := s.Line.UnderReview(ctx, s.coupon.ID, cursor)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := s.run.stopped(); err != nil {
			return err
		}
		if _, err := s.Line.Release(ctx, s.coupon.ID, page); err != nil {
			return err
		}
		cursor = next
	}
}

type dropped struct {
	issued
	applications []coupon.Application // applications that leave the DLQ
	recorded     []coupon.Application // those of them whose outcome this run records
	stay         []error              // one error for each application that stays in the DLQ
}

// maxShownStay bounds the number of errors that a message lists.
const maxShownStay = 20

// drop rejects DLQ entries and removes them from the DLQ. The error names the entries that could not be recorded.
func (s *settlement) drop(ctx context.Context, members []string) (settled, error) {
	var done dropped
	sent := false // whether an earlier attempt reached its COMMIT, and so may have committed done
	s.begin(StepLock)
	err := s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) (err error) {
		if sent {
			if p, err := records.ReadProgress(ctx, tx, s.run.id, locked.ID); err != nil || p.Recorded {
				return err
			}
		}
		done, err = s.recordDrop(ctx, tx, locked, members)
		sent = err == nil
		return err
	})
	if err != nil {
		return settled{}, approval.Void(ctx, s.DB, err)
	}
	result := settled{issued: done.issued}
	if done.seated.tally.changed() { // otherwise another run has settled the entries and cleans up
		if err := s.cleanDropped(ctx, done); err != nil {
			return result, err
		}
	}
	stay := done.stay
	if more := len(stay) - maxShownStay; more > 0 {
		stay = append(stay[:maxShownStay], text.Errorf(text.MoreStay, more))
	}
	if len(stay) > 0 {
		return result, &coupon.Error{Class: coupon.Setup, Err: errors.Join(stay...)}
	}
	return result, nil
}

func (s *settlement) recordDrop(ctx context.Context, tx *sql.Tx, locked coupon.Coupon,
	members []string) (done dropped, err error) {
	done.issued = issued{coupon: locked, seatsLeft: locked.Free(),
		pending: []records.Pending{{Run: s.run.rows(), Covered: true}}}
	all, err := s.underReview(ctx, locked.ID, members, s.run.MayBeGone)
	if err != nil {
		return done, err
	}
	if len(all) > 0 {
		ticket := s.run.ticket(locked.ID)
		ticket.Expect = s.run.Expect[locked.ID]
		if err := ticket.Use(ctx, tx, DropPlan(locked.ID, s.run.Chosen, all), s.run.origin()); err != nil {
			return done, err
		}
	}
	refused := s.run.newRefusals(locked.TotalQuantity, 0)
	for page := range slices.Chunk(all, cleanUpApplications) {
		if err := s.recordDropped(ctx, tx, &done, &refused, page); err != nil {
			return done, err
		}
	}
	for _, f := range refused.failures {
		done.stay = append(done.stay, text.Errorf(text.NotDropped, coupon.ShownMember(f.Member), f.Note))
	}
	if !done.seated.tally.changed() {
		return done, nil
	}
	if err := records.AddToSums(ctx, tx, locked.ID, done.recorded...); err != nil {
		return done, err
	}
	return done, records.InsertSettlement(ctx, tx, s.run.rows(), locked.ID, done.seated.row())
}

// cleanDropped removes dropped applications from Redis and marks the settlement as cleaned up.
func (s *settlement) cleanDropped(ctx context.Context, done dropped) error {
	if _, err := s.cleanUp(ctx, done.issued, new(remembered)); err != nil {
		return err
	}
	// cleanUp searches by user id, which malformed members do not have.
	noUsers := slices.DeleteFunc(done.applications, func(a coupon.Application) bool { return a.User() != 0 })
	if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkNone, noUsers); err != nil {
		return err
	}
	return s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, _ coupon.Coupon) error {
		s.begin(StepFinish)
		return records.MarkCleaned(ctx, tx, s.run.id, s.coupon.ID, 0, s.Now().UTC())
	})
}

// recordDropped rejects the entries of a page and adds them to done, also those that were recorded before.
func (s *settlement) recordDropped(ctx context.Context, tx *sql.Tx, done *dropped, refused *refusals,
	page []coupon.Application) error {
	judged, err := decision.Classify(ctx, tx, s.Users, s.coupon.ID, decision.AssumeExisting, page)
	if err != nil {
		return err
	}
	var users, ended []coupon.Application
	for _, c := range judged {
		switch {
		case c.Verdict == decision.Settled:
			done.applications = append(done.applications, c.Application)
		case c.User() != 0:
			users = append(users, c.Application)
		default: // a malformed member has no user id: the row repeats it
			as := records.Ending{Outcome: coupon.OutcomeRejected, Note: s.run.Reason,
				Member: new(coupon.StoredMember(c.Member))}
			recorded, err := s.recordOutcome(ctx, tx, as, []coupon.Application{c.Application}, refused, restPage{})
			switch {
			case mysqltx.IsDuplicate(err):
				done.stay = append(done.stay, text.Errorf(text.SameArrival, coupon.ShownMember(c.Member)))
			case err != nil:
				return err
			default:
				ended = append(ended, recorded...)
			}
		}
	}
	recorded, err := s.recordOutcome(ctx, tx, records.Ending{Outcome: coupon.OutcomeRejected, Note: s.run.Reason},
		users, refused, restPage{})
	if err != nil {
		return err
	}
	ended = append(ended, recorded...)
	done.applications, done.recorded = append(done.applications, ended...), append(done.recorded, ended...)
	done.seated.tally = done.seated.tally.plus(tally{Counts: Counts{Rejected: len(ended)}})
	return audit.Append(ctx, tx, s.run.origin(), audit.DLQDropped, s.coupon.ID, audit.Dropped(ended)...)
}

// underReview returns the DLQ entries of the members. A missing member is an error, unless mayBeGone is set.
func (s *Settler) underReview(ctx context.Context, couponID coupon.CouponID, members []string,
	mayBeGone bool) (found []coupon.Application, err error) {
	found, err = s.Line.FindUnderReview(ctx, couponID, members)
	if err != nil || mayBeGone {
		return found, err
	}
	missing := map[string]bool{}
	for _, member := range members {
		missing[member] = true
	}
	for _, a := range found {
		delete(missing, a.Member)
	}
	var problems []error
	for _, member := range slices.Sorted(maps.Keys(missing)) {
		problems = append(problems, text.Errorf(text.NotUnderReview, coupon.ShownMember(member), couponID))
	}
	if problems != nil {
		return nil, &coupon.Error{Class: coupon.Setup, Err: errors.Join(problems...)}
	}
	return found, nil
}
