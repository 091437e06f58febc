package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Published is the reply of Redis to a window.
type Published struct {
	coupon.Promise // counts of Redis, after the exchange with MySQL and the process
	coupon.Reading
}

// Publish writes the window into Redis, unless Redis got a newer version in the last three minutes. published reports
// whether Redis has this window now. Publish also raises the counts in Redis to those of MySQL (known) and of this
// process, and returns what Redis has now. It writes only what changes, and is safe to repeat.
func (s *Store) Publish(ctx context.Context, w coupon.Window,
	known coupon.Promise) (now Published, published bool, err error) {
	carried := s.Recorder.Seen(w.Coupon)
	status := "OPEN"
	if w.Paused {
		status = "PAUSED"
	}
	reply, err := s.run(ctx, publishScript, w.Coupon,
		w.Version, w.Opens.UnixMicro(), w.Closes.UnixMicro(), status, known.Accepted,
		max(known.LastArrival, carried.LastArrival),
		ttlSeconds, flag(w.Sold), known.Twice, carried.Epoch, carried.Accepted, carried.Twice, known.Since, w.LineLimit)
	if err != nil {
		return Published{}, false, err
	}
	published, promises, reading, err := readPublished(reply)
	if err != nil {
		return Published{}, false, publishScript.failed(w.Coupon, err)
	}
	s.Recorder.Answered(w.Coupon, carried, promises)
	return Published{promises.Promise(), reading}, published, nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func readPublished(reply []any) (published bool, promises Reply, reading coupon.Reading, err error) {
	n, texts, err := mixed(reply, 7, 1)
	if err != nil {
		return false, Reply{}, coupon.Reading{}, err
	}
	seen := Seen{LastArrival: coupon.Arrival(n[2]), Epoch: texts[0], Accepted: n[1], Twice: n[3]}
	reading = coupon.Reading{Waiting: n[5], Sold: n[6] == 1, Now: time.UnixMicro(n[4]).UTC()}
	return n[0] == 1, Reply{Seen: seen, Now: n[4]}, reading, nil
}

// StopApplying closes the window or pauses the coupon: Redis accepts no application afterwards. w is the window in the
// coupon's row. The caller has locked the row, and writes the returned version into it afterwards. If that fails,
// Publish restores the old window after three minutes. end is above every arrival, but not after the previous end.
func (s *Store) StopApplying(ctx context.Context, w coupon.Window, known coupon.Promise,
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
func (s *Store) Announce(ctx context.Context, w coupon.Window, known coupon.Promise) (soldOut bool, err error) {
	_, published, err := s.Publish(ctx, w, known)
	if err == nil && !published {
		err = fmt.Errorf("coupon %d has a newer window in redis", w.Coupon)
	}
	if err != nil {
		return false, err
	}
	if err := s.Renew(ctx, w.Coupon, w.Closes); err != nil {
		return false, err
	}
	c, err := s.Counts(ctx, w.Coupon, 0)
	return c.Sold, err
}

// Fence makes further arrivals below the cutoff impossible, and gives processes time to put back what a Redis server
// lost. It returns how long to wait for the shard's clock to reach the cutoff, and how long to wait for the processes.
// The caller repeats Fence until both are 0. known is the promise in MySQL.
func (s *Store) Fence(ctx context.Context, couponID coupon.CouponID, cutoff time.Time,
	known coupon.Promise) (wait, putBackWait time.Duration, err error) {
	n, err := s.fence(ctx, couponID, coupon.ArrivalAt(cutoff), known)
	if err != nil {
		return 0, 0, err
	}
	return time.Duration(n[0]) * time.Microsecond, time.Duration(n[1]) * time.Microsecond, nil
}

// Look returns the highest arrival that the coupon has ever given, so that no new one is below it, the time on the
// shard's clock, and how long processes may still put applications back. It writes only a new epoch. known is the
// promise in MySQL.
func (s *Store) Look(ctx context.Context, couponID coupon.CouponID,
	known coupon.Promise) (last, now coupon.Arrival, putBackWait time.Duration, err error) {
	n, err := s.fence(ctx, couponID, 0, known)
	if err != nil {
		return 0, 0, 0, err
	}
	return coupon.Arrival(n[2]), coupon.Arrival(n[3]), time.Duration(n[1]) * time.Microsecond, nil
}

func (s *Store) fence(ctx context.Context, couponID coupon.CouponID, cutoff coupon.Arrival,
	known coupon.Promise) ([]int64, error) {
	return s.numbers(ctx, fenceScript, couponID, 4, cutoff, ttlSeconds, known.Since, known.Accepted, known.Twice,
		s.putBackTime.Microseconds())
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

// Sweep deletes the keys of a finalised coupon; the state follows after FinishedTTL. It changes nothing while the queue
// or the DLQ has entries, or while the window is open.
func (s *Store) Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (swept bool, err error) {
	n, err := s.number(ctx, sweepScript, couponID, closes.UnixMicro(), int64(FinishedTTL/time.Second))
	return n == 1, err
}
