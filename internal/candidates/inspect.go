package candidates

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// Inspection is what `settle verify` needs from Redis in addition to a Look.
type Inspection struct {
	Now          time.Time // time on the clock of the coupon's Redis shard
	Known        bool      // whether Redis has a window; false before the first refresh, and after the coupon's end
	Opens        time.Time // zero: unreadable
	Closes       time.Time // zero: unreadable
	Paused       bool
	Version      int64         // version of the window
	LineLimit    int           // 0: none, or unreadable
	QueueLife    time.Duration // time until the queue expires; negative: it never expires, or it is empty
	DLQ, Reasons int64         // number of DLQ entries, and of stored reasons
	Unexplained  int64         // how many of the first 500 DLQ entries have no readable reason
	ReviewLife   time.Duration // time until a key of the DLQ expires; negative: none expires, which is right
}

// explainedEntries is how many DLQ entries Inspect checks for a readable reason.
const explainedEntries = 500

func (s *Store) Inspect(ctx context.Context, couponID coupon.CouponID) (Inspection, error) {
	return ask(ctx, s, inspectScript, couponID, readInspection, explainedEntries)
}

func readInspection(reply []any) (i Inspection, err error) {
	n, texts, err := mixed(reply, 6, 5)
	if err != nil {
		return Inspection{}, err
	}
	i = Inspection{Now: time.UnixMicro(n[0]).UTC(), QueueLife: time.Duration(n[1]) * time.Millisecond, DLQ: n[2],
		Reasons: n[3], Unexplained: n[4],
		ReviewLife: time.Duration(n[5]) * time.Millisecond, Paused: texts[2] != "OPEN",
		Known: texts[0] != "" && texts[1] != "" || texts[3] != ""} // a version is written only together with a window
	i.Opens, _ = instantOf(texts[0])
	i.Closes, _ = instantOf(texts[1])
	i.Version, _ = strconv.ParseInt(texts[3], 10, 64) // 0 if missing or unreadable: no row has version 0
	i.LineLimit, _ = strconv.Atoi(texts[4])
	return i, nil
}

// instantOf parses µs since 1970, as the state stores an instant.
func instantOf(text string) (time.Time, error) {
	at, err := arrivalOf(text)
	if err != nil {
		return time.Time{}, err
	}
	return at.Time(), nil
}

// Marked pages through the users with a mark, in no order. Cursor 0 begins, and marks the last page. A user may appear
// twice. The arrival is that of the coupon; it is 0 if the coupon was given by hand, and for MarkRejected.
func (s *Store) Marked(ctx context.Context, couponID coupon.CouponID, mark coupon.Mark,
	after uint64) (users []coupon.Application, next uint64, err error) {
	k := s.names.coupon(couponID)
	if mark == coupon.MarkRejected {
		members, next, err := s.rdb.SScan(ctx, k.rejected, after, "", queuePageMembers).Result()
		for _, member := range members {
			users = append(users, coupon.Application{Member: member})
		}
		return users, next, markedError(couponID, err)
	}
	users, next, err = s.scan(ctx, k.issued, after)
	return users, next, markedError(couponID, err)
}

func markedError(couponID coupon.CouponID, err error) error {
	if err != nil {
		err = fmt.Errorf("read marks of coupon %d: %w", couponID, rediserr.Classify(err))
	}
	return err
}

// scan pages through a ZSET of arrivals, in no order.
func (s *Store) scan(ctx context.Context, key string, after uint64) (all []coupon.Application, next uint64, err error) {
	texts, next, err := s.rdb.ZScan(ctx, key, after, "", queuePageMembers).Result()
	if err != nil {
		return nil, 0, err
	}
	for i := 0; i+1 < len(texts); i += 2 {
		arrival, err := arrivalOf(texts[i+1])
		if err != nil {
			return nil, 0, fmt.Errorf("score of %q: %w", texts[i], err)
		}
		all = append(all, coupon.Application{Member: texts[i], Arrival: arrival})
	}
	return all, next, nil
}

// scannedKeys is the COUNT argument of SCAN. One such call takes well below a millisecond.
const scannedKeys = 1000

// ScanCoupons calls visit with pages of the coupons that have any key in Redis, in no order. A coupon may appear
// several times. The names of all keys are scanned, on every master of a Cluster.
func (s *Store) ScanCoupons(ctx context.Context, visit func(coupons []coupon.CouponID) error) error {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return s.scanNode(ctx, s.rdb, visit)
	}
	var visiting sync.Mutex // masters are scanned in parallel, but calls of visit never overlap
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
			return fmt.Errorf("scan coupons in redis: %w", rediserr.Classify(err))
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
