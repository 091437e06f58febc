package settle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
)

// Preview is the part of a Result that only a preview has.
type Preview struct {
	Digest string        `json:"digest"`          // digest of the winners and the gap, as Order.Expect takes it
	Plan   approval.Plan `json:"-"`               // what a second person would approve
	First  *Winner       `json:"first,omitempty"` // first winner
	Last   *Winner       `json:"last,omitempty"`
	// Numbers of applications that would move to the DLQ, by cause.
	Reviews causes `json:"underReviewBy,omitempty"`

	// These lists are empty unless Order.List is set.
	Winners     []Winner    `json:"winners,omitempty"`
	UnderReview []Rejection `json:"underReview,omitempty"` // applications that would move to the DLQ
	Rejected    []Rejection `json:"rejected,omitempty"`    // applications that would get the outcome REJECTED
}

// Winner is an application that gets a seat.
type Winner struct {
	User    coupon.UserID  `json:"user"`
	Arrival coupon.Arrival `json:"arrival"` // µs since 1970
}

func (w Winner) application() coupon.Application {
	return coupon.Application{Member: w.User.Member(), Arrival: w.Arrival, Source: coupon.SourceQueue}
}

// Rejection is an application that cannot get a seat, with the reason.
type Rejection struct {
	User    string         `json:"user"` // the member in Redis, which may be no user id
	Arrival coupon.Arrival `json:"arrival"`
	Cause   coupon.Cause   `json:"cause"`
	Note    string         `json:"note,omitempty"`
}

// errRolledBack makes the transaction of a preview roll back.
var errRolledBack = &coupon.Error{Class: coupon.Setup, Err: errors.New("a preview is rolled back")}

// Preview reports what RunOnce would do. It changes and records nothing, but runs the same code: winners get seats in a
// transaction that is rolled back, and the rest of the line is decided without a lock. If the cutoff is in the future,
// applications that arrive after the preview may change the result of the run.
func (s *Settler) Preview(stop context.Context, order Order) (*Report, error) {
	ctx, release := outlive(stop, 0)
	defer release()
	order.dryRun = true
	planner := *s.withFreshDB()
	r, err := planner.newRun(ctx, stop, order, (*settlement).plan)
	if err != nil {
		return nil, err
	}
	coupons, err := planner.findCoupons(ctx, r)
	if err != nil {
		return nil, err
	}
	r.coupons = len(coupons)
	report := newReport(r)
	err = planner.settleAll(ctx, r, coupons, report)
	report.end(err, s.Now().Sub(r.startedAt))
	return report, err
}

// plan does in a preview what settle does in a run.
func (s *settlement) plan(ctx context.Context) (settled, error) {
	if !s.due() {
		return settled{notDue: true}, nil
	}
	seats, err := s.planSeats(ctx)
	if err != nil {
		return settled{issued: seats.issued}, err
	}
	done := settled{issued: seats.issued, preview: &Preview{Digest: seats.pin, Plan: s.approvalPlan(seats.issued)}}
	seated := seats.seated
	if all := seats.winners.all(); len(all) > 0 {
		first, last := all[0], all[len(all)-1]
		done.preview.First, done.preview.Last = &first, &last
		if s.run.List {
			done.preview.Winners = all
		}
	}
	done.cleaned = reviewed(seated.refusedOf(false))
	rest, review, err := s.planRest(ctx, seats)
	if err != nil {
		return settled{issued: seats.issued.rolledBack()}, err
	}
	done.closed = rest
	done.preview.Reviews = done.tally().causes
	if s.run.List {
		done.preview.UnderReview = rejections(seated.refused.failures, review)
		done.preview.Rejected = rejections(seated.returned)
	}
	return done, nil
}

func rejections(lists ...[]coupon.Failure) (all []Rejection) {
	for _, f := range slices.Concat(lists...) {
		all = append(all, Rejection{f.Member, f.Arrival, f.Cause, f.Note})
	}
	return all
}

// plannedSeats is the result of a preview's transaction before its rollback.
type plannedSeats struct {
	issued
	winners  *remembered
	boundary coupon.Arrival // the highest arrival that ever got a seat
}

// planSeats gives the seats as issue does. As soon as the winners are known, it rolls back and thus releases the lock.
func (s *settlement) planSeats(ctx context.Context) (seats plannedSeats, err error) {
	seats.coupon = s.coupon
	s.begin(StepLock)
	err = s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) (err error) {
		seats.coupon, seats.winners = locked, &remembered{room: locked.Free(), complete: true}
		if seats.issued, err = s.give(ctx, tx, locked, seats.winners); err != nil {
			return err
		}
		seats.boundary = max(seats.account.Sums.LastIssued, seats.seated.winners.last)
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		return seats, nil
	}
	seats.issued = seats.issued.rolledBack()
	return seats, err
}

// planRest decides the rest of the line as the close-out does. With Order.List, review lists the new DLQ entries.
func (s *settlement) planRest(ctx context.Context, seats plannedSeats) (sum tally, review []coupon.Failure, err error) {
	refused := map[coupon.Application]bool{} // a run would have moved these to the DLQ already
	for _, f := range seats.seated.refused.failures {
		refused[f.Application] = true
	}
	byUser := seats.winners.all()
	slices.SortFunc(byUser, func(a, b Winner) int { return cmp.Compare(a.User, b.User) })
	err = s.eachPage(ctx, decision.AssumeExisting, func(page restPage) error {
		rest := slices.DeleteFunc(page.classified, func(c decision.Application) bool { return refused[c.Application] })
		d := decision.Decide(withWinners(rest, byUser), seats.seatsLeft, seats.boundary, s.run.stays)
		sum = sum.plus(reviewed(d.Review)).plus(
			tally{Counts: Counts{NotSelected: len(d.NotSelected), AlreadyIssued: len(d.AlreadyIssued)}})
		if s.run.List {
			review = append(review, d.Review...)
		}
		return nil
	})
	return sum, review, err
}

// withWinners changes a classified page as if the winners, who are sorted by user, had their coupons already.
func withWinners(page []decision.Application, winners []Winner) []decision.Application {
	rest := make([]decision.Application, 0, len(page))
	for _, c := range page {
		at, won := slices.BinarySearchFunc(winners, c.User(),
			func(w Winner, user coupon.UserID) int { return cmp.Compare(w.User, user) })
		switch {
		case won && winners[at].Arrival == c.Arrival:
			continue
		case won && c.Verdict != decision.Settled:
			c.Verdict, c.Holds = decision.HoldsAlready, true
		}
		rest = append(rest, c)
	}
	return rest
}
