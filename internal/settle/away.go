package settle

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// setAside moves the first applications to the DLQ, as many as seats are free. The next run tries them first. Until
// then, applying again is answered UNDER_REVIEW. An application that is in the DLQ already keeps its cause.
func (s *settlement) setAside(ctx context.Context, c coupon.Coupon, why error) (sum tally, err error) {
	if c.Frozen {
		return tally{}, nil
	}
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
		page = slices.DeleteFunc(page, func(a coupon.Application) bool {
			return a.User() == 0 ||
				a.Source == coupon.SourceHeld
		})
		first := make([]coupon.Failure, min(len(page), seats))
		for i := range first {
			first[i] = coupon.Failure{Application: page[i], Cause: coupon.CauseDatabaseAway, Retryable: true,
				Keep: page[i].Source != coupon.SourceQueue, Note: why.Error()}
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

// withoutDatabase handles a run that could not begin because MySQL was away. It renews the keys of all known coupons.
// If MySQL cannot be reached, a nightly run moves the first applications to the DLQ. A manual run moves nothing,
// because its operator sees the error and can run again. The run is not recorded.
func (s *Settler) withoutDatabase(ctx context.Context, r run, coupons []coupon.Coupon, why error) (*Report, error) {
	if !errors.As(why, new(*mysqltx.Away)) || ctx.Err() != nil {
		return nil, why
	}
	if coupons == nil {
		known, err := s.Catalog.Coupons(ctx)
		if err != nil {
			return nil, errors.Join(why, err)
		}
		coupons = slices.DeleteFunc(known, func(c coupon.Coupon) bool { // same choice as in chooseCoupons
			asked := len(r.Coupons) > 0
			return asked && !slices.Contains(r.Coupons, c.ID) || !asked &&
				(c.Finalised() || !c.OpensAt.Before(r.cutoff))
		})
	}
	r.coupons = len(coupons)
	report := newReport(r)
	for _, c := range coupons {
		if r.stopped() != nil {
			break
		}
		var done settled
		began := s.Now()
		err := s.Door.Renew(ctx, c.ID, c.ClosesAt)
		if err == nil && r.rules.setsAside && mysqltx.IsAway(why) {
			done.aside, err = s.newSettlement(r, c).setAside(ctx, c, why)
		}
		away := &mysqltx.Away{Err: text.Errorf(text.MySQLRefuses)}
		report.add(done.result(c, errors.Join(away, err), s.Now().Sub(began)))
		s.Logger.Log(r.rules.alarm(), "coupon not settled", zap.Uint64("coupon_id", uint64(c.ID)),
			zap.Int("under_review", done.aside.UnderReview), zap.Error(why))
	}
	report.end(why, s.Now().Sub(r.startedAt))
	return report, errors.Join(why, r.stopped())
}
