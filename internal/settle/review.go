package settle

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/ledger"
)

// Retry lets applications of one coupon that a person held under review be tried again, and settles the coupon. members
// are users as they stand in the DLQ; none means all of them. What cannot be settled goes back under review. Safe to
// repeat.
func (s *Settler) Retry(told context.Context, coupon uint64, order Order, members []string) (*Report, error) {
	order.Trigger = DLQRetry
	return s.review(told, coupon, order, members, func(one *settlement, ctx context.Context) error {
		if err := one.release(ctx, members); err != nil {
			return err
		}
		return one.settle(ctx)
	})
}

// Drop ends applications of one coupon that are under review: they are recorded REJECTED with the order's reason, leave
// the DLQ, and their users are told so when they ask again. It is a run of its own, so that a crash between the record
// and Redis is mended as that of any settlement. Dropping what is dropped is an error: it is not under review any more.
func (s *Settler) Drop(told context.Context, coupon uint64, order Order, members []string) (*Report, error) {
	order.Trigger, order.CutoffNow = Manual, true
	return s.review(told, coupon, order, members, func(one *settlement, ctx context.Context) error {
		err := one.drop(ctx, members)
		if err != nil && len(one.uncleaned) == 0 { // what was counted has been rolled back
			one.result.reset()
		}
		return err
	})
}

// review has a run do what a person decided about members of one coupon's DLQ, all of whom must be there.
func (s *Settler) review(told context.Context, coupon uint64, order Order, members []string, what work) (*Report, error) {
	ctx, release := outlive(told, s.Grace)
	defer release()
	order.Coupons = []uint64{coupon}
	r, err := s.newRun(ctx, told, order, what)
	if err != nil {
		return nil, err
	}
	if _, err := s.underReview(ctx, coupon, members); err != nil {
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
	err = s.DB.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		if done, err := audited(ctx, tx, s.run, actionDLQRetried, s.coupon.ID); err != nil || done {
			return err
		}
		if len(members) == 0 {
			return audit(ctx, tx, s.run, actionDLQRetried, s.coupon.ID, 0, "all that are under review")
		}
		return auditEach(ctx, tx, s.run, actionDLQRetried, s.coupon.ID, named)
	})
	if err != nil {
		return err
	}
	if len(members) > 0 {
		_, err := s.DLQ.Release(ctx, s.coupon.ID, named)
		return err
	}
	return s.eachPageUnderReview(ctx, s.coupon.ID, func(page []Application) error {
		if err := s.run.stopped(); err != nil {
			return err
		}
		_, err := s.DLQ.Release(ctx, s.coupon.ID, page)
		return err
	})
}

func (s *settlement) drop(ctx context.Context, members []string) error {
	var dropped []Application
	err := s.DB.transact(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		s.result.reset()
		s.begin(StepLock)
		if s.coupon, err = lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		s.result.SeatsLeft = s.coupon.Free()
		if done, err := loadRecord(ctx, tx, s.run, s.coupon.ID, s.result); err != nil || done {
			return err
		}
		if dropped, err = s.underReview(ctx, s.coupon.ID, members); err != nil {
			return err
		}
		return s.recordDropped(ctx, tx, dropped)
	})
	if err != nil {
		return err
	}
	if !s.result.changed() {
		return nil // settled by another run meanwhile, which cleans up
	}
	s.uncleaned = []uncleaned{{run: s.run.id, covered: true}}
	if err := s.tellRedis(ctx); err != nil {
		return err
	}
	// tellRedis goes by user ids.
	noUsers := slices.DeleteFunc(dropped, func(a Application) bool { return a.User != 0 })
	if err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, MarkNobody, noUsers); err != nil {
		return err
	}
	return s.DB.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		s.begin(StepFinish)
		if _, err := lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		return markCleaned(ctx, tx, s.run.id, s.coupon.ID, s.Now().UTC())
	})
}

// recordDropped leaves out what is settled already and only waits to be cleaned up.
func (s *settlement) recordDropped(ctx context.Context, tx *sql.Tx, dropped []Application) error {
	for page := range slices.Chunk(dropped, tellApplications) {
		all, err := s.classify(ctx, tx, s.coupon.ID, anyPast, page)
		if err != nil {
			return err
		}
		var ended, users []Application
		for _, c := range all {
			if c.verdict == settled {
				continue
			}
			ended = append(ended, c.Application)
			if c.User != 0 {
				users = append(users, c.Application)
			} else {
				reason := shorten(ledger.Malformed(c.Member)+": "+s.run.Reason, maxReasonLetters)
				err := insertOutcomes(ctx, tx, s.run, s.coupon.ID, outcomeRejected, reason, []Application{c.Application})
				if classifyError(err) == duplicate {
					return setupError("%q has the very arrival of another member that was dropped, which nobody can have: remove it from Redis by hand", c.Member)
				}
				if err != nil {
					return err
				}
			}
			s.result.Read++
			s.result.Rejected++
		}
		if err := insertOutcomes(ctx, tx, s.run, s.coupon.ID, outcomeRejected, s.run.Reason, users); err != nil {
			return err
		}
		if err := auditEach(ctx, tx, s.run, actionDLQDropped, s.coupon.ID, ended); err != nil {
			return err
		}
	}
	if !s.result.changed() {
		return nil
	}
	return insertRecord(ctx, tx, s.run, s.coupon.ID, s.result)
}

// underReview finds the members in the DLQ, every one of them or it is an error.
func (s *Settler) underReview(ctx context.Context, coupon uint64, members []string) (found []Application, err error) {
	if len(members) == 0 {
		return nil, nil
	}
	missing := map[string]bool{}
	for _, member := range members {
		missing[member] = true
	}
	err = s.eachPageUnderReview(ctx, coupon, func(page []Application) error {
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
		problems = append(problems, told(NotUnderReview, member, coupon))
	}
	if problems != nil {
		return nil, &Error{Setup, errors.Join(problems...)}
	}
	return found, nil
}

func (s *Settler) eachPageUnderReview(ctx context.Context, coupon uint64, visit func(page []Application) error) error {
	for cursor := Cursor(nil); ; {
		page, next, err := s.DLQ.UnderReview(ctx, coupon, cursor)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := visit(page); err != nil {
			return err
		}
		cursor = next
	}
}
