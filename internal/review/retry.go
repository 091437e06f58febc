package review

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
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
	Canaries int    // number of entries in the first run; 0: one run tries all entries
	Expect   string // Digest of the entries that a preview has shown; empty: the entries are tried whatever they are

	// Visits the selected entries.
	Each func(ctx context.Context, of Selection, visit func(history.DLQEntry)) error
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
	if err := approval.Expected(r.Expect, Digest(chosen)); err != nil {
		return err
	}
	members := r.Users // the settler refuses users without an entry
	if len(r.Causes) > 0 || r.Expect != "" {
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
		r.Users = Users(chosen)
		if chosen, err = r.Chosen(ctx); err != nil || len(chosen) == 0 { // another run has settled the others
			return err
		}
		members = Users(chosen)
	}
	_, err = r.round(ctx, Round{}, chosen, members)
	return err
}

// Entry is what a retry keeps of a DLQ entry: there may be hundreds of thousands.
type Entry struct {
	User     string // the member of the DLQ
	Arrival  coupon.Arrival
	Attempts int
}

func EntryOf(e history.DLQEntry) Entry { return Entry{e.User, coupon.ArrivalAt(e.Arrival), e.Attempts} }

// Chosen returns the selected entries by arrival.
func (r Retry) Chosen(ctx context.Context) (chosen []Entry, err error) {
	err = r.Each(ctx, r.Selection, func(e history.DLQEntry) { chosen = append(chosen, EntryOf(e)) })
	return chosen, err
}

// Digest returns the digest of a list of entries. Their order does not matter.
func Digest(entries []Entry) string { return settle.ListDigest(Applications(entries)) }

// Applications returns the applications that the entries are about.
func Applications(entries []Entry) []coupon.Application {
	applications := make([]coupon.Application, len(entries))
	for i, e := range entries {
		applications[i] = coupon.Application{Member: e.User, Arrival: e.Arrival}
	}
	return applications
}

// round makes one run. It returns which of the tried entries stay in the DLQ.
func (r Retry) round(ctx context.Context, round Round, tried []Entry, members []string) (stay Stay, err error) {
	if round.Report, err = r.Run(ctx, round.Canaries > 0, members); err != nil {
		return Stay{}, err
	}
	places := make(map[string]int, len(tried))
	for i, e := range tried {
		places[e.User] = i
	}
	err = r.Each(ctx, Selection{Coupons: r.Coupons, Users: Users(tried)}, func(e history.DLQEntry) {
		if i, mine := places[e.User]; mine && tried[i].Arrival == coupon.ArrivalAt(e.Arrival) {
			round.Stay.add(tried[i], e.Attempts, round)
		}
	})
	if err != nil {
		return Stay{}, err
	}
	r.Done(round)
	return round.Stay, nil
}

// add counts an entry that is still in the DLQ. attempts are its attempts now.
func (s *Stay) add(before Entry, attempts int, round Round) {
	switch {
	case round.Report.Coupons[0].Status == coupon.Frozen:
		s.Frozen++
	case attempts > before.Attempts:
		s.Again++
	case !before.Arrival.Time().Before(round.Report.Cutoff):
		s.Late++
		s.LastArrival = before.Arrival.Time()
	case round.Report.Coupons[0].SeatsLeft == 0:
		s.Seatless++
	case round.Canaries > 0:
		s.Kept++
	default:
		s.Again++
	}
}

// Selection selects DLQ entries. An empty field allows every value.
type Selection struct {
	Coupons []coupon.CouponID
	Users   []string // members of the DLQ
	Causes  []string
}

// HasCause reports whether Causes select an entry of the Coupons and Users.
func (s Selection) HasCause(e history.DLQEntry) bool {
	return len(s.Causes) == 0 || slices.Contains(s.Causes, e.Cause)
}

func Users(entries []Entry) []string {
	users := make([]string, len(entries))
	for i, e := range entries {
		users[i] = e.User
	}
	return users
}
