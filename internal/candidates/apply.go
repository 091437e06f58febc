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
	k, floor := s.names.coupon(coupon), s.floorOf(coupon)
	seenArrival, seenAccepted := floor.read()
	reply, err := applyScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq},
		strconv.FormatUint(user, 10), seenArrival, seenAccepted, s.ttlSeconds)
	if err != nil {
		return Receipt{}, fmt.Errorf("apply for coupon %d: %w", coupon, err)
	}
	if len(reply) == 0 {
		return Receipt{}, fmt.Errorf("apply for coupon %d: empty answer", coupon)
	}
	text, ok := reply[0].(string)
	if !ok || !codes[Code(text)] {
		return Receipt{}, fmt.Errorf("apply for coupon %d: unknown answer %v", coupon, reply[0])
	}
	n, err := applyScript.integers(reply[1:], 5)
	if err != nil {
		return Receipt{}, fmt.Errorf("apply for coupon %d: %w", coupon, err)
	}
	receipt := Receipt{Code: Code(text), Arrival: n[0], Position: n[1], Now: time.UnixMicro(n[3]).UTC()}
	if receipt.Code != NoWindow {
		receipt.OpensAt = time.UnixMicro(n[4]).UTC()
	}
	if receipt.Code == Accepted {
		floor.raise(n[0], n[2])
	}
	return receipt, nil
}
