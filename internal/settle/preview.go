package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Preview is what a run would do to a coupon, beside the counts of its Result.
type Preview struct {
	Digest   string               `json:"digest"`          // of those who would be issued, to be expected of the run
	First    *Winner              `json:"first,omitempty"` // of these
	Last     *Winner              `json:"last,omitempty"`
	Causes   map[coupon.Cause]int `json:"rejectedBy,omitempty"` // how many would be rejected, and why
	Winners  []Winner             `json:"winners,omitempty"`    // everybody in order, when asked for
	Rejected []Rejection          `json:"rejected,omitempty"`   // the same

	standing int // of the winners: they still stand in Redis, and are counted already
}

// Winner is who would get a seat.
type Winner struct {
	User    coupon.UserID  `json:"user"`
	Arrival coupon.Arrival `json:"arrival"` // µs since 1970
}

// Rejection is who would go to the DLQ.
type Rejection struct {
	User    string         `json:"user"` // as it stands in line
	Arrival coupon.Arrival `json:"arrival"`
	Cause   coupon.Cause   `json:"cause"`
	Message string         `json:"message"`
}

// errRolledBack ends a preview's transaction.
var errRolledBack = &coupon.Error{Class: coupon.Setup, Err: errors.New("a preview is rolled back")}

// Preview says what RunOnce would do: by the same code, in transactions that are rolled back, and without a change in
// Redis. It leaves no record. Whoever applies between it and the run may change the result of a cutoff that has not come.
func (s *Settler) Preview(told context.Context, order Order) (*Report, error) {
	s = s.withFreshDB()
	ctx, release := outlive(told, 0)
	defer release()
	order.dryRun = true
	r, err := s.newRun(ctx, told, order, (*settlement).preview)
	if err != nil {
		return nil, err
	}
	var coupons []coupon.Coupon
	err = s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		if _, err := s.Users.Look(ctx, q); err != nil {
			return err
		}
		coupons, err = chooseCoupons(ctx, q, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	report := newReport(r)
	err = s.settleAll(ctx, r, coupons, report)
	report.end(err, s.Now())
	return report, err
}

// preview is settle without a fence, a commit and what follows it.
func (s *settlement) preview(ctx context.Context) error {
	if !s.due() {
		s.result.Status = coupon.NotDue
		return nil
	}
	defer s.reserve(s.coupon.Free())()
	s.result.Preview = new(Preview)
	err := s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		s.tried = false // there is no record of a preview
		if err := s.issue(ctx, tx, 1); err != nil {
			return err
		}
		if err := s.foreseeRest(ctx, tx); err != nil {
			return err
		}
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		return nil
	}
	gap, class := s.result.Gap, mysqltx.ClassOf(err)
	s.result.reset()
	if s.result.SeatsLeft = s.coupon.Free(); class == coupon.Invariant {
		s.result.Gap = gap
	}
	return err
}

// foresee notes who would be issued.
func (s *settlement) foresee(issued []coupon.Application) {
	p := s.result.Preview
	if p == nil || len(issued) == 0 {
		return
	}
	for _, a := range issued {
		if a.Source != coupon.SourceNotSelected {
			p.standing++
		}
	}
	if first := issued[0]; p.First == nil {
		p.First = &Winner{first.User(), first.Arrival}
	}
	last := issued[len(issued)-1]
	p.Last = &Winner{last.User(), last.Arrival}
	if s.run.List {
		for _, a := range issued {
			p.Winners = append(p.Winners, Winner{a.User(), a.Arrival})
		}
	}
}

// foreseeRejection notes who would go to the DLQ, or be recorded as rejected.
func (s *settlement) foreseeRejection(f coupon.Failure) {
	p := s.result.Preview
	if p == nil {
		return
	}
	p.Causes[f.Cause]++
	if s.run.List {
		p.Rejected = append(p.Rejected, Rejection{f.Member, f.Arrival, f.Cause, f.Message})
	}
}

// foreseeRest walks the line within the transaction that has seated the winners, and counts what would become of the
// others.
func (s *settlement) foreseeRest(ctx context.Context, tx *sql.Tx) error {
	apart := make(map[coupon.Application]bool, len(s.unstorable)) // would be in the DLQ by now
	for _, f := range s.unstorable {
		apart[f.Application] = true
		s.foreseeRejection(f)
		if f.Source != coupon.SourceNotSelected { // those are counted
			s.result.Read++
			s.result.Rejected++
		}
	}
	locked, err := selectCoupon(ctx, tx, s.coupon.ID)
	if err != nil {
		return err
	}
	line := &reader{line: s.Line, coupon: s.coupon.ID, cutoff: s.run.cutoff, size: pageApplications}
	for page, err := range ahead(ctx, line.nextOrNil) {
		if err != nil {
			return err
		}
		if err := s.run.stopped(); err != nil {
			return err
		}
		rest := slices.DeleteFunc(*page, func(a coupon.Application) bool { return apart[a] })
		d, err := s.decidePage(ctx, tx, locked, rest)
		if err != nil {
			return err
		}
		s.result.Read += d.read
		s.result.NotSelected += len(d.notSelected)
		s.result.AlreadyIssued += len(d.alreadyIssued)
		s.result.Rejected += len(d.review)
		for _, f := range d.review {
			s.foreseeRejection(f)
		}
		s.progress(len(*page))
	}
	s.result.Read -= s.result.Preview.standing
	return nil
}

// again is a preview begun anew.
func (p *Preview) again() *Preview {
	if p == nil {
		return nil
	}
	return &Preview{Causes: map[coupon.Cause]int{}}
}

// approved holds a coupon when its winners are not those that somebody approved. That they have been issued already is as
// good.
func (s *settlement) approved(ctx context.Context, tx *sql.Tx, winners *digest) error {
	want, pinned := s.run.Expect[s.coupon.ID]
	if !pinned || winners.String() == want {
		return nil
	}
	if winners.count == 0 {
		if done, err := anyRecordOf(ctx, tx, s.coupon.ID, want); err != nil || done {
			return err
		}
	}
	return &coupon.Error{Class: coupon.Invariant, Err: told(OtherWinners, winners.count, winners.String(), want)}
}

const anyRecordOfSQL = "SELECT EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND winners_digest = ?)"

// anyRecordOf is whether a run has issued the coupon to the winners of this digest.
func anyRecordOf(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, digest string) (bool, error) {
	var found bool
	if err := q.QueryRowContext(ctx, anyRecordOfSQL, couponID, digest).Scan(&found); err != nil {
		return false, fmt.Errorf("look for the winners of coupon %d: %w", couponID, err)
	}
	return found, nil
}
