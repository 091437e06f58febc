package settle

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// What becomes of those who were not selected before and stand in line again, since seats were added.

// settleReturned keeps the records of those who were not selected before in step: a seat replaces the record, and who
// cannot take one any more is told so for good, since the seat goes to the next in line.
func (s *settlement) settleReturned(ctx context.Context, tx *sql.Tx, issued []coupon.Application, refused []classified) error {
	var returned []coupon.Application
	for _, a := range issued {
		if a.Source == coupon.SourceNotSelected {
			returned = append(returned, a)
		}
	}
	if err := deleteNotSelected(ctx, tx, s.coupon.ID, returned); err != nil {
		return err
	}
	for _, c := range refused {
		if c.Source != coupon.SourceNotSelected {
			continue
		}
		s.result.Read++
		became, reason := coupon.OutcomeAlreadyIssued, ""
		if rejection, ok := c.rejection(); ok {
			became, reason = coupon.OutcomeRejected, string(rejection.Cause)+": "+rejection.Message
			s.result.Rejected++
			s.result.rejectFor(rejection.Cause)
			s.rejects = true
			s.foreseeRejection(rejection)
		} else {
			s.result.AlreadyIssued++
		}
		if err := updateNotSelected(ctx, tx, s.run, s.coupon.ID, c.Application, became, reason); err != nil {
			return err
		}
	}
	return nil
}

// unstorableReturned are who was not selected before and whose row was refused now. The others Redis is told of after
// the commit.
func (s *settlement) unstorableReturned() (returned []coupon.Failure) {
	for _, f := range s.unstorable {
		if f.Source == coupon.SourceNotSelected {
			returned = append(returned, f)
		}
	}
	return returned
}

// place is where an application stands in line, wherever that is kept.
type place struct {
	member  string
	arrival coupon.Arrival
}

// takeBack deletes the records of who goes under review instead.
func (s *settlement) takeBack(ctx context.Context, tx *sql.Tx, returned []coupon.Failure) error {
	applications := make([]coupon.Application, len(returned))
	s.tookBack = make(map[place]bool, len(returned))
	for i, f := range returned {
		applications[i] = f.Application
		s.tookBack[place{f.Member, f.Arrival}] = true
	}
	s.result.Read += len(returned)
	s.result.reject(int64(len(returned)), returned)
	return deleteNotSelected(ctx, tx, s.coupon.ID, applications)
}

// reviewReturned comes last: should the commit fail, they stand in both places, and the record is what counts.
func (s *settlement) reviewReturned(ctx context.Context, tx *sql.Tx, returned []coupon.Failure) error {
	for _, f := range returned {
		moved, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, []coupon.Failure{f})
		if err != nil {
			return err
		}
		if moved > 0 {
			continue
		}
		// Another application of this user is under review already.
		s.rejects = true
		reason := mysqltx.Shorten(string(f.Cause)+": "+f.Message, maxReasonLetters)
		if err := insertOutcomes(ctx, tx, s.run, s.coupon.ID, coupon.OutcomeRejected, reason, []coupon.Application{f.Application}); err != nil {
			return err
		}
	}
	return nil
}
