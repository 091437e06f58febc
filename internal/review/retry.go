package review

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/settle"
)

// Retry.Do returns these errors. A later retry may succeed.
var (
	ErrNoEntry        = errors.New("no entry has one of the causes")
	ErrCanariesFailed = errors.New("not all canaries were settled")
)

// Retry tries the selected DLQ entries of one coupon again: canaries first and, if all are settled, then the others.
type Retry struct {
	Selection
	Canaries int // number of entries in the first run; 0: one run tries all entries

	Each func(ctx context.Context, visit func(history.DLQEntry)) error                      // visits the coupon's DLQ
	Run  func(ctx context.Context, canaries bool, members []string) (*settle.Report, error) // does one run
	Done func(Round)                                                                        // is called after each run
}

// Round is one run of a retry.
type Round struct {
	Canaries int // number of canaries that this run tried
	Rest     int // number of entries to try after the canaries
	Report   *settle.Report
	Stay     Stay
}

// Stay counts the tried entries that stay in the DLQ, by reason.
type Stay struct {
	Again    int // failed again
	Late     int // arrived after the cutoff
	Seatless int // no seat is left
	Kept     int // canaries whose seats went to earlier applications
	Frozen   int // not tried, because the coupon is frozen

	LastArrival time.Time // arrival of the last entry in Late
}

func (s Stay) All() int { return s.Again + s.Late + s.Seatless + s.Kept + s.Frozen }

func (r Retry) Do(ctx context.Context) error {
	chosen, err := r.Chosen(ctx)
	if err != nil {
		return err
	}
	if len(chosen) == 0 && len(r.Causes) > 0 {
		return ErrNoEntry
	}
	members := r.Users // the settler refuses users without an entry
	if len(r.Causes) > 0 {
		members = Users(chosen)
	}
	canaries := min(r.Canaries, len(chosen))
	if canaries > 0 && canaries < len(chosen) && len(r.Users) <= len(chosen) {
		first := chosen[:canaries]
		stay, err := r.round(ctx, Round{Canaries: canaries, Rest: len(chosen) - canaries}, first, Users(first))
		if err != nil {
			return err
		}
		switch {
		case stay.Frozen > 0:
			return nil
		case stay.All() > 0:
			return ErrCanariesFailed
		}
		if chosen, err = r.Chosen(ctx); err != nil || len(chosen) == 0 { // another run has settled the others
			return err
		}
		members = Users(chosen)
	}
	_, err = r.round(ctx, Round{}, chosen, members)
	return err
}

// Chosen returns the selected entries by arrival. To save memory, it leaves out messages and attempts.
func (r Retry) Chosen(ctx context.Context) (chosen []history.DLQEntry, err error) {
	err = r.Each(ctx, func(e history.DLQEntry) {
		if r.Has(e) {
			e.Message, e.Tried = "", nil
			chosen = append(chosen, e)
		}
	})
	return chosen, err
}

// round makes one run. It returns which of the tried entries stay in the DLQ.
func (r Retry) round(ctx context.Context, round Round, tried []history.DLQEntry, members []string) (stay Stay, err error) {
	if round.Report, err = r.Run(ctx, round.Canaries > 0, members); err != nil {
		return Stay{}, err
	}
	still, err := r.still(ctx, tried)
	if err != nil {
		return Stay{}, err
	}
	for _, e := range tried {
		if now, stays := still[e.User]; stays {
			round.Stay.add(e, now, round)
		}
	}
	r.Done(round)
	return round.Stay, nil
}

func (s *Stay) add(before history.DLQEntry, now candidates.Reason, round Round) {
	switch {
	case round.Report.Coupons[0].Status == coupon.Frozen:
		s.Frozen++
	case now.Attempts > before.Attempts:
		s.Again++
	case !before.Arrival.Before(round.Report.Cutoff):
		s.Late++
		s.LastArrival = before.Arrival
	case round.Report.Coupons[0].SeatsLeft == 0:
		s.Seatless++
	case round.Canaries > 0:
		s.Kept++
	default:
		s.Again++
	}
}

// still returns those of the tried entries that are still in the DLQ, as reasons by user.
func (r Retry) still(ctx context.Context, tried []history.DLQEntry) (map[string]candidates.Reason, error) {
	arrivals := make(map[string]time.Time, len(tried))
	for _, e := range tried {
		arrivals[e.User] = e.Arrival
	}
	still := map[string]candidates.Reason{}
	err := r.Each(ctx, func(e history.DLQEntry) {
		if at, mine := arrivals[e.User]; mine && at.Equal(e.Arrival) {
			still[e.User] = e.Reason
		}
	})
	return still, err
}

// Selection selects DLQ entries. An empty field allows every value.
type Selection struct {
	Coupons []coupon.CouponID
	Users   []string // members of the DLQ
	Causes  []string
}

// Has reports whether Users and Causes select an entry. The caller has looked at Coupons.
func (s Selection) Has(e history.DLQEntry) bool {
	return (len(s.Users) == 0 || slices.Contains(s.Users, e.User)) && (len(s.Causes) == 0 || slices.Contains(s.Causes, e.Cause))
}

func Users(entries []history.DLQEntry) []string {
	users := make([]string, len(entries))
	for i, e := range entries {
		users[i] = e.User
	}
	return users
}
