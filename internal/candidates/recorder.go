package candidates

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Seen holds the counts of accepted applications that a process has seen and passes to scripts (lua/epoch.lua).
type Seen struct {
	LastArrival coupon.Arrival // highest arrival seen in any epoch
	Epoch       string         // the last epoch seen, "<run_id>:<since in µs>"; empty: none yet
	Accepted    int64          // highest number of accepted applications seen in Epoch
	Twice       int64          // highest number of applications counted by two servers, seen in Epoch
}

// Promise converts the counts to the form that MySQL stores.
func (s Seen) Promise() coupon.Promise {
	_, since, _ := strings.Cut(s.Epoch, ":")
	µs, _ := strconv.ParseInt(since, 10, 64) // 0 if Epoch is empty
	return coupon.Promise{Accepted: s.Accepted, LastArrival: s.LastArrival, Twice: s.Twice, Since: coupon.Arrival(µs)}
}

// Answer is what this process answered to one applicant.
type Answer struct {
	User    coupon.UserID
	Arrival coupon.Arrival // 0: the reply of Redis was lost
	Counted bool           // the server may have counted it: true after ACCEPTED or a lost reply, false after DUPLICATE
}

// Reply is the part of a script's reply about a coupon's accepted applications.
type Reply struct {
	Seen              // Epoch is empty if applying is not possible now
	Now      int64    // time on the clock of the coupon's Redis shard, µs since 1970
	NoWindow bool     // Redis has no window of the coupon
	Answers  []Answer // the answers ACCEPTED and DUPLICATE
}

// Recorder keeps what this process has seen and answered. Package recall implements it.
type Recorder interface {
	// Seen returns the counts that the next script gets.
	Seen(couponID coupon.CouponID) Seen
	// Answered records the reply of a script. carried is what Seen returned before the script ran.
	Answered(couponID coupon.CouponID, carried Seen, reply Reply)
	// Unanswered records users whose applications may have been accepted although the reply was lost.
	Unanswered(couponID coupon.CouponID, users []coupon.UserID)
}

type noRecorder struct{}

func (noRecorder) Seen(coupon.CouponID) Seen                   { return Seen{} }
func (noRecorder) Answered(coupon.CouponID, Seen, Reply)       {}
func (noRecorder) Unanswered(coupon.CouponID, []coupon.UserID) {}

// mayHaveRun reports whether a script may have run although the call failed: the server was reached but did not reply.
func mayHaveRun(err error) bool {
	var replied redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &replied), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return false
	case errors.As(err, &dial):
		return dial.Op != "dial"
	default:
		return true
	}
}

// Bounds of one call, so that it holds Redis no longer than about 1 ms.
const (
	MaxAnswers  = 250 // users of one call of Missing; a call of ApplyAll yields at most as many
	MaxRestored = 150 // answers of Restore, each of which costs several commands
)

// Missing returns the epoch of the server that replied, and the answers that Restore must handle: Redis lacks their
// application, or has it at another arrival. Missing changes nothing.
func (s *Store) Missing(ctx context.Context, couponID coupon.CouponID,
	answers []Answer) (epoch string, missing []Answer, err error) {
	reply, err := s.run(ctx, missingScript, couponID, answerArgs(nil, answers)...)
	if err != nil {
		return "", nil, err
	}
	epoch, missing, err = readMissing(reply, answers)
	if err != nil {
		return "", nil, missingScript.failed(couponID, err)
	}
	return epoch, missing, nil
}

func readMissing(reply []any, answers []Answer) (epoch string, missing []Answer, err error) {
	places, texts, err := mixed(reply, max(0, len(reply)-1), 1)
	if err != nil {
		return "", nil, err
	}
	for _, place := range places {
		if place < 1 || place > int64(len(answers)) {
			return "", nil, fmt.Errorf("place %d of %d", place, len(answers))
		}
		missing = append(missing, answers[place-1])
	}
	return texts[0], missing, nil
}

func answerArgs(args []any, answers []Answer) []any {
	for _, a := range answers {
		args = append(args, a.User.Member(), a.Arrival, flag(a.Counted))
	}
	return args
}

type RestoreCode string

// The answers of Restore. Unless the answer is RestoreDone, nothing has changed.
const (
	RestoreDone     RestoreCode = "DONE"
	RestoreNoWindow RestoreCode = "NO_WINDOW"
	RestoreFinal    RestoreCode = "FINAL" // the coupon is finalised
)

// Restored is the result of Restore: how many applications were put back, and how many moved to an earlier arrival.
type Restored struct {
	Code RestoreCode
	Reply
	Back, Moved int
}

// Restore raises the server's counts to those in carried, and puts applications back. It is safe to repeat.
func (s *Store) Restore(ctx context.Context, couponID coupon.CouponID, carried Seen,
	answers []Answer) (Restored, error) {
	return s.restore(ctx, couponID, carried, false, answers)
}

func (s *Store) restore(ctx context.Context, couponID coupon.CouponID, carried Seen, journalled bool,
	answers []Answer) (Restored, error) {
	args := answerArgs([]any{carried.Epoch, carried.Accepted, carried.Twice, ttlSeconds, flag(journalled)}, answers)
	return ask(ctx, s, restoreScript, couponID, readRestored, args...)
}

func readRestored(reply []any) (Restored, error) {
	n, texts, err := mixed(reply, 5, 2)
	if err != nil {
		return Restored{}, err
	}
	r := Restored{Code: RestoreCode(texts[0]), Back: int(n[3]), Moved: int(n[4]),
		Reply: Reply{Now: n[0], Seen: Seen{Epoch: texts[1], Accepted: n[1], Twice: n[2]}}}
	switch r.Code {
	case RestoreDone, RestoreNoWindow, RestoreFinal:
		return r, nil
	default:
		return Restored{}, fmt.Errorf("unknown answer %q", texts[0])
	}
}
