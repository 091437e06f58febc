package missing

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Verdict says what to make of it that a user's application is found neither in Redis nor in MySQL.
type Verdict int

const (
	NotApplied Verdict = iota + 1 // no promise is missing: the user has not applied
	Restoring                     // the application may soon be found
	MayBeLost                     // promises are missing or written off, and one of them may be the user's
)

const (
	// patience is for how long users are told that their applications may soon be found.
	patience = time.Minute
	// freshEvery is how long a reading of one coupon waits for the one before.
	freshEvery = 250 * time.Millisecond
	// maxFresh is how many readings run at a time: the other connections are for the catalog and for outcomes.
	maxFresh = 4
)

// Judge says what to tell a user of a coupon whose application was found nowhere. line is what Redis had of the coupon
// when it did not have the user, and now the time on its clock. The error says that MySQL could not be asked.
func (f *Finder) Judge(ctx context.Context, of coupon.Coupon, line candidates.Line, now time.Time) (Verdict, error) {
	if of.Finalised() {
		return NotApplied, nil
	}
	s, local := f.stateOf(of.ID), f.Now()
	if s.isBlind(line, local) || IsUncompared(line) && now.Before(line.Since.Time().Add(patience)) {
		return Restoring, nil
	}
	before := Books{Accepted: of.Promise.Accepted, Twice: of.Promise.Twice}
	s.mu.Lock()
	known := s.books
	suspected := Missing(before, line, known) > 0
	s.mu.Unlock()
	if !suspected {
		return known.ofNobody(), nil
	}
	after, err := f.fresh(ctx, of.ID, s)
	if err != nil {
		return 0, fmt.Errorf("read whether promises of coupon %d are missing: %w", of.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(0, Missing(before, line, after))
	if n == 0 && after.settled() != known.settled() {
		n = s.missing // a settlement ran, so that more may be missing than were read
	}
	switch {
	case n == 0:
		return after.ofNobody(), nil
	case !IsDue(line, n):
		return MayBeLost, nil
	}
	s.note(n, true, local)
	if local.Before(s.due.Add(patience)) {
		return Restoring, nil
	}
	return MayBeLost, nil
}

// ofNobody is the verdict if no promise is missing: one that an operator has written off may still be the user's.
func (b Books) ofNobody() Verdict {
	if b.WrittenOff > 0 {
		return MayBeLost
	}
	return NotApplied
}

// isBlind reports whether Redis has lost the coupon's state, and may soon have it again.
func (s *state) isBlind(line candidates.Line, local time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case line.Window:
		s.blind = time.Time{}
		return false
	case s.blind.IsZero():
		s.blind = local
	}
	return local.Before(s.blind.Add(patience))
}

// fetch is a reading of the books that callers of fresh share.
type fetch struct {
	books Books
	err   error
	done  chan struct{} // closed when books and err are set
}

// fresh returns books that are read after the call.
func (f *Finder) fresh(ctx context.Context, id coupon.CouponID, s *state) (Books, error) {
	s.mu.Lock()
	one := s.next
	if one == nil {
		one = &fetch{done: make(chan struct{})}
		s.next = one
	}
	if !s.busy {
		s.busy = true
		go f.fetchAll(id, s)
	}
	s.mu.Unlock()
	select {
	case <-one.done:
		return one.books, one.err
	case <-ctx.Done():
		return Books{}, context.Cause(ctx)
	}
}

// fetchAll reads until nobody waits.
func (f *Finder) fetchAll(id coupon.CouponID, s *state) {
	for {
		s.mu.Lock()
		wait := s.began.Add(freshEvery).Sub(f.Now())
		s.mu.Unlock()
		<-time.After(wait)
		f.reading <- struct{}{}
		s.mu.Lock()
		one := s.next
		s.next, s.began = nil, f.Now()
		s.mu.Unlock()
		one.books, one.err = f.readOne(id)
		<-f.reading
		close(one.done)

		s.mu.Lock()
		if one.err == nil {
			s.books = one.books
		}
		s.busy = s.next != nil
		more := s.busy
		s.mu.Unlock()
		if !more {
			return
		}
	}
}

// readOne belongs to no request: others wait for it when the first has given up.
func (f *Finder) readOne(id coupon.CouponID) (Books, error) {
	all, err := f.books(context.Background(), id)
	return all[id], err
}
