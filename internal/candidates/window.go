package candidates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// Publish writes the window into Redis, unless Redis got a newer version in the last three minutes. It lifts the counts in
// Redis to those that MySQL and this process know, and returns the counts in force. published reports that Redis now has this
// window. A publish without a change writes nothing. It is safe to repeat.
func (s *Store) Publish(ctx context.Context, w coupon.Window, known coupon.Promise) (now coupon.Promise, published bool, err error) {
	carried := s.Recorder.Seen(w.Coupon)
	status := "OPEN"
	if w.Paused {
		status = "PAUSED"
	}
	reply, err := publishScript.run(ctx, s.rdb, []string{s.names.coupon(w.Coupon).state},
		w.Version, w.Opens.UnixMicro(), w.Closes.UnixMicro(), status, known.Accepted, max(known.LastArrival, carried.LastArrival),
		s.ttlSeconds, flag(w.Sold), known.Twice, carried.Epoch, carried.Accepted, carried.Twice, known.Since)
	if err != nil {
		return coupon.Promise{}, false, fmt.Errorf("publish window of coupon %d: %w", w.Coupon, err)
	}
	published, promises, err := readPublished(reply)
	if err != nil {
		return coupon.Promise{}, false, fmt.Errorf("publish window of coupon %d: %w", w.Coupon, err)
	}
	s.Recorder.Answered(w.Coupon, carried, promises)
	return promises.Promise(), published, nil
}

// flag is a bool as scripts take it.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func readPublished(reply []any) (published bool, promises Reply, err error) {
	const numbers = 5
	if len(reply) != numbers+1 {
		return false, Reply{}, fmt.Errorf("%d values in the reply, want %d", len(reply), numbers+1)
	}
	n, err := publishScript.integers(reply[:numbers], numbers)
	if err != nil {
		return false, Reply{}, err
	}
	epoch, ok := reply[numbers].(string)
	if !ok {
		return false, Reply{}, fmt.Errorf("epoch %v, want text", reply[numbers])
	}
	return n[0] == 1, Reply{Seen: Seen{LastArrival: n[2], Epoch: epoch, Accepted: n[1], Twice: n[3]}, Now: n[4]}, nil
}

// StopApplying ends the window now, or pauses the coupon, so that no application is accepted any more. w is the window that the
// coupon's row still has, for a Redis that has lost it. The caller holds the lock of the row and afterwards writes the row
// with the version that is returned. end is behind every arrival, but not behind the end that the window had. If the row is
// not written, Publish restores the window after three minutes. Safe to repeat.
func (s *Store) StopApplying(ctx context.Context, w coupon.Window, known coupon.Promise, pause bool) (version int64, end time.Time, err error) {
	if _, _, err := s.Publish(ctx, w, known); err != nil {
		return 0, time.Time{}, err
	}
	return s.shut(ctx, w.Coupon, w.Version+1, pause)
}

// Announce publishes a window that was just committed, gives the coupon's keys the life that it asks for, and returns whether
// applying answers SOLD_OUT. Safe to repeat.
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
	f, err := s.Counts(ctx, w.Coupon, 0)
	return f.Sold, err
}

// CountMarked counts the users whom applying answers ALREADY_ISSUED and REJECTED.
func (s *Store) CountMarked(ctx context.Context, couponID coupon.CouponID) (issued, rejected int64, err error) {
	f, err := s.Counts(ctx, couponID, 0)
	return f.Issued, f.Rejected, err
}

func (s *Store) shut(ctx context.Context, couponID coupon.CouponID, version int64, pause bool) (now int64, end time.Time, err error) {
	how := "CLOSED"
	if pause {
		how = "PAUSED"
	}
	reply, err := stopApplyingScript.run(ctx, s.rdb, []string{s.names.coupon(couponID).state}, version, how)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("shut the door of coupon %d: %w", couponID, err)
	}
	n, err := stopApplyingScript.integers(reply, 2)
	if err == nil && n[0] == 0 {
		err = errors.New("it knows no window")
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("shut the door of coupon %d: %w", couponID, err)
	}
	return n[0], time.UnixMicro(n[1]).UTC(), nil
}

// Fence makes sure that nothing can arrive below the cutoff any more, and that pods have had the time to put back whom a
// server took with it. It returns how long the shard's clock still needs to reach the cutoff, and how long the pods need;
// twice 0 means the fence stands. known is what MySQL remembers. Safe to repeat.
func (s *Store) Fence(ctx context.Context, couponID coupon.CouponID, cutoff time.Time, known coupon.Promise) (wait, forPods time.Duration, err error) {
	reply, err := fenceScript.run(ctx, s.rdb, []string{s.names.coupon(couponID).state}, cutoff.UnixMicro(), s.ttlSeconds,
		known.Since, known.Accepted, known.Twice, s.putBackTime.Microseconds())
	if err != nil {
		return 0, 0, fmt.Errorf("fence coupon %d: %w", couponID, err)
	}
	n, err := fenceScript.integers(reply, 2)
	if err != nil {
		return 0, 0, fmt.Errorf("fence coupon %d: %w", couponID, err)
	}
	return time.Duration(n[0]) * time.Microsecond, time.Duration(n[1]) * time.Microsecond, nil
}

// Renew gives a coupon's keys their full life again. Safe to repeat.
func (s *Store) Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error {
	k := s.names.coupon(couponID)
	_, err := renewScript.count(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected}, closes.UnixMicro(), s.ttlSeconds)
	if err != nil {
		return fmt.Errorf("renew keys of coupon %d: %w", couponID, err)
	}
	return nil
}

// SetSold tells the door whether every seat is taken. Safe to repeat.
func (s *Store) SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error {
	if _, err := setSoldScript.count(ctx, s.rdb, []string{s.names.coupon(couponID).state}, flag(sold), s.ttlSeconds); err != nil {
		return fmt.Errorf("set sold of coupon %d: %w", couponID, err)
	}
	return nil
}

// Sweep unlinks the keys of a finished coupon and lets its state expire. It does nothing, and says so, while anybody
// stands in line or under review or the door is not shut. Safe to repeat.
func (s *Store) Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (swept bool, err error) {
	k := s.names.coupon(couponID)
	n, err := sweepScript.count(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq, k.reason},
		closes.UnixMicro(), int64(FinishedTTL/time.Second))
	if err != nil {
		return false, fmt.Errorf("sweep coupon %d: %w", couponID, err)
	}
	return n == 1, nil
}

// SaveCatalog keeps a snapshot of the catalog for pods that cannot reach MySQL.
func (s *Store) SaveCatalog(ctx context.Context, snapshot []byte) error {
	if err := s.rdb.Set(ctx, s.names.catalog(), snapshot, 0).Err(); err != nil {
		return fmt.Errorf("save catalog snapshot: %w", classify(err))
	}
	return nil
}

// CatalogHead returns the first bytes of the snapshot that SaveCatalog kept; nothing when there is none.
func (s *Store) CatalogHead(ctx context.Context, bytes int64) ([]byte, error) {
	head, err := s.rdb.GetRange(ctx, s.names.catalog(), 0, bytes-1).Bytes()
	if err != nil {
		return nil, fmt.Errorf("look at catalog snapshot: %w", classify(err))
	}
	return head, nil
}

// LoadCatalog returns the snapshot that SaveCatalog kept; nil when there is none.
func (s *Store) LoadCatalog(ctx context.Context) ([]byte, error) {
	snapshot, err := s.rdb.Get(ctx, s.names.catalog()).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load catalog snapshot: %w", classify(err))
	}
	return snapshot, nil
}
