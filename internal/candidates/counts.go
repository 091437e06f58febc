package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Counts are a coupon's counts in Redis at one instant.
type Counts struct {
	Now         time.Time      // the shard's clock
	Accepted    int64          // promises ever made, as far as this Redis remembers
	LastArrival coupon.Arrival // highest arrival ever given, µs since 1970
	Waiting     int64          // in the queue
	DLQ         int64          // under review

	WaitingAfter, DLQAfter int64 // those of Waiting and DLQ who arrived after the instant that was asked for

	Issued   int64 // users marked as holders
	Rejected int64 // users marked as rejected for good
	Sold     bool
	Twice    int64          // of Accepted: counted by two servers
	Since    coupon.Arrival // when this server began to count, µs since 1970; 0 when it has not
	Highest  coupon.Arrival // highest arrival standing in queue or DLQ; 0 when both are empty

	PutBackWait    time.Duration // how long processes still have to put applications back after a change of the server; 0: no longer
	MaxPutBackWait time.Duration // its value right after a change
}

// Counts reads all counts of one coupon in one script. behind is an arrival in µs, for the counts of who came after it.
func (s *Store) Counts(ctx context.Context, couponID coupon.CouponID, behind int64) (Counts, error) {
	k := s.names.coupon(couponID)
	reply, err := countsScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, behind, s.putBackTime.Microseconds())
	if err != nil {
		return Counts{}, fmt.Errorf("count coupon %d in redis: %w", couponID, err)
	}
	counts, err := readCounts(reply)
	if err != nil {
		return Counts{}, fmt.Errorf("count coupon %d in redis: %w", couponID, err)
	}
	counts.MaxPutBackWait = s.putBackTime
	return counts, nil
}

func readCounts(reply []any) (Counts, error) {
	n, err := countsScript.integers(reply, 14)
	if err != nil {
		return Counts{}, err
	}
	return Counts{
		Now: time.UnixMicro(n[0]).UTC(), Accepted: n[1], LastArrival: n[2], Waiting: n[3], DLQ: n[4],
		Issued: n[5], Rejected: n[6], Sold: n[7] == 1, Highest: n[8], WaitingAfter: n[9], DLQAfter: n[10], Twice: n[11], Since: n[12],
		PutBackWait: time.Duration(n[13]) * time.Microsecond,
	}, nil
}

// MarkedIssued pages through the users whom the door answers ALREADY_ISSUED, in no order; the page behind the last
// has cursor 0, which also begins. A user may come twice.
func (s *Store) MarkedIssued(ctx context.Context, couponID, after uint64) (users []string, next uint64, err error) {
	users, next, err = s.rdb.SScan(ctx, s.names.coupon(couponID).issued, after, "", queuePageMembers).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read marks of coupon %d: %w", couponID, classify(err))
	}
	return users, next, nil
}
