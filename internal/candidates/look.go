package candidates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// Look looks at a coupon. If the server is new to it, an epoch begins. It is safe to repeat.
func (s *Store) Look(ctx context.Context, couponID coupon.CouponID, known coupon.Known) (coupon.Look, error) {
	of, args := s.lookBy(couponID, known)
	return ask(ctx, s, of, couponID, s.readLook, args...)
}

// Observe is a Look that changes nothing. WaitingAfter and DLQAfter count the arrivals above after.
func (s *Store) Observe(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (coupon.Look, error) {
	return s.Look(ctx, couponID, coupon.Known{After: after, Observe: true})
}

// lookBy returns the script of a Look and its arguments.
func (s *Store) lookBy(couponID coupon.CouponID, k coupon.Known) (of script, args []any) {
	if k.Observe {
		return observeScript, []any{k.After}
	}
	var opens, cutoff coupon.Arrival
	if !k.Opens.IsZero() {
		opens = coupon.ArrivalAt(k.Opens)
	}
	if !k.Cutoff.IsZero() {
		cutoff = coupon.ArrivalAt(k.Cutoff)
	}
	seen := max(k.Highest, s.Recorder.Seen(couponID))
	return lookScript, []any{seen, opens, k.After, cutoff, ttlSeconds, k.Settled}
}

func (s *Store) readLook(reply []any) (coupon.Look, error) {
	n, texts, err := mixed(reply, 22, 1)
	if err != nil {
		return coupon.Look{}, err
	}
	l := coupon.Look{Now: time.UnixMicro(n[0]).UTC(), ByHand: n[20], Rejected: n[10], Sold: n[12] == 1,
		DLQChanges: n[13], Highest: coupon.Arrival(n[14]), WaitingAfter: n[15], DLQAfter: n[16],
		Opens: coupon.Arrival(n[17]), Closes: coupon.Arrival(n[18]), Paused: n[19] != 1, Swept: n[21] == 1,
		Line: coupon.Line{Epoch: texts[0], Since: coupon.Arrival(n[1]), Restored: n[2] == 1, Restores: n[3], Left: n[4],
			Accepted: n[5], Last: coupon.Arrival(n[6]), Waiting: n[7], DLQ: n[8], Issued: n[9], Returned: n[11]}}
	if since := l.Since.Time(); l.Since > 0 {
		l.RestoresIn = max(0, min(since.Add(s.handOverTime).Sub(l.Now), s.handOverTime))
	}
	return l, nil
}

// Looks looks at many coupons by one pipeline for each shard. Coupons that could not be read are missing in the result,
// and named in the error.
func (s *Store) Looks(ctx context.Context, known map[coupon.CouponID]coupon.Known) (
	map[coupon.CouponID]coupon.Look, error,
) {
	calls := make(map[coupon.CouponID]onceCmd, len(known))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the error of each command is checked below
		for id, k := range known {
			of, args := s.lookBy(id, k)
			calls[id] = s.command(ctx, id, "evalsha", of.sha, args)
			if err := pipe.Process(ctx, calls[id]); err != nil {
				return err
			}
		}
		return nil
	})
	looks := make(map[coupon.CouponID]coupon.Look, len(known))
	var problems []error
	for id, call := range calls {
		reply, ok := call.Val().([]any)
		one, err := coupon.Look{}, call.Err()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"): // a server that has restarted; the first call loads the script
			one, err = s.Look(ctx, id, known[id])
		case err == nil && ok:
			one, err = s.readLook(reply)
		case err == nil:
			err = fmt.Errorf("reply is %T, want a list", call.Val())
		}
		if err == nil {
			looks[id] = one
		} else if len(problems) < maxProblems {
			problems = append(problems, lookScript.failed(id, rediserr.Classify(err)))
		}
	}
	return looks, errors.Join(problems...)
}

// maxProblems bounds the coupons that an error names.
const maxProblems = 5

// CountMarked returns how many users Redis marks as issued, and how many as rejected.
func (s *Store) CountMarked(ctx context.Context, couponID coupon.CouponID) (issued, rejected int64, err error) {
	c, err := s.Observe(ctx, couponID, 0)
	return c.Issued + c.ByHand, c.Rejected, err
}

// CountUndecided returns how many applications are in the queue, and how many in the DLQ.
func (s *Store) CountUndecided(ctx context.Context, couponID coupon.CouponID) (waiting, dlq int64, err error) {
	c, err := s.Observe(ctx, couponID, 0)
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
