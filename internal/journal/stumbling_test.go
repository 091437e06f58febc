package journal_test

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
)

// stumbling is a Redis that calls stumble before and after each call, with its context. An error of it is that of the
// call.
type stumbling struct {
	journal.Line
	stumble func(ctx context.Context, call string, after bool) error
}

func around[T any](ctx context.Context, s stumbling, call string, do func() (T, error)) (got T, err error) {
	if err := s.stumble(ctx, call, false); err != nil {
		return got, err
	}
	if got, err = do(); err == nil {
		err = s.stumble(ctx, call, true)
	}
	return got, err
}

func (s stumbling) Look(ctx context.Context, id coupon.CouponID, known coupon.Known) (coupon.Look, error) {
	return around(ctx, s, "Look", func() (coupon.Look, error) { return s.Line.Look(ctx, id, known) })
}

func (s stumbling) Absent(ctx context.Context, id coupon.CouponID,
	all []coupon.Answer) ([]coupon.Answer, error) {
	return around(ctx, s, "Absent", func() ([]coupon.Answer, error) { return s.Line.Absent(ctx, id, all) })
}

func (s stumbling) Enter(ctx context.Context, id coupon.CouponID, epoch string,
	all []candidates.Entry) (candidates.Entered, error) {
	return around(ctx, s, "Enter", func() (candidates.Entered, error) { return s.Line.Enter(ctx, id, epoch, all) })
}

func (s stumbling) Returned(ctx context.Context, id coupon.CouponID,
	after uint64) (all []coupon.Application, next uint64, err error) {
	all, err = around(ctx, s, "Returned", func() (all []coupon.Application, err error) {
		all, next, err = s.Line.Returned(ctx, id, after)
		return all, err
	})
	return all, next, err
}

func (s stumbling) TakeReturned(ctx context.Context, id coupon.CouponID, all []coupon.Application) error {
	_, err := around(ctx, s, "TakeReturned", func() (any, error) { return nil, s.Line.TakeReturned(ctx, id, all) })
	return err
}

func (s stumbling) EndRestore(ctx context.Context, id coupon.CouponID, e candidates.Ending) (candidates.Ended, error) {
	return around(ctx, s, "EndRestore", func() (candidates.Ended, error) { return s.Line.EndRestore(ctx, id, e) })
}

func (s stumbling) Remove(ctx context.Context, id coupon.CouponID, closes time.Time, mark coupon.Mark,
	all []coupon.Application) (int64, error) {
	return around(ctx, s, "Remove", func() (int64, error) { return s.Line.Remove(ctx, id, closes, mark, all) })
}

func (s stumbling) Marked(ctx context.Context, id coupon.CouponID, mark coupon.Mark,
	after uint64) (users []coupon.Application, next uint64, err error) {
	users, err = around(ctx, s, "Marked", func() (users []coupon.Application, err error) {
		users, next, err = s.Line.Marked(ctx, id, mark, after)
		return users, err
	})
	return users, next, err
}

// once makes something happen after the first call of a kind.
func once(of string, happens func()) func(_ context.Context, call string, after bool) error {
	happened := false
	return func(_ context.Context, call string, after bool) error {
		if call == of && after && !happened {
			happened = true
			happens()
		}
		return nil
	}
}
