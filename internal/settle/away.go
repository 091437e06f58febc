package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"go.uber.org/zap"
)

// setAside puts the first of the line, as many as seats are free, under review: they are first in the next run, and
// until then their applicants are told that something went wrong. Who stands there already keeps why: that is what somebody
// may have to mend. The others wait on.
func (s *settlement) setAside(ctx context.Context, why error) error {
	var cursor coupon.Cursor
	for seats := s.coupon.Free(); seats > 0; {
		if err := s.run.stopped(); err != nil {
			return err
		}
		page, next, err := s.Line.Page(ctx, s.coupon.ID, cursor, s.run.cutoff)
		if err != nil || len(page) == 0 {
			return err
		}
		cursor = next
		page = slices.DeleteFunc(page, func(a coupon.Application) bool { return a.User() == 0 || a.Source == coupon.SourceHeld })
		first := make([]coupon.Failure, min(len(page), seats))
		for i := range first {
			first[i] = coupon.Failure{Application: page[i], Cause: coupon.CauseDatabaseAway, Retryable: true, Keep: page[i].Source != coupon.SourceQueue, Message: why.Error()}
		}
		reviewed, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, first)
		s.result.reject(reviewed, first)
		if err != nil {
			return err
		}
		seats -= len(first)
	}
	return nil
}

// withoutDatabase does what a run can when it could not even begin: every coupon's life is renewed and, when MySQL cannot
// be reached, its first applicants are put under review, as far as the catalog knows the coupons. The report has no run:
// none is recorded.
func (s *Settler) withoutDatabase(ctx context.Context, r run, coupons []coupon.Coupon, why error) (*Report, error) {
	if refused := new(mysqltx.Away); !errors.As(why, &refused) || ctx.Err() != nil {
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
		result := Result{Coupon: c.ID, Name: c.Name, SeatsLeft: c.Free()}
		one := &settlement{Settler: s, run: r, coupon: c, result: &result, logger: s.Logger}
		began := s.Now()
		err := s.Door.Renew(ctx, c.ID, c.ClosesAt)
		if err == nil && mysqltx.IsAway(why) {
			err = one.setAside(ctx, why)
		}
		told := &mysqltx.Away{Err: fmt.Errorf("mysql refuses everything; %d from the head of the line went under review, to be tried by the next run", result.Rejected)}
		result.conclude(errors.Join(told, err), s.Now().Sub(began))
		report.add(result)
		s.Logger.Log(r.alarm(), "coupon not settled", zap.Uint64("coupon_id", c.ID), zap.Int("under_review", result.Rejected), zap.Error(why))
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
