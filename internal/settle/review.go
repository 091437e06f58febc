package settle

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Retry lets applications of one coupon that a person held under review be tried again, and settles the coupon. members
// are users as they stand in the DLQ; none means all of them. What cannot be settled goes back under review. Safe to
// repeat.
func (s *Settler) Retry(told context.Context, couponID coupon.CouponID, order Order, members []string) (*Report, error) {
	order.Trigger = coupon.DLQRetry
	return s.review(told, couponID, order, members, func(one *settlement, ctx context.Context) error {
		if err := one.release(ctx, members); err != nil {
			return err
		}
		return one.settle(ctx)
	})
}

// Drop ends applications of one coupon that are under review: they are recorded REJECTED with the order's reason, leave
// the DLQ, and their users are told so when they ask again. It is a run of its own, so that a crash between the record
// and Redis is mended as that of any settlement. Dropping what is dropped is an error: it is not under review any more.
func (s *Settler) Drop(told context.Context, couponID coupon.CouponID, order Order, members []string) (*Report, error) {
	order.Trigger, order.CutoffNow = coupon.Manual, true
	return s.review(told, couponID, order, members, func(one *settlement, ctx context.Context) error {
		err := one.drop(ctx, members)
		if err != nil && len(one.uncleaned) == 0 { // what was counted has been rolled back
			one.result.reset()
		}
		return err
	})
}

// review has a run do what a person decided about members of one coupon's DLQ, all of whom must be there.
func (s *Settler) review(told context.Context, couponID coupon.CouponID, order Order, members []string, what work) (*Report, error) {
	s = s.withFreshDB()
	ctx, release := outlive(told, s.Grace)
	defer release()
	order.Coupons = []uint64{couponID}
	r, err := s.newRun(ctx, told, order, what)
	if err != nil {
		return nil, err
	}
	if _, err := s.underReview(ctx, couponID, members); err != nil {
		return nil, err
	}
	coupons, err := s.beginRun(ctx, &r)
	if err != nil {
		return nil, err
	}
	return s.doRun(ctx, r, coupons)
}

// release makes members retryable, once it is kept who wanted that.
func (s *settlement) release(ctx context.Context, members []string) error {
	named, err := s.underReview(ctx, s.coupon.ID, members)
	if err != nil {
		return err
	}
	err = s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if _, err := lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		if done, err := audit.Recorded(ctx, tx, s.run.id, audit.DLQRetried, s.coupon.ID); err != nil || done {
			return err
		}
		if len(members) == 0 {
			return s.run.audit(ctx, tx, audit.DLQRetried, s.coupon.ID, audit.Entry{Detail: "all that are under review"})
		}
		return s.run.audit(ctx, tx, audit.DLQRetried, s.coupon.ID, applicationEntries(named)...)
	})
	if err != nil {
		return err
	}
	if len(members) > 0 {
		_, err := s.DLQ.Release(ctx, s.coupon.ID, named)
		return err
	}
	return s.eachPageUnderReview(ctx, s.coupon.ID, func(page []coupon.Application) error {
		if err := s.run.stopped(); err != nil {
			return err
		}
		_, err := s.DLQ.Release(ctx, s.coupon.ID, page)
		return err
	})
}

// drop records and takes out of the DLQ whom it can; who cannot be recorded stays, and is told of.
func (s *settlement) drop(ctx context.Context, members []string) error {
	var dropped []coupon.Application
	var stay []error
	err := s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		s.result.reset()
		s.begin(StepLock)
		coupon, err := lockCoupon(ctx, tx, s.coupon.ID)
		if err != nil {
			return err
		}
		s.coupon, s.result.SeatsLeft = coupon, coupon.Free()
		if done, err := loadRecord(ctx, tx, s.run, coupon.ID, s.result); err != nil || done {
			return err
		}
		found, err := s.underReview(ctx, coupon.ID, members)
		if err != nil {
			return err
		}
		ended, kept, err := s.recordDropped(ctx, tx, found)
		if err != nil {
			return err
		}
		dropped, stay = ended, kept
		return nil
	})
	if err != nil {
		return err
	}
	if s.result.changed() { // else it was settled by another run meanwhile, which cleans up
		if err := s.cleanDropped(ctx, dropped); err != nil {
			return err
		}
	}
	if more := len(stay) - mostToldToStay; more > 0 {
		stay = append(stay[:mostToldToStay], told(MoreStay, more))
	}
	if len(stay) > 0 {
		return &coupon.Error{Class: coupon.Setup, Err: errors.Join(stay...)}
	}
	return nil
}

// mostToldToStay are as many as a person reads.
const mostToldToStay = 20

