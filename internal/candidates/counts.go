package candidates

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Counts are a coupon's counts in Redis at one instant.
type Counts struct {
	Now         time.Time      // the shard's clock
	Accepted    int64          // applications ever accepted, as far as this Redis remembers
	LastArrival coupon.Arrival // highest ever given, µs since 1970
	Waiting     int64          // in the queue
	DLQ         int64          // DLQ entries

	WaitingAfter, DLQAfter int64 // entries with an arrival above the given one

	Issued   int64 // users in the issued set
	Rejected int64 // users in the rejected set
	Sold     bool
	Twice    int64          // of Accepted: counted by two servers
	Since    coupon.Arrival // when this server began to count, µs since 1970; 0: it has not
	Highest  coupon.Arrival // highest in queue and DLQ; 0: both are empty

	PutBackWait    time.Duration // how long processes still have to put applications back after a change of the server
	MaxPutBackWait time.Duration // its value right after a change
}

// Counts reads all counts of a coupon in one script. after is the arrival (µs) for WaitingAfter and DLQAfter.
func (s *Store) Counts(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (Counts, error) {
	counts, err := ask(ctx, s, countsScript, couponID, readCounts, after, s.putBackTime.Microseconds())
	if err == nil {
		counts.MaxPutBackWait = s.putBackTime
	}
	return counts, err
}

func readCounts(reply []any) (Counts, error) {
	n, err := values[int64](reply, 14)
	if err != nil {
		return Counts{}, err
	}
	return Counts{
		Now: time.UnixMicro(n[0]).UTC(), Accepted: n[1], LastArrival: coupon.Arrival(n[2]), Waiting: n[3], DLQ: n[4],
		Issued: n[5], Rejected: n[6], Sold: n[7] == 1, Highest: coupon.Arrival(n[8]), WaitingAfter: n[9], DLQAfter: n[10],
		Twice: n[11], Since: coupon.Arrival(n[12]), PutBackWait: time.Duration(n[13]) * time.Microsecond,
	}, nil
}

// CountMarked counts the users whose applications are answered ALREADY_ISSUED and REJECTED.
func (s *Store) CountMarked(ctx context.Context, couponID coupon.CouponID) (issued, rejected int64, err error) {
	c, err := s.Counts(ctx, couponID, 0)
	return c.Issued, c.Rejected, err
}

// maxIntervals bounds a call: two counts each, of a microsecond or so.
const maxIntervals = 200

// CountByInterval counts the applications in queue and DLQ per interval of arrivals. bounds are ascending, in µs since 1970; an
// interval includes its lower bound and excludes its upper one. Each interval is counted at one instant.
func (s *Store) CountByInterval(ctx context.Context, couponID coupon.CouponID, bounds []coupon.Arrival) (waiting, dlq []int64, err error) {
	for ; len(bounds) > 1; bounds = bounds[min(len(bounds)-1, maxIntervals):] {
		args := make([]any, 0, maxIntervals+1)
		for _, bound := range bounds[:min(len(bounds), maxIntervals+1)] {
			args = append(args, bound)
		}
		n, err := s.numbers(ctx, countByIntervalScript, couponID, 2*(len(args)-1), args...)
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i < len(n); i += 2 {
			waiting, dlq = append(waiting, n[i]), append(dlq, n[i+1])
		}
	}
	return waiting, dlq, nil
}
