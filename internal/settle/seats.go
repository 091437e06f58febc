package settle

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
)

// issuePage gives up to free seats to the first eligible of a page, behind those that are seated already. When somebody
// was given the coupon by hand since the page was classified, it is classified again.
func (s *settlement) issuePage(ctx context.Context, tx *sql.Tx, page []Application, free, seated int) (issued []Application, refused []classified, err error) {
	unstorable := len(s.unstorable)
	for n := 1; ; n++ {
		err = withinSavepoint(ctx, tx, "page", func() (err error) {
			issued, refused, err = s.seatPage(ctx, tx, page, free, seated)
			return err
		})
		if classifyError(err) != duplicate || n == pageAttempts {
			return issued, refused, err
		}
		s.unstorable = s.unstorable[:unstorable]
	}
}

// seatPage goes on in the page where a row could not be stored and left its seat free.
func (s *settlement) seatPage(ctx context.Context, tx *sql.Tx, page []Application, free, seated int) (issued []Application, refused []classified, err error) {
	rest, err := classify(ctx, tx, s.coupon.ID, page)
	if err != nil {
		return nil, nil, err
	}
	seats := newSeatHolders(page)
	for len(issued) < free && len(rest) > 0 {
		var chosen []Application
		var passed []classified
		chosen, passed, rest = choose(rest, free-len(issued), seats)
		stored, err := s.isolate(ctx, tx, seated+len(issued), chosen, func(seated int, part []Application) error {
			return insertIssued(ctx, tx, s.run, s.coupon, seated, part)
		})
		if err != nil {
			return nil, nil, err
		}
		seats.note(chosen, stored)
		issued, refused = append(issued, stored...), append(refused, passed...)
	}
	return issued, refused, nil
}

// seatHolders are the users of a page who got a seat, true, or are about to, false. It is nil where nobody can stand in
// the page twice: the queue alone cannot hold a user twice; the DLQ and the records can, after Redis lost data.
type seatHolders map[uint64]bool

func newSeatHolders(page []Application) seatHolders {
	if slices.ContainsFunc(page, func(a Application) bool { return a.Source != Waiting }) {
		return make(seatHolders, len(page))
	}
	return nil
}

// note: who was chosen and not stored holds nothing.
func (h seatHolders) note(chosen, stored []Application) {
	if h == nil {
		return
	}
	for _, a := range chosen {
		delete(h, a.User)
	}
	for _, a := range stored {
		h[a.User] = true
	}
}

// choose takes the first eligible for the free seats. refused are the others that were read on the way; rest has not
// been looked at. It ends before a user chosen already, whose row must first be stored.
func choose(all []classified, free int, seats seatHolders) (chosen []Application, refused, rest []classified) {
	chosen = make([]Application, 0, min(len(all), free))
	for i, c := range all {
		seated, known := seats[c.User]
		switch {
		case len(chosen) == free, known && !seated && c.verdict == eligible:
			return chosen, refused, all[i:]
		case c.verdict != eligible, c.Source == Held, seated:
			refused = append(refused, c)
			continue
		}
		if seats != nil {
			seats[c.User] = false
		}
		chosen = append(chosen, c.Application)
	}
	return chosen, refused, nil
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

func (d *digest) add(issued []Application) {
	for _, a := range issued {
		d.buffer = append(strconv.AppendUint(d.buffer[:0], a.User, 10), '\n')
		d.hash.Write(d.buffer)
		if d.count == 0 {
			d.first = a.Arrival
		}
		d.last = a.Arrival
		d.count++
	}
}

func (d *digest) String() string { return "sha256:" + hex.EncodeToString(d.hash.Sum(nil)) }
