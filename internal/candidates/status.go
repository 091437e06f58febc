package candidates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

type Status struct {
	Standing coupon.Standing // never StandingNotSelected, which only MySQL knows
	Arrival  coupon.Arrival  // 0: Redis does not store it
	Position int64           // current position in the queue, starting at 1; 0: not in the queue
	Sold     bool            // every seat is taken; MySQL may then have an application that Redis lacks
	Now      time.Time       // time on the clock of the coupon's Redis shard
}

func (s *Store) Status(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (Status, error) {
	return ask(ctx, s, statusScript, couponID, readStatus, user.Member())
}

func readStatus(reply []any) (Status, error) {
	if len(reply) == 0 {
		return Status{}, errors.New("empty answer")
	}
	text, _ := reply[0].(string)
	switch standing := coupon.Standing(text); standing {
	case coupon.StandingPending, coupon.StandingUnderReview, coupon.StandingIssued, coupon.StandingRejected, coupon.StandingNone:
		n, err := values[int64](reply[1:], 4)
		if err != nil {
			return Status{}, err
		}
		return Status{Standing: standing, Arrival: coupon.Arrival(n[0]), Position: n[1], Sold: n[2] == 1,
			Now: time.UnixMicro(n[3]).UTC()}, nil
	default:
		return Status{}, fmt.Errorf("unknown answer %v", reply[0])
	}
}
