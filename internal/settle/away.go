package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// setAside puts the first applications of the line, as many as seats are free, under review: they are first in the next
// run, and until then applying again answers UNDER_REVIEW. A DLQ entry keeps its cause, which an operator may have to mend.
// The others wait on.
func (s *settlement) setAside(ctx context.Context, c coupon.Coupon, why error) (sum tally, err error) {
	var cursor coupon.Cursor
	for seats := c.Free(); seats > 0; {
		if err := s.run.stopped(); err != nil {
			return sum, err
		}
		page, next, err := s.Line.Page(ctx, c.ID, cursor, s.run.cutoff)
		if err != nil || len(page) == 0 {
			return sum, err
		}
		cursor = next
		page = slices.DeleteFunc(page, func(a coupon.Application) bool { return a.User() == 0 || a.Source == coupon.SourceHeld })
		first := make([]coupon.Failure, min(len(page), seats))
		for i := range first {
			first[i] = coupon.Failure{Application: page[i], Cause: coupon.CauseDatabaseAway, Retryable: true, Keep: page[i].Source != coupon.SourceQueue, Message: why.Error()}
		}
		moved, err := s.moveToReview(ctx, first)
		sum = sum.plus(moved)
		if err != nil {
			return sum, err
		}
		seats -= len(first)
	}
	return sum, nil
}

// withoutDatabase does what a run can that could not even begin: it renews every coupon's life and, where MySQL cannot be
// reached, puts the first applications under review, as far as the catalog knows the coupons. The run is not recorded.
func (s *Settler) withoutDatabase(ctx context.Context, r run, coupons []coupon.Coupon, why error) (*Report, error) {
	if !errors.As(why, new(*mysqltx.Away)) || ctx.Err() != nil {
		return nil, why
	}
	if coupons == nil {
		known, err := s.Catalog.Coupons(ctx)
		if err != nil {
			return nil, errors.Join(why, err)
		}
		coupons = slices.DeleteFunc(known, func(c coupon.Coupon) bool { return !r.wants(c) })
	}
	report := newReport(r)
	for _, c := range coupons {
		if r.stopped() != nil {
			break
		}
		var done settled
		began := s.Now()
		err := s.Door.Renew(ctx, c.ID, c.ClosesAt)
		if err == nil && mysqltx.IsAway(why) {
			done.aside, err = s.newSettlement(r, c).setAside(ctx, c, why)
		}
		n := done.aside.UnderReview
		away := &mysqltx.Away{Err: fmt.Errorf("mysql refuses everything; %d from the head of the line went under review, to be tried by the next run", n)}
		report.add(done.result(c, errors.Join(away, err), s.Now().Sub(began)))
		s.Logger.Log(r.alarm(), "coupon not settled", zap.Uint64("coupon_id", uint64(c.ID)), zap.Int("under_review", n), zap.Error(why))
	}
	report.end(why, s.Now())
	return report, errors.Join(why, r.stopped())
}

// wants is chooseCoupons for when MySQL cannot be asked.
func (r run) wants(c coupon.Coupon) bool {
	if len(r.Coupons) > 0 {
		return slices.Contains(r.Coupons, c.ID)
	}
	return !c.Finalised() && c.OpensAt.Before(r.cutoff)
}
