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

// Inspection is what verify needs beside Counts, at one instant.
type Inspection struct {
	Now          time.Time // the shard's clock
	Known        bool      // Redis has a window; it has none before the first refresh, after a sweep and after a loss
	Opens        time.Time // zero: unreadable, as Closes
	Closes       time.Time
	Paused       bool
	Version      int64         // of the window
	QueueLife    time.Duration // until the queue expires; negative: never, or the queue is empty
	DLQ, Reasons int64         // DLQ entries and stored reasons
	Unexplained  int64         // of the first DLQ entries, those without a readable reason
	ReviewLife   time.Duration // until one of the DLQ's keys expires; negative: never, as it should be
}

// explainedEntries is how many DLQ entries one script reads.
const explainedEntries = 500

// Inspect inspects a coupon in one script.
func (s *Store) Inspect(ctx context.Context, couponID coupon.CouponID) (Inspection, error) {
	return ask(ctx, s, inspectScript, couponID, readInspection, explainedEntries)
}

func readInspection(reply []any) (i Inspection, err error) {
	n, texts, err := mixed(reply, 6, 4)
	if err != nil {
		return Inspection{}, err
	}
	i = Inspection{Now: time.UnixMicro(n[0]).UTC(), QueueLife: time.Duration(n[1]) * time.Millisecond, DLQ: n[2], Reasons: n[3], Unexplained: n[4],
		ReviewLife: time.Duration(n[5]) * time.Millisecond, Paused: texts[2] != "OPEN",
		Known: texts[0] != "" && texts[1] != "" || texts[3] != ""} // a version is only written with a window
	i.Opens, _ = instantOf(texts[0])
	i.Closes, _ = instantOf(texts[1])
	i.Version, _ = strconv.ParseInt(texts[3], 10, 64) // 0 is the version of no row
	return i, nil
}

// Marked pages through the users with a mark, in no order. Cursor 0 begins, and marks the last page. A user may appear twice.
func (s *Store) Marked(ctx context.Context, couponID coupon.CouponID, mark coupon.Mark, after uint64) (users []string, next uint64, err error) {
	k := s.names.coupon(couponID)
	set := map[coupon.Mark]string{coupon.MarkIssued: k.issued, coupon.MarkRejected: k.rejected}[mark]
	users, next, err = s.rdb.SScan(ctx, set, after, "", queuePageMembers).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read marks of coupon %d: %w", couponID, classify(err))
	}
	return users, next, nil
}

// scannedKeys is the COUNT of one SCAN, which takes well below a millisecond.
const scannedKeys = 1000

// ScanCoupons visits the coupons that have any key, page by page, in no order. A coupon may appear more than once. It scans the
// names of all keys, on each master of a Cluster.
func (s *Store) ScanCoupons(ctx context.Context, visit func(coupons []coupon.CouponID) error) error {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return s.scanNode(ctx, s.rdb, visit)
	}
	var visiting sync.Mutex // masters are scanned in parallel
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		return s.scanNode(ctx, master, func(coupons []coupon.CouponID) error {
			visiting.Lock()
			defer visiting.Unlock()
			return visit(coupons)
		})
	})
}

func (s *Store) scanNode(ctx context.Context, rdb redis.Cmdable, visit func(coupons []coupon.CouponID) error) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		names, next, err := rdb.Scan(ctx, cursor, s.names.pattern(), scannedKeys).Result()
		if err != nil {
			return fmt.Errorf("scan coupons in redis: %w", classify(err))
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
