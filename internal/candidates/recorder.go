package candidates

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// Seen are the counts of accepted applications that a process has seen. Scripts carry them into Redis: see lua/epoch.lua.
type Seen struct {
	LastArrival coupon.Arrival // highest of any epoch
	Epoch       string         // the last one that replied, "<run_id>:<since in µs>"; empty: none has
	Accepted    int64          // highest count seen in this epoch
	Twice       int64          // likewise
}

// Promise returns what is seen as MySQL keeps it.
func (s Seen) Promise() coupon.Promise {
	_, since, _ := strings.Cut(s.Epoch, ":")
	µs, _ := strconv.ParseInt(since, 10, 64) // a script wrote it
	return coupon.Promise{Accepted: s.Accepted, LastArrival: s.LastArrival, Twice: s.Twice, Since: coupon.Arrival(µs)}
}

// Answer is an answer to one applicant.
type Answer struct {
	User    coupon.UserID
	Arrival coupon.Arrival // 0: the reply of Redis was lost
	Counted bool           // the server counted this application, or may have: ACCEPTED or no reply, not DUPLICATE
}

// Reply is the part of a script's reply about a coupon's accepted applications.
type Reply struct {
	Seen              // Epoch is empty if applying is not possible now
	Now      int64    // the shard's clock, µs since 1970
	NoWindow bool     // Redis has no window of the coupon
	Answers  []Answer // ACCEPTED and DUPLICATE
}

// Recorder keeps what this process has seen and answered. Package recall implements it.
type Recorder interface {
	// Seen returns what the next script carries.
	Seen(couponID coupon.CouponID) Seen
	// Answered records the reply to a script that carried what was seen before.
	Answered(couponID coupon.CouponID, carried Seen, reply Reply)
	// Unanswered records users whose applications may have been accepted although the reply was lost.
	Unanswered(couponID coupon.CouponID, users []coupon.UserID)
}

// noRecorder remembers nothing.
type noRecorder struct{}

func (noRecorder) Seen(coupon.CouponID) Seen                   { return Seen{} }
func (noRecorder) Answered(coupon.CouponID, Seen, Reply)       {}
func (noRecorder) Unanswered(coupon.CouponID, []coupon.UserID) {}

// mayHaveRun reports whether a script may have run although its reply did not come. It has not run if the server replied with
// an error or was never reached.
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

// MaxAnswers is how many answers one call of Missing or Restore takes: as many as one call of ApplyAll gives.
const MaxAnswers = 250

// Missing returns those answers whose application Redis has nowhere, or at another arrival, and the epoch of the server that
// replied. It is a read.
func (s *Store) Missing(ctx context.Context, couponID coupon.CouponID, answers []Answer) (epoch string, missing []Answer, err error) {
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

// RestoreCode is the answer of Restore.
type RestoreCode string

// The answers of Restore. Only RestoreDone changes anything.
const (
	RestoreDone     RestoreCode = "DONE"
	RestoreNoWindow RestoreCode = "NO_WINDOW"
	RestoreFinal    RestoreCode = "FINAL" // the coupon is finalised
)

// Restored is what Restore did.
type Restored struct {
	Code RestoreCode
	Reply
	Back, Moved int
}

// Restore puts applications back, and lifts the server's counts to what was seen. Without answers it does only the latter. It
// is safe to repeat.
func (s *Store) Restore(ctx context.Context, couponID coupon.CouponID, carried Seen, answers []Answer) (Restored, error) {
	args := answerArgs([]any{carried.Epoch, carried.Accepted, carried.Twice, s.ttlSeconds}, answers)
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
