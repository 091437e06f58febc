package settle

import (
	"context"
	"iter"
	"slices"

	"github.com/jajeong/jajeong/internal/ahead"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// Sizes of a page, in applications.
const (
	// pageApplications is the size of a full page: large enough to save round trips, and less than 1 MB of JSON.
	pageApplications = 20_000
	// firstApplications is the size of the first page. It is small, so that inserting begins soon. Sizes then double. A
	// page half as large is inserted before the second page has been read.
	firstApplications = 5_000
	// minApplications is the least size of a page, however few seats are free: some of its rows may be refused.
	minApplications = 1_000
)

// selection is the part of a page that gets seats, provided that MySQL stores the rows.
type selection struct {
	chosen []coupon.Application
	rows   *records.SeatRows      // the rows of the chosen applications
	kept   int                    // number of seats kept for DLQ entries that the run leaves out
	ended  []decision.Application // NOT_SELECTED applications that cannot get a seat any more
	second []decision.Application // NOT_SELECTED applications of users who have an earlier application in chosen
	users  map[coupon.UserID]bool // users chosen from the page so far; nil: no user can be in the page twice
	from   []decision.Application // the applications that choose was given
	rest   []decision.Application // the end of from, which choose did not reach
}

// newPageUsers returns an empty set if a user can be in the page twice, else nil. The queue holds each user once. A
// user of the queue can also be in the DLQ or among the NOT_SELECTED records, for example after Redis lost data.
func newPageUsers(page []decision.Application) map[coupon.UserID]bool {
	for _, c := range page {
		if c.Source != coupon.SourceQueue {
			return make(map[coupon.UserID]bool, len(page))
		}
	}
	return nil
}

// seats returns the number of seats that are given or kept if every row is stored.
func (s selection) seats() int { return len(s.chosen) + s.kept }

// rowsOf returns the rows of a part of the chosen applications. The rows of all of them are packed already.
func (s selection) rowsOf(part []coupon.Application) *records.SeatRows {
	if len(part) == len(s.chosen) {
		return s.rows
	}
	return records.PackSeats(part)
}

// secondPlaces decides the NOT_SELECTED applications of users with an earlier application in the page. If the earlier
// one got a seat, the later one has ended. If the earlier row was refused, so is the later one.
func (s selection) secondPlaces(
	stored []coupon.Application) (ended []decision.Application, refused []coupon.Application) {
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

// choose selects the first eligible applications for free seats. It keeps seats for DLQ entries that are left out.
func (r run) choose(page []decision.Application, free int, users map[coupon.UserID]bool) selection {
	s := selection{from: page, users: users, chosen: make([]coupon.Application, 0, min(len(page), free))}
	for i, c := range page {
		if s.seats() == free || !records.Packable(s.chosen, c.Application) {
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
	s.rows = records.PackSeats(s.chosen)
	return s
}

// leavesOut reports whether this run keeps a seat for a DLQ entry instead of trying it. A nightly run tries a refused
// row once for each cutoff. A run with canaries leaves out all entries that are no canaries.
func (r run) leavesOut(a coupon.Application) bool {
	switch {
	case a.Source == coupon.SourceQueue || a.Source == coupon.SourceNotSelected || a.Source == coupon.SourceHeld:
		return false
	case r.Canaries != nil:
		_, isCanary := slices.BinarySearch(r.Canaries, a.Member)
		return !isCanary
	default:
		return a.Source == coupon.SourceTriedTonight && r.rules.triesOnce
	}
}

// stays reports whether a DLQ entry that finds no seat stays in the DLQ. An entry that this run leaves out stays. In a
// retry every entry stays, because a retry records no DLQ entry as NOT_SELECTED.
func (r run) stays(a coupon.Application) bool {
	return a.Source != coupon.SourceQueue && (r.rules.keepsEntries || r.leavesOut(a))
}

// pageReader reads the line, classifies it and selects from it. Its connections do not see the uncommitted rows of the
// transaction, so a user who is in two pages is noticed only by the duplicate row.
type pageReader struct {
	*settlement
	line  *line.Reader
	past  ledger.Past
	ask   int // size of the next page, in applications
	ended bool
}

// read reads as many pages as the free seats need if every row is stored.
func (r *pageReader) read(ctx context.Context, free int) iter.Seq2[*selection, error] {
	return ahead.Pages(ctx, func(ctx context.Context) (*selection, error) {
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
