package settle

import (
	"context"
	"iter"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Bounds of a page, in applications.
const (
	// pageApplications are classified by one statement and inserted by one: enough for few round trips and for sorting by user
	// id to pay, few enough to keep the JSON below a megabyte.
	pageApplications = 20_000
	// firstApplications make a short first page, so that inserting begins soon; each further page is twice as long.
	firstApplications = 2_500
	// minApplications are read for even the fewest seats, because some of them may be refused.
	minApplications = 1_000
)

// selection is the applications of a page that get seats, if their rows are stored.
type selection struct {
	chosen []coupon.Application
	rows   *seatRows              // of chosen
	kept   int                    // seats kept for applications that the run leaves out
	ended  []decision.Application // NOT_SELECTED applications that cannot get a seat any more
	second []decision.Application // NOT_SELECTED applications of users chosen before in the page
	users  map[coupon.UserID]bool // chosen from the page so far; nil: no user can be in the page twice
	from   []decision.Application // the page, from the first application that was considered
	rest   []decision.Application // not considered
}

// newPageUsers returns an empty set if a user can be in the page twice, else nil. The queue holds a user once, but the DLQ and
// the records may hold the same user, for example after Redis lost data.
func newPageUsers(page []decision.Application) map[coupon.UserID]bool {
	for _, c := range page {
		if c.Source != coupon.SourceQueue {
			return make(map[coupon.UserID]bool, len(page))
		}
	}
	return nil
}

// seats is the number of seats given or kept if every row is stored.
func (s selection) seats() int { return len(s.chosen) + s.kept }

// secondPlaces are the second applications of users who have one in the page already, where they were NOT_SELECTED. If the
// first got a seat, the second has ended; if its row was refused, so is the second one's. The close-out decides about the second
// places that are in Redis.
func (s selection) secondPlaces(stored []coupon.Application) (ended []decision.Application, refused []coupon.Application) {
	if len(s.second) == 0 {
		return nil, nil
	}
	holders := make(map[coupon.UserID]bool, len(stored))
	for _, a := range stored {
		holders[a.User()] = true
	}
	for _, c := range s.second {
		if !holders[c.User()] {
			refused = append(refused, c.Application)
			continue
		}
		c.Verdict = decision.HoldsAlready
		ended = append(ended, c)
	}
	return ended, refused
}

// choose selects the first eligible applications for the free seats, and keeps a seat for each one that the run leaves out.
func (r run) choose(page []decision.Application, free int, users map[coupon.UserID]bool) selection {
	s := selection{from: page, users: users, chosen: make([]coupon.Application, 0, min(len(page), free))}
	for i, c := range page {
		if s.seats() == free || !packable(s.chosen, c.Application) {
			s.rest = page[i:]
			break
		}
		switch returned := c.Source == coupon.SourceNotSelected; {
		case c.Verdict == decision.Eligible && users[c.User()]:
			if returned {
				s.second = append(s.second, c)
			}
		case c.Verdict == decision.Eligible && r.leavesOut(c.Application):
			s.kept++
		case c.Verdict == decision.Eligible && c.Source != coupon.SourceHeld:
			if users != nil {
				users[c.User()] = true
			}
			s.chosen = append(s.chosen, c.Application)
		case returned:
			s.ended = append(s.ended, c)
		}
	}
	s.rows = packSeats(s.chosen)
	return s
}

// leavesOut reports whether this run keeps a seat for a DLQ entry instead of trying it. A nightly run tries a refused row once
// for its cutoff; a run with canaries tries no other entry.
func (r run) leavesOut(a coupon.Application) bool {
	switch {
	case a.Source == coupon.SourceQueue || a.Source == coupon.SourceNotSelected || a.Source == coupon.SourceHeld:
		return false
	case r.Canaries != nil:
		_, isCanary := slices.BinarySearch(r.Canaries, a.Member)
		return !isCanary
	default:
		return a.Source == coupon.SourceTriedTonight && r.Trigger == coupon.Cron
	}
}

// stays reports whether a DLQ entry without a seat stays in the DLQ: an entry that this run leaves out and, in a retry, every
// entry, because a retry ends no application.
func (r run) stays(a coupon.Application) bool {
	return a.Source != coupon.SourceQueue && (r.Trigger == coupon.DLQRetry || r.leavesOut(a))
}

// pageReader reads the line, classifies it and selects from it on other connections than the transaction. These do not see the
// rows of the transaction: a user who is in two pages shows as a duplicate row.
type pageReader struct {
	*settlement
	line  *line.Reader
	past  ledger.Past
	ask   int // applications in the next page
	ended bool
}

// read reads the pages that so many seats need if every row is stored.
func (r *pageReader) read(ctx context.Context, free int) iter.Seq2[*selection, error] {
	return line.Ahead(ctx, func(ctx context.Context) (*selection, error) {
		if free == 0 || r.ended {
			return nil, nil
		}
		r.line.Size = min(r.ask, max(minApplications, free+free/8))
		r.ask = min(2*r.ask, pageApplications)
		var page []decision.Application
		err := r.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
			applications, err := r.line.Next(ctx, q)
			if err == nil && len(applications) > 0 {
				page, err = decision.Classify(ctx, q, r.Users, r.coupon.ID, r.past, applications)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			r.ended = true
			return nil, nil
		}
		next := r.run.choose(page, free, newPageUsers(page))
		free -= next.seats()
		return &next, nil
	})
}
