package candidates

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
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
	Arrival  coupon.Arrival // µs since 1970 of the first acceptance; 0 where there is none
	Position int64          // place among those waiting now, from 1; 0 when not in the queue
	Now      time.Time      // the shard's clock
	OpensAt  time.Time      // zero for NoWindow
}

// Apply asks for one coupon for one user. After an error it is unknown whether the application was accepted: asking
// again is safe and answers Duplicate with the first arrival if it was.
func (s *Store) Apply(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (Receipt, error) {
	receipts, err := s.applyAll(ctx, couponID, []uint64{user})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// applyAll asks for one coupon for several users, in the order they came, in one script: all of them are answered, or
// after an error it is unknown of all. Either is remembered for a while, for the case that another server takes over.
func (s *Store) applyAll(ctx context.Context, couponID coupon.CouponID, users []coupon.UserID) ([]Receipt, error) {
	k, m := s.names.coupon(couponID), s.memoryOf(couponID)
	carried := m.seen()
	args := append(make([]any, 0, 5+len(users)), carried.arrival, carried.epoch, carried.accepted, carried.twice, s.ttlSeconds)
	for _, user := range users {
		args = append(args, strconv.FormatUint(user, 10))
	}
	reply, err := applyScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, args...)
	if err != nil {
		if mayHaveRun(err) {
			s.noteUnanswered(m, users)
		}
		return nil, fmt.Errorf("apply for coupon %d: %w", couponID, err)
	}
	receipts, h, err := readReceipts(reply, len(users))
	if err != nil {
		return nil, fmt.Errorf("apply for coupon %d: %w", couponID, err)
	}
	s.noteAnswers(couponID, m, carried, h, users, receipts)
	return receipts, nil
}

// readReceipts also returns what the script says of the coupon's promises; the arrival is the highest that is new, 0 when
// none is.
func readReceipts(reply []any, users int) (receipts []Receipt, h heard, err error) {
	const common, each = 5, 3
	if len(reply) != common+each*users {
		return nil, heard{}, fmt.Errorf("%d values in the reply about %d users, want %d", len(reply), users, common+each*users)
	}
	n, err := applyScript.integers(reply[:common-1], common-1)
	if err != nil {
		return nil, heard{}, err
	}
	epoch, ok := reply[common-1].(string)
	if !ok {
		return nil, heard{}, fmt.Errorf("epoch %v, want text", reply[common-1])
	}
	now, opens := time.UnixMicro(n[0]).UTC(), time.UnixMicro(n[1]).UTC()
	h = heard{seen{epoch: epoch, accepted: n[2], twice: n[3]}, n[0]}
	receipts = make([]Receipt, users)
	for i := range receipts {
		said := reply[common+each*i:][:each]
		code, ok := said[0].(string)
		if !ok || !codes[Code(code)] {
			return nil, heard{}, fmt.Errorf("unknown answer %v", said[0])
		}
		arrival, ok := said[1].(int64)
		position, placed := said[2].(int64)
		if !ok || !placed {
			return nil, heard{}, fmt.Errorf("%s with arrival %v and position %v, want whole numbers", code, said[1], said[2])
		}
		receipts[i] = Receipt{Code: Code(code), Arrival: arrival, Position: position, Now: now}
		if receipts[i].Code != NoWindow {
			receipts[i].OpensAt = opens
		}
		if receipts[i].Code == Accepted {
			h.arrival = max(h.arrival, arrival)
		}
	}
	return receipts, h, nil
}
