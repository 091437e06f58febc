package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// MaxWatched is how many users one Watch may ask about.
const MaxWatched = 250

// Watch is the state of a coupon's queue, and of some users' applications, at one instant.
type Watch struct {
	Now        time.Time      // time on the clock of the coupon's Redis shard
	Sold       bool           // every seat is taken
	DLQChanges int64          // as in Counts
	Lowest     coupon.Arrival // lowest arrival in the queue; 0: the queue is empty
	Highest    coupon.Arrival // highest arrival in the queue; 0: the queue is empty
	UpTo       int64          // entries of the queue up to the arrival that was asked for
	Users      []Status       // in the order of the users
	Line                      // without Journalled
}

// Status is the state of one user's application.
type Status struct {
	Standing coupon.Standing // never StandingNotSelected, which only MySQL knows
	Arrival  coupon.Arrival  // 0: Redis does not store it
	Position int64           // current position in the queue, starting at 1; 0: not in the queue
	Sold     bool            // every seat is taken; MySQL may then have an application that Redis lacks
	Now      time.Time       // time on the clock of the coupon's Redis shard
	Line     Line            // what Redis had of the coupon at that time; set by Store.Status alone
}

// Status asks about one user.
func (s *Store) Status(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (Status, error) {
	w, err := s.Watch(ctx, couponID, 0, user)
	if err != nil {
		return Status{}, err
	}
	w.Users[0].Line = w.Line
	return w.Users[0], nil
}

// Watch asks about the queue and up to MaxWatched users in one script, which only reads.
func (s *Store) Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival, users ...coupon.UserID) (Watch, error) {
	args := make([]any, 0, 1+len(users))
	args = append(args, upTo)
	for _, user := range users {
		args = append(args, user.Member())
	}
	return ask(ctx, s, watchScript, couponID, func(reply []any) (Watch, error) { return readWatch(reply, len(users)) }, args...)
}

const watchHead = 16 // numbers about the coupon in the reply

func readWatch(reply []any, users int) (Watch, error) {
	if len(reply) != watchHead+3*users {
		return Watch{}, fmt.Errorf("%d values in the reply, want %d", len(reply), watchHead+3*users)
	}
	n, err := values[int64](reply[:watchHead], watchHead)
	if err != nil {
		return Watch{}, err
	}
	w := Watch{Now: time.UnixMicro(n[0]).UTC(), Sold: n[1] == 1, DLQChanges: n[2],
		Lowest: coupon.Arrival(n[5]), Highest: coupon.Arrival(n[6]), UpTo: n[7], Users: make([]Status, users),
		Line: Line{Since: coupon.Arrival(n[3]), Waiting: n[4], Last: coupon.Arrival(n[8]), Window: n[9] == 1, Accepted: n[10],
			Twice: n[11], Base: n[12], Restored: coupon.Arrival(n[13]), Missing: n[14], DLQ: n[15]}}
	for i := range w.Users {
		if w.Users[i], err = readStatus(reply[watchHead+3*i:][:3]); err != nil {
			return Watch{}, err
		}
		w.Users[i].Sold, w.Users[i].Now = w.Sold, w.Now
	}
	return w, nil
}

func readStatus(reply []any) (Status, error) {
	text, _ := reply[0].(string)
	switch standing := coupon.Standing(text); standing {
	case coupon.StandingPending, coupon.StandingUnderReview, coupon.StandingIssued, coupon.StandingRejected, coupon.StandingNone:
		n, err := values[int64](reply[1:], 2)
		if err != nil {
			return Status{}, err
		}
		return Status{Standing: standing, Arrival: coupon.Arrival(n[0]), Position: n[1]}, nil
	default:
		return Status{}, fmt.Errorf("unknown answer %v", reply[0])
	}
}
