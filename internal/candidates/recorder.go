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

// Seen is what a process has seen of a coupon's promises. Scripts carry it into Redis, see lua/epoch.lua.
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

// Reply is what a script says about a coupon's promises.
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

// How many answers one call of Missing and of Restore takes.
const (
	MaxMissing = 500
	MaxRestore = 150 // each costs several commands
)

// Missing returns those answers whose application Redis has nowhere, or at another arrival, and the epoch of the server that
// says so. It is a read.
func (s *Store) Missing(ctx context.Context, couponID coupon.CouponID, answers []Answer) (epoch string, missing []Answer, err error) {
	k := s.names.coupon(couponID)
	reply, err := missingScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, answerArgs(nil, answers)...)
	if err != nil {
		return "", nil, fmt.Errorf("find missing applications of coupon %d: %w", couponID, err)
	}
	epoch, places, err := readMissing(reply, len(answers))
	if err != nil {
		return "", nil, fmt.Errorf("find missing applications of coupon %d: %w", couponID, err)
	}
	for _, place := range places {
		missing = append(missing, answers[place-1])
	}
	return epoch, missing, nil
}

func readMissing(reply []any, users int) (epoch string, places []int64, err error) {
	if len(reply) == 0 {
		return "", nil, errors.New("empty answer")
	}
	epoch, ok := reply[0].(string)
	if !ok {
		return "", nil, fmt.Errorf("epoch %v, want text", reply[0])
	}
	places, err = missingScript.integers(reply[1:], len(reply)-1)
	for _, place := range places {
		if place < 1 || place > int64(users) {
			return "", nil, fmt.Errorf("place %d of %d", place, users)
		}
	}
	return epoch, places, err
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
	k := s.names.coupon(couponID)
	args := answerArgs([]any{carried.Epoch, carried.Accepted, carried.Twice, s.ttlSeconds}, answers)
	reply, err := restoreScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, args...)
	if err != nil {
		return Restored{}, fmt.Errorf("put applications of coupon %d back: %w", couponID, err)
	}
	r, err := readRestored(reply)
	if err != nil {
		return Restored{}, fmt.Errorf("put applications of coupon %d back: %w", couponID, err)
	}
	return r, nil
}

func readRestored(reply []any) (Restored, error) {
	const texts, numbers = 2, 5
	if len(reply) != texts+numbers {
		return Restored{}, fmt.Errorf("%d values in the reply, want %d", len(reply), texts+numbers)
	}
	said, err := restoreScript.texts(reply[:texts], texts)
	if err != nil {
		return Restored{}, err
	}
	n, err := restoreScript.integers(reply[texts:], numbers)
	if err != nil {
		return Restored{}, err
	}
	r := Restored{Code: RestoreCode(said[0]), Back: int(n[3]), Moved: int(n[4]),
		Reply: Reply{Now: n[0], Seen: Seen{Epoch: said[1], Accepted: n[1], Twice: n[2]}}}
	switch r.Code {
	case RestoreDone, RestoreNoWindow, RestoreFinal:
		return r, nil
	default:
		return Restored{}, fmt.Errorf("unknown answer %q", said[0])
	}
}
