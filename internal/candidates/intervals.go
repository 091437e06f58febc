package candidates

import (
	"context"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
)

// spansAtOnce bounds a call: two counts each, of a microsecond or so.
const spansAtOnce = 200

// CountByInterval counts who stands in the queue and in the DLQ between neighbours among bounds, in µs since 1970 and ascending: from
// the first on and before the second, and so on. Each span is counted at one instant.
func (s *Store) CountByInterval(ctx context.Context, couponID coupon.CouponID, bounds []int64) (waiting, dlq []int64, err error) {
	k := s.names.coupon(couponID)
	for ; len(bounds) > 1; bounds = bounds[min(len(bounds)-1, spansAtOnce):] {
		args := make([]any, 0, spansAtOnce+1)
		for _, bound := range bounds[:min(len(bounds), spansAtOnce+1)] {
			args = append(args, bound)
		}
		reply, err := countByIntervalScript.run(ctx, s.rdb, []string{k.queue, k.dlq}, args...)
		if err != nil {
			return nil, nil, fmt.Errorf("count spans of coupon %d in redis: %w", couponID, err)
		}
		n, err := countByIntervalScript.integers(reply, 2*(len(args)-1))
		if err != nil {
			return nil, nil, fmt.Errorf("count spans of coupon %d in redis: %w", couponID, err)
		}
		for i := 0; i < len(n); i += 2 {
			waiting, dlq = append(waiting, n[i]), append(dlq, n[i+1])
		}
	}
	return waiting, dlq, nil
}
