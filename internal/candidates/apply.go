package candidates

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Code is the answer to one application.
type Code string

// The answers of Apply. Only Accepted and Duplicate mean that the application stands in line.
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
	// NoWindow: the catalog has not told Redis this coupon's window yet; ask again after its next refresh.
	NoWindow Code = "NO_WINDOW"
	// ClockBehind: the Redis clock runs more than 5 s behind the line; ask again when it has caught up.
	ClockBehind Code = "CLOCK"
)

// codes are all the answers there are; any other is refused.
var codes = map[Code]bool{
	Accepted: true, Duplicate: true, NotOpen: true, Closed: true, Paused: true, UnderReview: true,
	AlreadyIssued: true, Rejected: true, SoldOut: true, NoWindow: true, ClockBehind: true,
}

// Receipt is what Redis says to one application.
type Receipt struct {
	Code     Code
	Arrival  int64     // µs since 1970 of the first acceptance; 0 where there is none
	Position int64     // place among those waiting now, from 1; 0 when not in the queue
	Now      time.Time // the shard's clock
	OpensAt  time.Time // zero for NoWindow
}

// Apply asks for one coupon for one user. After an error it is unknown whether the application was accepted: asking
// again is safe and answers Duplicate with the first arrival if it was.
func (s *Store) Apply(ctx context.Context, coupon, user uint64) (Receipt, error) {
	receipts, err := s.applyAll(ctx, coupon, []uint64{user})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// applyAll asks for one coupon for several users, in the order they came, in one script: all of them are answered, or
// after an error it is unknown of all.
func (s *Store) applyAll(ctx context.Context, coupon uint64, users []uint64) ([]Receipt, error) {
	k, floor := s.names.coupon(coupon), s.floorOf(coupon)
	seenArrival, seenAccepted := floor.read()
	args := append(make([]any, 0, 3+len(users)), seenArrival, seenAccepted, s.ttlSeconds)
	for _, user := range users {
		args = append(args, strconv.FormatUint(user, 10))
	}
	reply, err := applyScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, args...)
	if err != nil {
		return nil, fmt.Errorf("apply for coupon %d: %w", coupon, err)
	}
	receipts, last, accepted, err := readReceipts(reply, len(users))
	if err != nil {
		return nil, fmt.Errorf("apply for coupon %d: %w", coupon, err)
	}
	floor.raise(last, accepted)
	return receipts, nil
}

// readReceipts also returns the highest arrival that is new, and how many applications were ever accepted; 0 when none
// is new.
func readReceipts(reply []any, users int) (receipts []Receipt, last, accepted int64, err error) {
	const common, each = 3, 3
	if len(reply) != common+each*users {
		return nil, 0, 0, fmt.Errorf("%d values in the reply about %d users, want %d", len(reply), users, common+each*users)
	}
	n, err := applyScript.integers(reply[:common], common)
	if err != nil {
		return nil, 0, 0, err
	}
	now, opens, accepted := time.UnixMicro(n[0]).UTC(), time.UnixMicro(n[1]).UTC(), n[2]
	receipts = make([]Receipt, users)
	for i := range receipts {
		said := reply[common+each*i:][:each]
		code, ok := said[0].(string)
		if !ok || !codes[Code(code)] {
			return nil, 0, 0, fmt.Errorf("unknown answer %v", said[0])
		}
		arrival, ok := said[1].(int64)
		position, placed := said[2].(int64)
		if !ok || !placed {
			return nil, 0, 0, fmt.Errorf("%s with arrival %v and position %v, want whole numbers", code, said[1], said[2])
		}
		receipts[i] = Receipt{Code: Code(code), Arrival: arrival, Position: position, Now: now}
		if receipts[i].Code != NoWindow {
			receipts[i].OpensAt = opens
		}
		if receipts[i].Code == Accepted {
			last = max(last, arrival)
		}
	}
	return receipts, last, accepted, nil
}
