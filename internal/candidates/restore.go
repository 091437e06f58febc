package candidates

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// Bounds of one call, so that it holds Redis no longer than about 1 ms.
const (
	MaxAnswers = 250 // users of one HandOver; a call of ApplyAll yields at most as many
	MaxEntered = 150 // users of one Enter, each of whom costs several commands
	MaxTaken   = 500 // users of one TakeReturned
)

// HandOver hands over to a restore those of the answers that do not stand in queue or DLQ at their arrival or an
// earlier one, and returns their indexes. If the server serves another epoch, nobody is handed over, and now is that
// epoch. With marks, a user who is marked with an arrival has got the answer. It is safe to repeat.
func (s *Store) HandOver(ctx context.Context, couponID coupon.CouponID, epoch string, marks bool,
	answers []coupon.Answer) (now string, handed []int, err error) {
	args := append(make([]any, 0, 3+2*len(answers)), epoch, flag(marks), ttlSeconds)
	for _, a := range answers {
		args = append(args, a.User.Member(), a.Arrival)
	}
	reply, err := s.run(ctx, handOverScript, couponID, args...)
	if err != nil {
		return "", nil, err
	}
	places, texts, err := mixed(reply, max(0, len(reply)-1), 1)
	for _, place := range places {
		if place < 1 || place > int64(len(answers)) {
			err = fmt.Errorf("place %d of %d", place, len(answers))
			break
		}
		handed = append(handed, int(place-1))
	}
	if err != nil {
		return "", nil, handOverScript.failed(couponID, err)
	}
	return texts[0], handed, nil
}

// Returned pages through the users whom pods have handed over, in no order. Cursor 0 begins, and marks the last page. A
// user may appear twice.
func (s *Store) Returned(ctx context.Context, couponID coupon.CouponID,
	after uint64) (all []coupon.Application, next uint64, err error) {
	all, next, err = s.scan(ctx, s.names.coupon(couponID).returned, after)
	if err != nil {
		err = fmt.Errorf("read who was handed over of coupon %d: %w", couponID, rediserr.Classify(err))
	}
	return all, next, err
}

// TakeReturned removes up to MaxTaken users from those handed over. Who was handed over at another arrival since stays.
func (s *Store) TakeReturned(ctx context.Context, couponID coupon.CouponID, handled []coupon.Application) error {
	args := make([]any, 0, 2*len(handled))
	for _, a := range handled {
		args = append(args, a.Member, a.Arrival)
	}
	_, err := s.number(ctx, takeReturnedScript, couponID, args...)
	return err
}

// Entry is an application that Redis has lost.
type Entry struct {
	coupon.Answer
	ByHand bool // MySQL has a coupon of the user that was given by hand: its mark stays
}

// Entered says what Enter has done.
type Entered struct {
	Epoch   string // of the server; another than that of the restore: nothing has changed
	Entered int64  // applications that stood nowhere
	Moved   int64  // applications that stood at a later arrival, and now stand at theirs
}

// Enter enters up to MaxEntered applications at their arrivals. It is safe to repeat.
func (s *Store) Enter(ctx context.Context, couponID coupon.CouponID, epoch string, entries []Entry) (Entered, error) {
	args := append(make([]any, 0, 2+3*len(entries)), epoch, ttlSeconds)
	for _, e := range entries {
		args = append(args, e.User.Member(), e.Arrival, flag(e.ByHand))
	}
	return ask(ctx, s, enterScript, couponID, func(reply []any) (Entered, error) {
		n, texts, err := mixed(reply, 2, 1)
		if err != nil {
			return Entered{}, err
		}
		return Entered{texts[0], n[0], n[1]}, nil
	}, args...)
}

// Ending is what a restore has found out when it ends.
type Ending struct {
	Epoch   string         // that it has compared with the journal
	Settled int64          // promises that MySQL accounts for
	InBoth  int64          // those of them that are in Redis, too
	Began   int64          // promises that were missing when it began, without those whom it has entered
	Highest coupon.Arrival // that journal and MySQL know
	Compare bool           // pods compare their memory with the server once more
}

// Ended is what is left after a restore.
type Ended struct {
	Done     bool  // false: another epoch has begun, and nothing has changed
	Missing  int64 // promises that are still missing
	Accepted int64
}

// EndRestore notes that the server of an epoch was compared with the journal. It is safe to repeat.
func (s *Store) EndRestore(ctx context.Context, couponID coupon.CouponID, e Ending) (Ended, error) {
	n, err := s.numbers(ctx, endRestoreScript, couponID, 3, e.Epoch, e.Settled, e.InBoth, e.Began, e.Highest,
		flag(e.Compare))
	if err != nil {
		return Ended{}, err
	}
	return Ended{n[0] == 1, n[1], n[2]}, nil
}

// AddExcess raises accepted to what is accounted for. settled is how many promises MySQL accounts for that are not in
// Redis. It reports false if another epoch has begun: then nothing changes. It is safe to repeat under the coupon's
// lock.
func (s *Store) AddExcess(ctx context.Context, couponID coupon.CouponID, epoch string,
	settled int64) (done bool, err error) {
	n, err := s.number(ctx, excessScript, couponID, epoch, settled)
	return n == 1, err
}

// MaxCompared is how many users one call of Absent compares.
const MaxCompared = 500

// Absent returns those of up to MaxCompared answers that do not stand in queue or DLQ at their arrival or an earlier
// one.
func (s *Store) Absent(ctx context.Context, couponID coupon.CouponID, answers []coupon.Answer) (
	absent []coupon.Answer, err error,
) {
	if len(answers) == 0 {
		return nil, nil
	}
	k, members := s.names.coupon(couponID), make([]string, len(answers))
	for i, a := range answers {
		members[i] = a.User.Member()
	}
	var queued, reviewed *redis.FloatSliceCmd
	_, err = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		// The DLQ comes last: a script moves entries from the queue to the DLQ.
		queued, reviewed = pipe.ZMScore(ctx, k.queue, members...), pipe.ZMScore(ctx, k.dlq, members...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for applications of coupon %d: %w", couponID, rediserr.Classify(err))
	}
	for i, a := range answers {
		stands := func(score float64) bool { return score > 0 && score <= float64(a.Arrival) }
		if !stands(queued.Val()[i]) && !stands(reviewed.Val()[i]) {
			absent = append(absent, a)
		}
	}
	return absent, nil
}
