package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Code is the answer to one application.
type Code string

// The answers of Apply. The application is in the queue only if the answer is Accepted or Duplicate.
const (
	Accepted      Code = "ACCEPTED"
	Duplicate     Code = "DUPLICATE"
	NotOpen       Code = "NOT_OPEN"
	Closed        Code = "CLOSED"
	Paused        Code = "PAUSED"
	UnderReview   Code = "UNDER_REVIEW"
	AlreadyIssued Code = "ALREADY_ISSUED"
	Rejected      Code = "REJECTED"
	SoldOut       Code = "SOLD_OUT"
	// LineFull means that as many applications wait in the queue as the coupon's line limit allows. The receipt has the
	// lowest arrival among them.
	LineFull Code = "LINE_FULL"
	// NoWindow means that Redis has no window of this coupon. The next refresh of the catalog publishes it.
	NoWindow Code = "NO_WINDOW"
	// ClockBehind means that the clock of Redis is more than 5 s behind the last arrival. Applying works again later.
	ClockBehind Code = "CLOCK"
)

var codes = map[Code]bool{
	Accepted: true, Duplicate: true, NotOpen: true, Closed: true, Paused: true, UnderReview: true,
	AlreadyIssued: true, Rejected: true, SoldOut: true, LineFull: true, NoWindow: true, ClockBehind: true,
}

// Receipt is the answer of Redis to one application.
type Receipt struct {
	Code Code
	// When the application was first accepted, µs since 1970; 0: not stated. LineFull: see there.
	Arrival  coupon.Arrival
	Position int64     // current position in the queue, starting at 1; 0: not in the queue
	Now      time.Time // time on the clock of the coupon's Redis shard
	OpensAt  time.Time // start of the window; zero if Code is NoWindow
}

// Apply submits one user's application. The application may have been accepted even if Apply returns an error. It is
// safe to call Apply again: it then answers Duplicate with the first arrival.
func (s *Store) Apply(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (Receipt, error) {
	receipts, err := s.ApplyAll(ctx, couponID, []coupon.UserID{user})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// ApplyAll does for several users what Apply does for one. A single script handles them in the order of the list.
func (s *Store) ApplyAll(ctx context.Context, couponID coupon.CouponID, users []coupon.UserID) ([]Receipt, error) {
	args := append(make([]any, 0, 2+len(users)), s.Recorder.Seen(couponID), ttlSeconds)
	for _, user := range users {
		args = append(args, uint64(user)) // the client writes it as user.Member() would
	}
	reply, err := s.run(ctx, applyScript, couponID, args...)
	if err != nil {
		return nil, err
	}
	receipts, told, err := readReceipts(reply, users)
	if err != nil {
		return nil, applyScript.failed(couponID, err)
	}
	s.Recorder.Answered(couponID, told)
	return receipts, nil
}

// readReceipts also returns what a Recorder keeps of the reply.
func readReceipts(reply []any, users []coupon.UserID) (receipts []Receipt, told Reply, err error) {
	const common, together, each = 4, 2, 3
	if len(reply) != common+together && len(reply) != common+each*len(users) {
		return nil, Reply{}, fmt.Errorf("%d values in the reply about %d users, want %d or %d", len(reply), len(users),
			common+together, common+each*len(users))
	}
	n, err := values[int64](reply[:common-1], common-1)
	if err != nil {
		return nil, Reply{}, err
	}
	epoch, ok := reply[common-1].(string)
	if !ok {
		return nil, Reply{}, fmt.Errorf("epoch %v, want text", reply[common-1])
	}
	told = Reply{Epoch: epoch, Restores: n[2]}
	receipts, told.Answers = make([]Receipt, len(users)), make([]coupon.Answer, 0, len(users))
	var first Receipt // receipt of the first user, if all are accepted one after the other
	if len(reply) == common+together {
		if first, err = readReceipt(append([]any{string(Accepted)}, reply[common:]...)); err != nil {
			return nil, Reply{}, err
		}
	}
	for i := range receipts {
		r := Receipt{Code: Accepted, Arrival: first.Arrival + coupon.Arrival(i), Position: first.Position + int64(i)}
		if first.Code == "" {
			if r, err = readReceipt(reply[common+each*i:][:each]); err != nil {
				return nil, Reply{}, err
			}
		}
		r.Now = time.UnixMicro(n[0]).UTC()
		if r.Code != NoWindow {
			r.OpensAt = time.UnixMicro(n[1]).UTC()
		}
		if r.Code == Accepted || r.Code == Duplicate {
			told.Answers = append(told.Answers, coupon.Answer{User: users[i], Arrival: r.Arrival})
		}
		receipts[i] = r
	}
	return receipts, told, nil
}

func readReceipt(reply []any) (Receipt, error) {
	code, ok := reply[0].(string)
	if !ok || !codes[Code(code)] {
		return Receipt{}, fmt.Errorf("unknown answer %v", reply[0])
	}
	arrival, ok := reply[1].(int64)
	position, placed := reply[2].(int64)
	if !ok || !placed {
		return Receipt{}, fmt.Errorf("%s with arrival %v and position %v, want whole numbers", code, reply[1], reply[2])
	}
	return Receipt{Code: Code(code), Arrival: coupon.Arrival(arrival), Position: position}, nil
}
