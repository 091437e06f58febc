package candidates

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Counts holds everything that Redis counts for one coupon, all at the same instant.
type Counts struct {
	Now         time.Time      // time on the clock of the coupon's Redis shard
	Accepted    int64          // applications ever accepted; too low if Redis has lost data
	LastArrival coupon.Arrival // highest arrival of any application so far, µs since 1970
	Waiting     int64          // applications in the queue
	DLQ         int64

	WaitingAfter, DLQAfter int64 // like Waiting and DLQ, but only arrivals above the one given to Store.Counts

	Issued   int64 // users in the issued set
	Rejected int64 // users in the rejected set
	Sold     bool
	Twice    int64          // applications that Accepted includes twice: two Redis servers counted them
	Since    coupon.Arrival // when the latest Redis server began to count, µs since 1970; 0: none has
	Highest  coupon.Arrival // highest arrival in the queue and the DLQ; 0: both are empty

	DLQChanges int64 // raised by each script that changes the DLQ; it starts again if the state is lost

	Base     int64          // the part of Accepted that was counted before Since, and may be lost
	Restored coupon.Arrival // Since of the last server that was compared with the journal; 0: none was
	Missing  int64          // promises that were missing when that comparison ended

	PutBackWait    time.Duration // time left for processes to put applications back after the Redis server changed
	MaxPutBackWait time.Duration // value of PutBackWait right after such a change
}

// Counts reads all counts of a coupon in one script. WaitingAfter and DLQAfter count the arrivals above after (µs).
func (s *Store) Counts(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (Counts, error) {
	counts, err := ask(ctx, s, countsScript, couponID, readCounts, after, s.putBackTime.Microseconds())
	if err == nil {
		counts.MaxPutBackWait = s.putBackTime
	}
	return counts, err
}

func readCounts(reply []any) (Counts, error) {
	n, err := values[int64](reply, 18)
	if err != nil {
		return Counts{}, err
	}
	return Counts{
		Now: time.UnixMicro(n[0]).UTC(), Accepted: n[1], LastArrival: coupon.Arrival(n[2]), Waiting: n[3], DLQ: n[4],
		Issued: n[5], Rejected: n[6], Sold: n[7] == 1, Highest: coupon.Arrival(n[8]), WaitingAfter: n[9],
		DLQAfter: n[10],
		Twice:    n[11], Since: coupon.Arrival(n[12]), PutBackWait: time.Duration(n[13]) * time.Microsecond,
		DLQChanges: n[14],
		Base:       n[15], Restored: coupon.Arrival(n[16]), Missing: n[17],
	}, nil
}

// CountMarked returns how many users Redis marks as issued, and how many as rejected.
func (s *Store) CountMarked(ctx context.Context, couponID coupon.CouponID) (issued, rejected int64, err error) {
	c, err := s.Counts(ctx, couponID, 0)
	return c.Issued, c.Rejected, err
}

// CountUndecided returns how many applications are in the queue, and how many in the DLQ.
func (s *Store) CountUndecided(ctx context.Context, couponID coupon.CouponID) (waiting, dlq int64, err error) {
	c, err := s.Counts(ctx, couponID, 0)
	return c.Waiting, c.DLQ, err
}

// maxIntervals is how many intervals one script counts. Each interval takes Redis about two microseconds.
const maxIntervals = 200

// CountByInterval counts the applications in queue and DLQ per interval of arrivals. bounds are ascending, in µs since
// 1970. An interval includes its lower bound and excludes its upper one.
func (s *Store) CountByInterval(ctx context.Context, couponID coupon.CouponID,
	bounds []coupon.Arrival) (waiting, dlq []int64, err error) {
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
