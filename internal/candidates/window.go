package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
	"github.com/jajeong/jajeong/internal/text"
)

// Published is the reply of Redis to a window.
type Published struct {
	coupon.Reading
	coupon.Line // without Left, DLQ, Issued and Returned
}

// Publish writes the window into Redis, unless Redis got a newer version in the last three minutes. published reports
// whether Redis has this window now. known is the highest arrival that MySQL knows: none that is given later is at or
// below it. It writes only what changes, and is safe to repeat.
func (s *Store) Publish(ctx context.Context, w coupon.Window,
	known coupon.Arrival) (now Published, published bool, err error) {
	status := "OPEN"
	if w.Paused {
		status = "PAUSED"
	}
	reply, err := s.run(ctx, publishScript, w.Coupon,
		w.Version, w.Opens.UnixMicro(), w.Closes.UnixMicro(), status, max(known, s.Recorder.Seen(w.Coupon)),
		ttlSeconds, flag(w.Sold), w.LineLimit)
	if err != nil {
		return Published{}, false, err
	}
	n, texts, err := mixed(reply, 9, 1)
	if err != nil {
		return Published{}, false, publishScript.failed(w.Coupon, err)
	}
	now = Published{coupon.Reading{Waiting: n[2], Sold: n[3] == 1, Now: time.UnixMicro(n[1]).UTC()},
		coupon.Line{Epoch: texts[0], Since: coupon.Arrival(n[4]), Restored: n[5] == 1, Restores: n[6], Accepted: n[7],
			Last: coupon.Arrival(n[8]), Waiting: n[2]}}
	s.Recorder.Answered(w.Coupon, Reply{Epoch: now.Epoch, Restores: now.Restores})
	return now, n[0] == 1, nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// StopApplying closes the window or pauses the coupon: Redis accepts no application afterwards. w is the window in the
// coupon's row. The caller has locked the row, and writes the returned version into it afterwards. If that fails,
// Publish restores the old window after three minutes. end is above every arrival, but not after the previous end.
func (s *Store) StopApplying(ctx context.Context, w coupon.Window, known coupon.Arrival,
	pause bool) (version int64, end time.Time, err error) {
	if _, _, err := s.Publish(ctx, w, known); err != nil {
		return 0, time.Time{}, err
	}
	return s.stopApplying(ctx, w.Coupon, w.Version+1, pause)
}

func (s *Store) stopApplying(ctx context.Context, couponID coupon.CouponID, version int64,
	pause bool) (now int64, end time.Time, err error) {
	how := "CLOSED"
	if pause {
		how = "PAUSED"
	}
	n, err := s.numbers(ctx, stopApplyingScript, couponID, 2, version, how)
	if err == nil && n[0] == 0 {
		err = fmt.Errorf("stop applying for coupon %d: redis has no window", couponID)
	}
	if err != nil {
		return 0, time.Time{}, err
	}
	return n[0], time.UnixMicro(n[1]).UTC(), nil
}

// Announce publishes a newly committed window and renews the coupon's keys. It reports whether Apply answers SOLD_OUT.
func (s *Store) Announce(ctx context.Context, w coupon.Window, known coupon.Arrival) (soldOut bool, err error) {
	now, published, err := s.Publish(ctx, w, known)
	if err == nil && !published {
		err = text.RetryableErrorf(text.NewerWindow, w.Coupon)
	}
	if err != nil {
		return false, err
	}
	return now.Sold, s.Renew(ctx, w.Coupon, w.Closes)
}

// Renew gives a coupon's keys their full TTL again. It is safe to repeat.
func (s *Store) Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error {
	_, err := s.number(ctx, renewScript, couponID, closes.UnixMicro(), ttlSeconds)
	return err
}

// SetSold records in Redis whether every seat is taken. It is safe to repeat.
func (s *Store) SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error {
	_, err := s.number(ctx, setSoldScript, couponID, flag(sold), ttlSeconds)
	return err
}

// Sweep deletes the keys of a coupon that ends; its state expires after FinishedTTL. The marks of who has it stay until
// Unmark: by them, winners come back whose settlement MySQL has lost. It changes nothing while the queue or the DLQ has
// entries, or while the window is open.
func (s *Store) Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (swept bool, err error) {
	n, err := s.number(ctx, sweepScript, couponID, closes.UnixMicro(), int64(FinishedTTL/time.Second))
	return n == 1, err
}

// Unmark deletes the marks of who has a coupon that ended some time ago. It is safe to repeat.
func (s *Store) Unmark(ctx context.Context, couponID coupon.CouponID) error {
	if err := s.rdb.Unlink(ctx, s.names.coupon(couponID).issued).Err(); err != nil {
		return fmt.Errorf("unmark coupon %d: %w", couponID, rediserr.Classify(err))
	}
	return nil
}
