package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// UserLookup is everything that Redis stores about one user and one coupon.
type UserLookup struct {
	Now      time.Time // time on the clock of the coupon's Redis shard
	Window   WindowState
	Entries  []coupon.Application // entries in queue and DLQ; two only after a loss in Redis or a change by hand
	Position int64                // position in the queue, starting at 1; 0: not in the queue
	Waiting  int64                // length of the queue
	Reason   *Reason              // reason of the DLQ entry; nil: there is no entry, or its reason is unreadable

	MarkedIssued, MarkedRejected bool // Apply answers ALREADY_ISSUED or REJECTED, respectively
}

type WindowState struct {
	Known         bool // whether Redis has a window; false before the first catalog refresh, and after a sweep
	Opens, Closes time.Time
	Paused, Sold  bool
	Accepted      int64          // applications ever accepted; too low if Redis has lost data
	LastArrival   coupon.Arrival // highest arrival of any application so far, µs since 1970
}

func (s *Store) LookupUser(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (UserLookup, error) {
	member := user.Member()
	return ask(ctx, s, lookupUserScript, couponID,
		func(reply []any) (UserLookup, error) { return readUserLookup(reply, member) }, member)
}

func readUserLookup(reply []any, member string) (found UserLookup, err error) {
	n, texts, err := mixed(reply, 7, 7)
	if err != nil {
		return UserLookup{}, err
	}
	found = UserLookup{Now: time.UnixMicro(n[0]).UTC(), MarkedIssued: n[1] == 1, MarkedRejected: n[2] == 1, Waiting: n[3], Position: n[4],
		Window: WindowState{Paused: texts[2] != "OPEN", Sold: texts[3] == "1", Accepted: n[5], LastArrival: coupon.Arrival(n[6])}}
	if texts[0] != "" && texts[1] != "" {
		found.Window.Known = true
		if found.Window.Opens, err = instantOf(texts[0]); err == nil {
			found.Window.Closes, err = instantOf(texts[1])
		}
		if err != nil {
			return UserLookup{}, fmt.Errorf("window: %w", err)
		}
	}
	reviewed := coupon.SourceHeld // an entry without a readable reason counts as held, too
	if reason, ok := readReason(texts[6]); ok {
		found.Reason = &reason
		if reason.Retryable {
			reviewed = coupon.SourceRetryable
		}
	}
	for _, at := range []struct {
		source coupon.Source
		score  string
	}{{coupon.SourceQueue, texts[4]}, {reviewed, texts[5]}} {
		if at.score == "" {
			continue
		}
		arrival, err := arrivalOf(at.score)
		if err != nil {
			return UserLookup{}, fmt.Errorf("entry %q has score %q", member, at.score)
		}
		found.Entries = append(found.Entries, coupon.Application{Member: member, Arrival: arrival, Source: at.source})
	}
	return found, nil
}

// instantOf parses µs since 1970, as the state stores an instant.
func instantOf(text string) (time.Time, error) {
	at, err := arrivalOf(text)
	if err != nil {
		return time.Time{}, err
	}
	return at.Time(), nil
}
