package candidates

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// MaxWatched is how many users one Watch may ask about.
const MaxWatched = 250

// Watch is the state of a coupon's queue, and of some users' applications, at one instant.
type Watch struct {
	coupon.Line
	Now           time.Time      // time on the clock of the coupon's Redis shard
	Sold          bool           // every seat is taken
	DLQChanges    int64          // see Look.DLQChanges
	Lowest        coupon.Arrival // lowest arrival in the queue; 0: the queue is empty
	Highest       coupon.Arrival // highest arrival in the queue; 0: the queue is empty
	UpTo          int64          // entries of the queue up to the arrival that was asked for
	Opens, Closes coupon.Arrival // the published window; 0: unknown
	Paused        bool
	Users         []Found // in the order of the members asked about
}

// Found is what Redis has of one user and one coupon. Package standing says what follows from it.
type Found struct {
	MarkedIssued, MarkedRejected bool // Apply answers ALREADY_ISSUED or REJECTED, respectively

	Entries  []coupon.Application // the one in the queue, then the one in the DLQ
	Position int64                // position in the queue, starting at 1; 0: not in the queue
	Reason   *Reason              // reason of the DLQ entry; nil: there is no entry, or its reason is unreadable
}

// Watch asks about the queue and up to MaxWatched users in one script, which only reads.
func (s *Store) Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
	users ...coupon.UserID) (Watch, error) {
	members := make([]string, len(users))
	for i, user := range users {
		members[i] = user.Member()
	}
	return s.watch(ctx, couponID, upTo, members)
}

// FindUnderReview returns the DLQ entries of these members, by arrival and member as UnderReview does. The number of
// its calls does not depend on the length of the DLQ.
func (s *Store) FindUnderReview(ctx context.Context, couponID coupon.CouponID,
	members []string) (found []coupon.Application, err error) {
	for chunk := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(members))), MaxWatched) {
		w, err := s.watch(ctx, couponID, 0, chunk)
		if err != nil {
			return nil, err
		}
		for _, one := range w.Users {
			found = append(found, one.Entries...)
		}
	}
	found = slices.DeleteFunc(found, func(a coupon.Application) bool { return a.Source == coupon.SourceQueue })
	slices.SortFunc(found, func(a, b coupon.Application) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Member, b.Member))
	})
	return found, nil
}

func (s *Store) watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
	members []string) (Watch, error) {
	args := append(make([]any, 0, 1+len(members)), upTo)
	for _, member := range members {
		args = append(args, member)
	}
	return ask(ctx, s, watchScript, couponID, func(reply []any) (Watch, error) { return readWatch(reply, members) },
		args...)
}

const (
	watchHead  = 18 // numbers about the coupon in the reply
	watchFound = 4  // numbers about each member; reasons follow
)

func readWatch(reply []any, members []string) (Watch, error) {
	numbers := watchHead + watchFound*len(members)
	n, err := values[int64](reply[:min(len(reply), numbers)], numbers)
	if err != nil {
		return Watch{}, err
	}
	last := max(numbers, len(reply)-1)
	epoch, err := values[string](reply[last:], 1)
	if err != nil {
		return Watch{}, err
	}
	w := Watch{Now: time.UnixMicro(n[0]).UTC(), Sold: n[1] == 1, DLQChanges: n[2], Lowest: coupon.Arrival(n[5]),
		Highest: coupon.Arrival(n[6]), UpTo: n[7], Opens: coupon.Arrival(n[13]), Closes: coupon.Arrival(n[14]),
		Paused: n[15] != 1, Users: make([]Found, len(members)),
		Line: coupon.Line{Epoch: epoch[0], Since: coupon.Arrival(n[3]), Waiting: n[4], Last: coupon.Arrival(n[8]),
			Accepted: n[9], Restored: n[10] == 1, Restores: n[11], Left: n[12], DLQ: n[16], Returned: n[17]}}
	reasons := reply[numbers:last]
	for i, member := range members {
		if reasons, err = w.Users[i].read(n[watchHead+watchFound*i:], member, reasons); err != nil {
			return Watch{}, err
		}
	}
	if len(reasons) > 0 {
		return Watch{}, fmt.Errorf("%d reasons too many in the reply", len(reasons))
	}
	return w, nil
}

// read reads the numbers about a member, and takes the reason of a DLQ entry from reasons. It returns the others.
func (f *Found) read(n []int64, member string, reasons []any) (others []any, err error) {
	if n[0] < 0 || n[0] > 3 {
		return nil, fmt.Errorf("unknown marks %d", n[0])
	}
	f.MarkedIssued, f.MarkedRejected, f.Position = n[0]&1 > 0, n[0]&2 > 0, n[2]
	if n[1] >= 0 {
		f.Entries = append(f.Entries, coupon.Application{Member: member, Arrival: coupon.Arrival(n[1]),
			Source: coupon.SourceQueue})
	}
	if n[3] < 0 {
		return reasons, nil
	}
	text, err := values[string](reasons[:min(1, len(reasons))], 1)
	if err != nil {
		return nil, err
	}
	source := coupon.SourceHeld // an entry without a readable reason counts as held, too
	if reason, ok := readReason(text[0]); ok {
		f.Reason = &reason
		if reason.Retryable {
			source = coupon.SourceRetryable
		}
	}
	f.Entries = append(f.Entries, coupon.Application{Member: member, Arrival: coupon.Arrival(n[3]), Source: source})
	return reasons[1:], nil
}
