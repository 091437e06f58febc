package candidates

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// Line is what Redis has of one coupon's promises. Promises are read before the entries: while applications arrive,
// none seems to be missing.
type Line struct {
	// Redis has a window; false: it has lost the coupon's state, or never had it. See also watch.lua.
	Window     bool
	Last       coupon.Arrival // highest arrival that the coupon has ever given
	Journalled coupon.Arrival // the journal has every application at this arrival and before it
	Since      coupon.Arrival // as in Counts
	Restored   coupon.Arrival // as in Counts
	Accepted   int64
	Twice      int64
	Base       int64
	Missing    int64 // as in Counts
	Waiting    int64
	DLQ        int64
	Issued     int64 // users in the issued set
}

// Lines reads the lines of many coupons by one pipeline for each shard. Coupons that could not be read are missing in
// the result, and named in the error.
func (s *Store) Lines(ctx context.Context, coupons []coupon.CouponID) (map[coupon.CouponID]Line, error) {
	return s.lines(ctx, coupons, func(pipe redis.Pipeliner, k keys) *redis.IntCmd { return pipe.SCard(ctx, k.issued) })
}

// LinesWithoutMarks is Lines without Issued: pods have no right to count marks.
func (s *Store) LinesWithoutMarks(ctx context.Context, coupons []coupon.CouponID) (map[coupon.CouponID]Line, error) {
	return s.lines(ctx, coupons, func(redis.Pipeliner, keys) *redis.IntCmd { return new(redis.IntCmd) })
}

func (s *Store) lines(ctx context.Context, coupons []coupon.CouponID,
	marks func(redis.Pipeliner, keys) *redis.IntCmd) (map[coupon.CouponID]Line, error) {
	states := make([]*redis.SliceCmd, len(coupons))
	sizes := make([][3]*redis.IntCmd, len(coupons)) // of queue, DLQ and issued set
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range coupons {
			k := s.names.coupon(id)
			states[i] = pipe.HMGet(ctx, k.state, "opens", "last", "journalled", "since", "restored", "accepted",
				"twice", "base", "missing")
			sizes[i] = [3]*redis.IntCmd{pipe.ZCard(ctx, k.queue), pipe.ZCard(ctx, k.dlq), marks(pipe, k)}
		}
		return nil
	})
	if err != nil {
		err = rediserr.Classify(err)
	}
	lines := make(map[coupon.CouponID]Line, len(coupons))
	for i, id := range coupons {
		if states[i].Err() != nil || slices.ContainsFunc(sizes[i][:],
			func(size *redis.IntCmd) bool { return size.Err() != nil }) {
			continue
		}
		line := lineOf(states[i].Val())
		line.Waiting, line.DLQ, line.Issued = sizes[i][0].Val(), sizes[i][1].Val(), sizes[i][2].Val()
		lines[id] = line
	}
	return lines, err
}

func lineOf(fields []any) Line {
	number := func(i int) int64 {
		text, _ := fields[i].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0 // absent
		}
		return n
	}
	arrival := func(i int) coupon.Arrival { return coupon.Arrival(number(i)) }
	return Line{Window: fields[0] != nil, Last: arrival(1), Journalled: arrival(2), Since: arrival(3),
		Restored: arrival(4),
		Accepted: number(5), Twice: number(6), Base: number(7), Missing: number(8)}
}

// Behind is a cursor before every entry that arrived after an arrival.
func Behind(arrival coupon.Arrival) coupon.Cursor {
	return coupon.Cursor{Score: strconv.FormatInt(int64(arrival)+1, 10)}
}

// MoveJournalled notes in Redis that the journal came from line.Journalled to to. It does nothing if an application was
// entered in the past since line was read, or if Redis has lost what it had then.
func (s *Store) MoveJournalled(ctx context.Context, couponID coupon.CouponID, line Line,
	to coupon.Arrival) (moved bool, err error) {
	n, err := s.number(ctx, journalledScript, couponID, line.Journalled, line.Since, to)
	return n == 1, err
}

// ResumeJournal lets the journal go on from upTo, up to which it has everybody, if Redis has lost how far it came and
// nobody stands there any more. Else the journal reads the whole line again.
func (s *Store) ResumeJournal(ctx context.Context, couponID coupon.CouponID,
	upTo coupon.Arrival) (resumed bool, err error) {
	n, err := s.number(ctx, resumeScript, couponID, upTo)
	return n == 1, err
}

// KeepRestored notes in Redis that the server of an epoch was compared with the journal, and how many promises are
// still missing. It reports false if another epoch has begun.
func (s *Store) KeepRestored(ctx context.Context, couponID coupon.CouponID, epoch string,
	missing int64) (kept bool, err error) {
	n, err := s.number(ctx, restoredScript, couponID, epoch, missing)
	return n == 1, err
}

// PutBack enters applications at their arrivals, as Restore does, and tells whose epoch did. It is safe to repeat.
func (s *Store) PutBack(ctx context.Context, couponID coupon.CouponID, lost []Answer) (Restored, error) {
	return s.Restore(ctx, couponID, s.Recorder.Seen(couponID), lost)
}

// PutBackJournalled is PutBack for applications that the journal has at these arrivals, so that it need not read them
// again.
func (s *Store) PutBackJournalled(ctx context.Context, couponID coupon.CouponID, lost []Answer) (Restored, error) {
	return s.restore(ctx, couponID, s.Recorder.Seen(couponID), true, lost)
}

// Readmit enters users again who are marked as issued, but have no coupon in MySQL. It returns how many were not in the
// queue or the DLQ already. Like Restore, a call takes at most MaxRestored answers.
func (s *Store) Readmit(ctx context.Context, couponID coupon.CouponID, winners []Answer) (entered int64, err error) {
	args := []any{ttlSeconds}
	for _, w := range winners {
		args = append(args, w.User.Member(), w.Arrival)
	}
	return s.number(ctx, readmitScript, couponID, args...)
}
