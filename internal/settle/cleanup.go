package settle

import (
	"context"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
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
