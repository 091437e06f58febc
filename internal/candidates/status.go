package candidates

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Standing is where an application stands.
type Standing string

// What Status answers, and NotSelected, which only the database knows.
const (
	Pending         Standing = "PENDING"
	InReview        Standing = "UNDER_REVIEW"
	Issued          Standing = "ISSUED"
	RejectedForGood Standing = "REJECTED"
	NotSelected     Standing = "NOT_SELECTED"
	None            Standing = "NONE" // no application is known
)

// Status is what Redis knows of one user's application.
type Status struct {
	Standing Standing
	Arrival  coupon.Arrival // µs since 1970; 0 where Redis does not keep it
	Position int64          // place among those waiting now, from 1; 0 when not waiting
	Sold     bool           // every seat is taken: the database may know more of who is None
}

// Status reads where one user's application stands.
func (s *Store) Status(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (Status, error) {
	k := s.names.coupon(couponID)
	reply, err := statusScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, strconv.FormatUint(user, 10))
	if err != nil {
		return Status{}, fmt.Errorf("status for coupon %d: %w", couponID, err)
	}
	status, err := readStatus(reply)
	if err != nil {
		return Status{}, fmt.Errorf("status for coupon %d: %w", couponID, err)
	}
	return status, nil
}

func readStatus(reply []any) (Status, error) {
	if len(reply) == 0 {
		return Status{}, errors.New("empty answer")
	}
	text, _ := reply[0].(string)
	switch standing := Standing(text); standing {
	case Pending, InReview, Issued, RejectedForGood, None:
		n, err := statusScript.integers(reply[1:], 3)
		if err != nil {
			return Status{}, err
		}
		return Status{Standing: standing, Arrival: n[0], Position: n[1], Sold: n[2] == 1}, nil
	default:
		return Status{}, fmt.Errorf("unknown answer %v", reply[0])
	}
}
