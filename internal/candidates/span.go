package candidates

import (
	"context"
	"fmt"
)

// Span counts who stands in the queue and in the DLQ with an arrival from from and before to, in µs since 1970.
func (s *Store) Span(ctx context.Context, coupon uint64, from, to int64) (waiting, dlq int64, err error) {
	if from >= to {
		return 0, 0, nil
	}
	k := s.names.coupon(coupon)
	reply, err := spanScript.run(ctx, s.rdb, []string{k.queue, k.dlq}, from, to)
	if err != nil {
		return 0, 0, fmt.Errorf("count a span of coupon %d in redis: %w", coupon, err)
	}
	n, err := spanScript.integers(reply, 2)
	if err != nil {
		return 0, 0, fmt.Errorf("count a span of coupon %d in redis: %w", coupon, err)
	}
	return n[0], n[1], nil
}
