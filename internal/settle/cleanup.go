package settle

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// cleanUpApplications is the greatest number of applications that one call removes from Redis.
const cleanUpApplications = 5_000

// removeRemembered removes winners from Redis in order of arrival, the order that costs Redis least.
func (s *settlement) removeRemembered(ctx context.Context, winners *remembered) error {
	for _, page := range winners.pages {
		for some := range slices.Chunk(page, cleanUpApplications) {
			if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkIssued,
				mapped(some, Winner.application)); err != nil {
				return err
			}
		}
	}
	return nil
}

// removePages removes from Redis the applications that a run has recorded as issued or, with MarkRejected, rejected.
func (s *settlement) removePages(ctx context.Context, run coupon.RunID, mark coupon.Mark) error {
	read := records.Issued
	if mark == coupon.MarkRejected {
		read = records.Rejected
	}
	for last := (records.Row{}); ; {
		var rows []records.Row
		err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
			rows, err = read(ctx, q, s.coupon.ID, run, last, cleanUpApplications)
			return err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, mark,
			mapped(rows, records.Row.Application)); err != nil {
			return err
		}
		last = rows[len(rows)-1]
	}
}

// CleanUp ends clean-ups that killed runs have left: it removes from Redis what they have settled. Applications that
// they had to move to the DLQ stay in the queue for the next run. It fails with a transient error if the coupon is
// locked.
func (s *Settler) CleanUp(ctx context.Context, couponID coupon.CouponID) error {
	one := *s
	one.DB = mysqltx.NewBrief(s.DB.Pool())
	t := one.newSettlement(run{stop: ctx}, coupon.Coupon{ID: couponID})
	var pending []records.Pending
	err := one.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		if t.coupon, err = records.LockNow(ctx, tx, couponID); err != nil {
			return err
		}
		t.run.cutoff = coupon.MaxArrival.Time()
		pending, err = records.PendingCleanUps(ctx, tx, couponID, t.run.cutoff, true)
		return err
	})
	if err != nil || len(pending) == 0 {
		return err
	}
	for _, p := range pending {
		for _, mark := range []coupon.Mark{coupon.MarkIssued, coupon.MarkRejected} {
			if err := t.removePages(ctx, p.ID, mark); err != nil {
				return err
			}
		}
	}
	err = t.eachPage(ctx, decision.AssumeExisting, func(page restPage) error {
		d := decision.Decide(page.classified, 1, 0, func(coupon.Application) bool { return true })
		_, err := t.Line.Remove(ctx, couponID, t.coupon.ClosesAt, coupon.MarkNone, d.RecordedBefore)
		return err
	})
	if err != nil {
		return err
	}
	return one.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		for _, p := range pending {
			if _, err := t.endCleanUp(ctx, q, p, s.Now().UTC()); err != nil {
				return err
			}
		}
		return nil
	})
}
