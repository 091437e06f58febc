package settle

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"hash"
	"iter"
	"slices"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// page is a page of the line with its verdicts, ready to be seated.
type page struct {
	seats seatHolders
	next  choice
}

// readyPage chooses in a page for so many seats.
func (r run) readyPage(all []classified, free int) *page {
	seats := newSeatHolders(all)
	return &page{seats, r.choose(all, free, seats)}
}

// leavesOut is whether this run keeps a seat for an application under review instead of trying it: a nightly run tries no
// refused row twice for its cutoff, and one with canaries tries nobody else who is under review.
func (r run) leavesOut(a coupon.Application) bool {
	switch {
	case a.Source == coupon.SourceQueue || a.Source == coupon.SourceNotSelected:
		return false
	case r.canaries != nil:
		return !r.canaries[a.Member]
	default:
		return a.Source == coupon.SourceTriedTonight && r.Trigger == coupon.Cron
	}
}

// stays is whether an application that finds no seat stays under review, so that the next run has its say: one that this
// run has left out and, in a retry, everybody under review, since a person wanted one tried and none ended.
func (r run) stays(a coupon.Application) bool {
	return a.Source != coupon.SourceQueue && (r.Trigger == coupon.DLQRetry || r.leavesOut(a))
}

// ready reads the line and makes its pages ready, on connections beside the transaction's: what that has not committed
// yet they do not see. A user who stands in two pages, as after Redis lost data, is a duplicate then.
type ready struct {
	*settlement
	line  *reader
	past  ledger.Past
	ask   int // applications in the next page
	ended bool
}

func (s *settlement) readyLine(past ledger.Past) *ready {
	line := &reader{line: s.Line, coupon: s.coupon.ID, cutoff: s.run.cutoff, notSelected: past.Recorded}
	return &ready{settlement: s, line: line, past: past, ask: firstApplications}
}

// pages are as many as so many seats ask for, should every row be stored. Of a long line they are not much more.
func (r *ready) pages(ctx context.Context, free int) iter.Seq2[*page, error] {
	return ahead(ctx, func(ctx context.Context) (*page, error) {
		if free == 0 || r.ended {
			return nil, nil
		}
		r.line.size = min(r.ask, max(leastApplications, free+free/8))
		r.ask = min(2*r.ask, pageApplications)
		var all []classified
		err := r.DB.Once(ctx, func(ctx context.Context, conn mysqltx.Querier) error {
			applications, err := r.line.next(ctx, conn)
			if err == nil && len(applications) > 0 {
				all, err = r.classify(ctx, conn, r.coupon.ID, r.past, applications)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			r.ended = true
			return nil, nil
		}
		p := r.run.readyPage(all, free)
		free -= p.next.seats()
		return p, nil
	})
}

// issuePage gives or keeps up to free seats to the first eligible of a page, behind those that are seated already. It goes
// on in the page where a row could not be stored and left its seat free; and where somebody was given the coupon since the
// page was classified, it classifies again who is left of it.
func (s *settlement) issuePage(ctx context.Context, tx *sql.Tx, p *page, free, seated int) (issued []coupon.Application, refused []classified, kept int, err error) {
	if p.next.seats() > free { // a page before was parted, and gave more seats than it seemed to ask for
		p = s.run.readyPage(p.next.all, free)
	}
	for attempt := 1; ; {
		next := p.next
		stored, err := s.store(ctx, tx, seated+len(issued), next.chosen, func(seated int, part []coupon.Application) error {
			rows := next.rows
			if len(part) < len(next.chosen) {
				rows = seatRows(part)
			}
			return insertIssued(ctx, tx, s.run, s.coupon, seated, part, rows)
		})
		if mysqltx.IsDuplicate(err) && attempt < pageAttempts {
			again, err := s.classify(ctx, tx, s.coupon.ID, anyPast, applicationsIn(next.all))
			if err != nil {
				return nil, nil, 0, err
			}
			p = s.run.readyPage(again, free-len(issued)-kept)
			attempt++
			continue
		}
		if err != nil {
			return nil, nil, 0, err
		}
		p.seats.note(next.chosen, stored)
		issued, refused, kept = append(issued, stored...), append(refused, next.refused...), kept+next.kept
		if len(issued)+kept == free || len(next.rest) == 0 {
			return issued, refused, kept, nil
		}
		p.next = s.run.choose(next.rest, free-len(issued)-kept, p.seats)
	}
}

// seatHolders are the users of a page who got a seat, true, or are about to, false. It is nil where nobody can stand in
// the page twice: the queue alone cannot hold a user twice; the DLQ and the records can, after Redis lost data.
type seatHolders map[uint64]bool

func newSeatHolders(page []classified) seatHolders {
	if slices.ContainsFunc(page, func(c classified) bool { return c.Source != coupon.SourceQueue }) {
		return make(seatHolders, len(page))
	}
	return nil
}

// note: who was chosen and not stored holds nothing.
func (h seatHolders) note(chosen, stored []coupon.Application) {
	if h == nil {
		return
	}
	for _, a := range chosen {
		delete(h, a.User())
	}
	for _, a := range stored {
		h[a.User()] = true
	}
}

// choice is who of a page, or of what is left of it, is to get a seat.
type choice struct {
	all     []classified // from the first that was looked at
	chosen  []coupon.Application
	rows    string       // the chosen, as the database takes them
	kept    int          // seats of those whom the run leaves out
	refused []classified // the others that were looked at on the way
	rest    []classified // has not been looked at
}

// seats are how many are given or kept, if every row is stored.
func (c choice) seats() int { return len(c.chosen) + c.kept }

// choose takes the first eligible for the free seats, and keeps one for whom the run leaves out. It ends before a user
// chosen already, whose row must first be stored, and where somebody's hand has parted arrivals by years.
func (r run) choose(all []classified, free int, seats seatHolders) (c choice) {
	c.all = all
	c.chosen = make([]coupon.Application, 0, min(len(all), free))
	for i, one := range all {
		seated, known := seats[one.User()]
		if c.seats() == free || known && !seated && one.verdict == eligible || c.tooLate(one) {
			c.rest = all[i:]
			break
		}
		if one.verdict != eligible || one.Source == coupon.SourceHeld || seated {
			c.refused = append(c.refused, one)
			continue
		}
		if r.leavesOut(one.Application) {
			c.kept++
			continue
		}
		if seats != nil {
			seats[one.User()] = false
		}
		c.chosen = append(c.chosen, one.Application)
	}
	c.rows = seatRows(c.chosen)
	return c
}

// tooLate: seatRows cannot say how much later than the first it came.
func (c choice) tooLate(one classified) bool {
	return len(c.chosen) > 0 && one.Arrival-c.chosen[0].Arrival > mostLater
}

// digest is the SHA-256 over the issued user ids in order, each in decimal with a newline, and what else the record
// says of them.
type digest struct {
	hash        hash.Hash
	count       int
	first, last int64
	buffer      []byte
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) add(issued []coupon.Application) {
	if len(issued) == 0 {
		return
	}
	d.buffer = d.buffer[:0]
	for _, a := range issued {
		d.buffer = append(strconv.AppendUint(d.buffer, a.User(), 10), '\n')
	}
	d.hash.Write(d.buffer)
	if d.count == 0 {
		d.first = issued[0].Arrival
	}
	d.last = issued[len(issued)-1].Arrival
	d.count += len(issued)
}

func (d *digest) String() string { return "sha256:" + hex.EncodeToString(d.hash.Sum(nil)) }
