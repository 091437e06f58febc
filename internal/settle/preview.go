package settle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Preview is what a run would do to a coupon, beside the counts of its Result.
type Preview struct {
	Digest   string      `json:"digest"`          // of the winners and the gap, for Order.Expect
	First    *Winner     `json:"first,omitempty"` // of the winners
	Last     *Winner     `json:"last,omitempty"`
	Causes   causes      `json:"rejectedBy,omitempty"` // how many would go under review or be rejected, and why
	Winners  []Winner    `json:"winners,omitempty"`    // all in order, with Order.List
	Rejected []Rejection `json:"rejected,omitempty"`   // the same
}

// Winner is an application that would get a seat.
type Winner struct {
	User    coupon.UserID  `json:"user"`
	Arrival coupon.Arrival `json:"arrival"` // µs since 1970
}

// Rejection is an application that would go to the DLQ.
type Rejection struct {
	User    string         `json:"user"` // as Redis holds it
	Arrival coupon.Arrival `json:"arrival"`
	Cause   coupon.Cause   `json:"cause"`
	Message string         `json:"message"`
}

// unfenced is the door of a preview, which moves nothing and waits for nothing.
type unfenced struct{ Door }

func (unfenced) Fence(context.Context, coupon.CouponID, time.Time, coupon.Promise) (wait, forPods time.Duration, err error) {
	return 0, 0, nil
}

// errRolledBack ends a preview's transaction.
var errRolledBack = &coupon.Error{Class: coupon.Setup, Err: errors.New("a preview is rolled back")}

// Preview says what RunOnce would do: it seats the winners by the same code in a transaction that is rolled back, and
// decides the rest of the line by the same code without a lock. It changes nothing and leaves no record. Applications that
// arrive between it and the run may change the result of a cutoff that has not come.
func (s *Settler) Preview(stop context.Context, order Order) (*Report, error) {
	ctx, release := outlive(stop, 0)
	defer release()
	order.dryRun = true
	planner := *s.withFreshDB()
	planner.Door = unfenced{s.Door}
	r, err := planner.newRun(ctx, stop, order, (*settlement).plan)
	if err != nil {
		return nil, err
	}
	coupons, err := planner.findCoupons(ctx, r)
	if err != nil {
		return nil, err
	}
	report := newReport(r)
	err = planner.settleAll(ctx, r, coupons, report)
	report.end(err, s.Now())
	return report, err
}

// plan is settle for a preview.
func (s *settlement) plan(ctx context.Context) (settled, error) {
	if !s.due() {
		return settled{notDue: true}, nil
	}
	seats, err := s.planSeats(ctx)
	if err != nil {
		return settled{issued: seats.issued}, err
	}
	done := settled{issued: seats.issued, preview: &Preview{Digest: seats.pin}}
	seated := seats.seated
	if all := seats.winners.all; len(all) > 0 {
		first, last := all[0], all[len(all)-1]
		done.preview.First, done.preview.Last = &Winner{first.user, first.arrival}, &Winner{last.user, last.arrival}
		for i := 0; s.run.List && i < len(all); i++ {
			done.preview.Winners = append(done.preview.Winners, Winner{all[i].user, all[i].arrival})
		}
	}
	done.cleaned = reviewed(seated.refusedWaiting())
	done.cleaned.Read = done.cleaned.UnderReview
	rest, review, err := s.planRest(ctx, seats)
	if err != nil {
		return settled{issued: seats.issued.undone()}, err
	}
	done.closed.tally = rest
	done.preview.Causes = done.tally().causes
	if s.run.List {
		for _, f := range slices.Concat(seated.returned, seated.refused.failures, review) {
			done.preview.Rejected = append(done.preview.Rejected, Rejection{f.Member, f.Arrival, f.Cause, f.Message})
		}
	}
	return done, nil
}

// plannedSeats is what a preview's transaction gave before it was rolled back.
type plannedSeats struct {
	issued
	winners  *remembered
	boundary coupon.Arrival // the highest arrival that ever got a seat
}

// planSeats gives the seats as issue does. The lock is released as soon as the winners are known.
func (s *settlement) planSeats(ctx context.Context) (seats plannedSeats, err error) {
	err = s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		seats = plannedSeats{issued: issued{coupon: s.coupon}}
		s.begin(StepLock)
		locked, err := lockCoupon(ctx, tx, s.coupon.ID)
		if err != nil {
			return err
		}
		seats.coupon, seats.winners = locked, &remembered{memory: new(memory), room: locked.Free()}
		if seats.issued, err = s.give(ctx, tx, locked, seats.winners); err != nil {
			return err
		}
		last, err := selectLastIssued(ctx, tx, locked.ID)
		if err != nil {
			return err
		}
		seats.boundary = max(last, seats.seated.winners.last)
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		return seats, nil
	}
	seats.issued = seats.issued.undone()
	return seats, err
}

// planRest decides the rest of the line as the close-out does, and returns what would go under review.
func (s *settlement) planRest(ctx context.Context, seats plannedSeats) (sum tally, review []coupon.Failure, err error) {
	refused := map[coupon.Application]bool{} // would be in the DLQ by now
	for _, f := range seats.seated.refused.failures {
		refused[f.Application] = true
	}
	byUser := slices.Clone(seats.winners.all)
	slices.SortFunc(byUser, func(a, b winner) int { return cmp.Compare(a.user, b.user) })
	for page, err := range line.Ahead(ctx, s.restOfLine().NextOrNil) {
		if err != nil {
			return tally{}, nil, err
		}
		if err := s.run.stopped(); err != nil {
			return tally{}, nil, err
		}
		read := len(*page)
		rest := slices.DeleteFunc(*page, func(a coupon.Application) bool { return refused[a] })
		var all []decision.Application
		err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
			all, err = decision.Classify(ctx, q, s.Users, s.coupon.ID, decision.AssumeExisting, rest)
			return err
		})
		if err != nil {
			return tally{}, nil, err
		}
		d := decision.Decide(withWinners(all, byUser), seats.seatsLeft, seats.boundary, s.run.stays)
		sum = sum.plus(reviewed(d.Review)).plus(tally{Counts: Counts{Read: d.Read, NotSelected: len(d.NotSelected), AlreadyIssued: len(d.AlreadyIssued)}})
		if s.run.List {
			review = append(review, d.Review...)
		}
		s.progress(read)
	}
	return sum, review, nil
}

// withWinners classifies a page as if the winners, which are in the order of users, held the coupon. Their own applications
// would be gone by now.
func withWinners(page []decision.Application, winners []winner) []decision.Application {
	rest := make([]decision.Application, 0, len(page))
	for _, c := range page {
		at, won := slices.BinarySearchFunc(winners, c.User(), func(w winner, user coupon.UserID) int { return cmp.Compare(w.user, user) })
		switch {
		case won && winners[at].arrival == c.Arrival:
			continue
		case won && c.Verdict != decision.Settled:
			c.Verdict, c.Holds = decision.HoldsAlready, true
		}
		rest = append(rest, c)
	}
	return rest
}