// cleanDropped takes out of Redis who was dropped, and notes that it is clean.
func (s *settlement) cleanDropped(ctx context.Context, dropped []coupon.Application) error {
	s.uncleaned = []uncleaned{{run: s.run.id, covered: true}}
	if err := s.tellRedis(ctx); err != nil {
		return err
	}
	// tellRedis goes by user ids.
	noUsers := slices.DeleteFunc(slices.Clone(dropped), func(a coupon.Application) bool { return a.User() != 0 })
	if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkNone, noUsers); err != nil {
		return err
	}
	return s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		s.begin(StepFinish)
		if _, err := lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		return markCleaned(ctx, tx, s.run.id, s.coupon.ID, s.Now().UTC())
	})
}

// recordDropped returns who is recorded now, or was before and only waits to be cleaned up; and why others could not be.
func (s *settlement) recordDropped(ctx context.Context, tx *sql.Tx, all []coupon.Application) (dropped []coupon.Application, stay []error, err error) {
	s.unstorable = nil
	for page := range slices.Chunk(all, tellApplications) {
		judged, err := s.classify(ctx, tx, s.coupon.ID, anyPast, page)
		if err != nil {
			return nil, nil, err
		}
		var users, ended []coupon.Application
		for _, c := range judged {
			switch {
			case c.verdict == settled:
				dropped = append(dropped, c.Application)
			case c.User() != 0:
				users = append(users, c.Application)
			default:
				kept, err := s.recordMalformed(ctx, tx, c.Application)
				switch {
				case err != nil:
					return nil, nil, err
				case kept != nil:
					stay = append(stay, kept)
				default:
					ended = append(ended, c.Application)
				}
			}
		}
		recorded, err := s.store(ctx, tx, 0, users, func(_ int, part []coupon.Application) error {
			return insertOutcomes(ctx, tx, s.run, s.coupon.ID, coupon.OutcomeRejected, s.run.Reason, part)
		})
		if err != nil {
			return nil, nil, err
		}
		ended = append(ended, recorded...)
		s.result.Read += len(ended)
		s.result.Rejected += len(ended)
		if err := s.run.audit(ctx, tx, audit.DLQDropped, s.coupon.ID, applicationEntries(ended)...); err != nil {
			return nil, nil, err
		}
		dropped = append(dropped, ended...)
	}
	for _, f := range s.unstorable {
		stay = append(stay, told(NotDropped, Shown(f.Member), f.Message))
	}
	s.unstorable = nil // whoever stays under review stays there as it is
	if !s.result.changed() {
		return dropped, stay, nil
	}
	return dropped, stay, insertRecord(ctx, tx, s.run, s.coupon.ID, s.result)
}

// recordMalformed records a member that is no user id; kept is why it cannot be.
func (s *settlement) recordMalformed(ctx context.Context, tx *sql.Tx, a coupon.Application) (kept, err error) {
	reason := mysqltx.Shorten(ledger.Malformed(a.Member)+": "+s.run.Reason, maxReasonLetters)
	err = insertOutcomes(ctx, tx, s.run, s.coupon.ID, coupon.OutcomeRejected, reason, []coupon.Application{a})
	switch {
	case err == nil:
		return nil, nil
	case mysqltx.IsDuplicate(err):
		return told(SameArrival, Shown(a.Member)), nil
	case mysqltx.IsBadRow(err):
		return told(NotDropped, Shown(a.Member), serverSays(err)), nil
	default:
		return nil, err
	}
}

// underReview finds the members in the DLQ, every one of them or it is an error.
func (s *Settler) underReview(ctx context.Context, couponID coupon.CouponID, members []string) (found []coupon.Application, err error) {
	if len(members) == 0 {
		return nil, nil
	}
	missing := map[string]bool{}
	for _, member := range members {
		missing[member] = true
	}
	err = s.eachPageUnderReview(ctx, couponID, func(page []coupon.Application) error {
		for _, a := range page {
			if missing[a.Member] {
				found = append(found, a)
				delete(missing, a.Member)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, member := range slices.Sorted(maps.Keys(missing)) {
		problems = append(problems, told(NotUnderReview, Shown(member), couponID))
	}
	if problems != nil {
		return nil, &coupon.Error{Class: coupon.Setup, Err: errors.Join(problems...)}
	}
	return found, nil
}

func (s *Settler) eachPageUnderReview(ctx context.Context, couponID coupon.CouponID, visit func(page []coupon.Application) error) error {
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := s.DLQ.UnderReview(ctx, couponID, cursor)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := visit(page); err != nil {
			return err
		}
		cursor = next
	}
}
