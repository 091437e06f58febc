package settle

import (
	"context"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// tellApplications are removed from Redis at once, and read back from MySQL where they must be.
	tellApplications = 5_000
	// mostRemembered winners are kept in memory, by all settlements of a run: 16 MB.
	mostRemembered = 1_000_000
)

// tellRedis tells who was issued and who was rejected, by this run and by earlier ones that did not come so far. All of
// it can be read from what was committed, so that it makes no difference which process did that; only why a row was
// refused is known here alone.
func (s *settlement) tellRedis(ctx context.Context) error {
	s.begin(StepTell)
	for _, u := range s.uncleaned {
		if u.run == s.run.id && s.winners != nil {
			if err := s.tellWinners(ctx); err != nil {
				return err
			}
			if !s.rejects {
				continue
			}
		} else if err := s.tellPages(ctx, u.run, coupon.MarkIssued, selectIssued); err != nil {
			return err
		}
		if err := s.tellPages(ctx, u.run, coupon.MarkRejected, selectRejected); err != nil {
			return err
		}
	}
	refused := slices.DeleteFunc(s.unstorable, func(f coupon.Failure) bool { return f.Source == coupon.SourceNotSelected })
	reviewed, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, refused)
	s.result.reject(reviewed, refused)
	return err
}

// tellWinners need not read back whom this run remembers; and in the order of the line they cost Redis least.
func (s *settlement) tellWinners(ctx context.Context) error {
	for some := range slices.Chunk(s.winners, tellApplications) {
		page := make([]coupon.Application, len(some))
		for i, w := range some {
			page[i] = coupon.Application{Member: coupon.Member(w.user), Arrival: w.arrival, Source: coupon.SourceQueue}
		}
		if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkIssued, page); err != nil {
			return err
		}
	}
	return nil
}

type selectPage func(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, run coupon.RunID, after coupon.Application, limit int) ([]coupon.Application, error)

func (s *settlement) tellPages(ctx context.Context, run coupon.RunID, mark coupon.Mark, next selectPage) error {
	var last coupon.Application
	for {
		var page []coupon.Application
		err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
			page, err = next(ctx, q, s.coupon.ID, run, last, tellApplications)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, mark, page); err != nil {
			return err
		}
		last = page[len(page)-1]
	}
}

// winner is who got a seat, as small as can be.
type winner struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// reserve makes room to remember so many winners until release, unless others have it.
func (s *settlement) reserve(seats int) (release func()) {
	n := int64(seats)
	if s.run.remembered.Add(n) > mostRemembered {
		s.run.remembered.Add(-n)
		return func() {}
	}
	s.room = seats
	return func() { s.room, s.winners = 0, nil; s.run.remembered.Add(-n) }
}

// remember takes note of winners; soFar are all of this transaction. Of a part Redis must not be told as if it were all.
func (s *settlement) remember(issued []coupon.Application, soFar int) {
	switch {
	case soFar > s.room: // seats were added since room was reserved
		s.winners = nil
		return
	case s.winners == nil:
		s.winners = make([]winner, 0, s.room)
	}
	for _, a := range issued {
		s.winners = append(s.winners, winner{a.User(), a.Arrival})
	}
}
