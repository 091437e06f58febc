package candidates

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// Inspection is what a checker looks at beside the counts of a coupon, at one instant.
type Inspection struct {
	Now          time.Time // the shard's clock
	Known        bool      // false: Redis holds no window, since it was swept, was lost, or never came
	Opens        time.Time // zero where it cannot be read, as Closes
	Closes       time.Time
	Paused       bool
	Version      int64         // of the window
	QueueLife    time.Duration // until the queue expires; negative: never, or nobody waits
	DLQ, Reasons int64         // entries under review, and reasons of entries
	Unexplained  int64         // of the first in the DLQ, those without a readable reason
	ReviewLife   time.Duration // until the first of both goes; negative: never, as it should be
}

// explainedEntries are looked at one by one: as many as a script may without holding Redis up.
const explainedEntries = 500

// Inspect reads it in one script. Repeating it is safe.
func (s *Store) Inspect(ctx context.Context, couponID coupon.CouponID) (Inspection, error) {
	k := s.names.coupon(couponID)
	reply, err := inspectScript.run(ctx, s.rdb, []string{k.queue, k.state, k.dlq, k.reason}, explainedEntries)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect coupon %d in redis: %w", couponID, err)
	}
	i, err := readInspection(reply)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect coupon %d in redis: %w", couponID, err)
	}
	return i, nil
}

func readInspection(reply []any) (i Inspection, err error) {
	var window []any
	if len(reply) == 7 {
		window, _ = reply[6].([]any)
		reply = reply[:6]
	}
	n, err := inspectScript.integers(reply, 6)
	if err != nil {
		return Inspection{}, err
	}
	texts, err := inspectScript.texts(window, 4)
	if err != nil {
		return Inspection{}, err
	}
	i = Inspection{Now: time.UnixMicro(n[0]).UTC(), QueueLife: time.Duration(n[1]) * time.Millisecond, DLQ: n[2], Reasons: n[3], Unexplained: n[4],
		ReviewLife: time.Duration(n[5]) * time.Millisecond, Paused: texts[2] != "OPEN",
		Known: texts[0] != "" && texts[1] != "" || texts[3] != ""} // a version comes with a window, and never without
	i.Opens, i.Closes = instantOrZero(texts[0]), instantOrZero(texts[1])
	i.Version, _ = strconv.ParseInt(texts[3], 10, 64) // 0: of no row
	return i, nil
}

func instantOrZero(text string) time.Time {
	t, err := instantOf(text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// MarkedRejected pages through the users whom the door answers REJECTED, as MarkedIssued.
func (s *Store) MarkedRejected(ctx context.Context, couponID, after uint64) (users []string, next uint64, err error) {
	users, next, err = s.rdb.SScan(ctx, s.names.coupon(couponID).rejected, after, "", queuePageMembers).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read rejections of coupon %d: %w", couponID, classify(err))
	}
	return users, next, nil
}

// scannedKeys are looked at by one SCAN: well below a millisecond.
const scannedKeys = 1000

// ScanCoupons visits the coupons that have any key, a page after the other, in no order; one may come more than once. It goes
// through the names of all keys, on each master of a Cluster.
func (s *Store) ScanCoupons(ctx context.Context, visit func(coupons []coupon.CouponID) error) error {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return s.eachPageOn(ctx, s.rdb, visit)
	}
	var one sync.Mutex // masters are asked side by side
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		return s.eachPageOn(ctx, master, func(coupons []coupon.CouponID) error {
			one.Lock()
			defer one.Unlock()
			return visit(coupons)
		})
	})
}

func (s *Store) eachPageOn(ctx context.Context, rdb redis.Cmdable, visit func(coupons []coupon.CouponID) error) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		names, next, err := rdb.Scan(ctx, cursor, s.names.pattern(), scannedKeys).Result()
		if err != nil {
			return fmt.Errorf("look for coupons in redis: %w", classify(err))
		}
		cursor = next
		var coupons []coupon.CouponID
		for _, name := range names {
			if id, ok := s.names.couponOf(name); ok {
				coupons = append(coupons, id)
			}
		}
		if len(coupons) == 0 {
			continue
		}
		if err := visit(coupons); err != nil {
			return err
		}
	}
	return nil
}
