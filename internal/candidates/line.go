package candidates

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// How much one call reads or writes: more would hold Redis longer than about a millisecond.
const (
	queuePageMembers = 500
	dlqPageMembers   = 125 // each costs a JSON decode besides
	writeMembers     = 500
	reviewMembers    = 150 // each costs several commands

	// removers send at once: while Redis works on one call the next is on its way, and nobody waits for more than two.
	removers = 2
)

// Source is where an entry of the line stands.
type Source byte

const (
	Queue     Source = 'Q' // waiting in the queue
	Retryable Source = 'R' // in the DLQ, to be tried again by every run
	Held      Source = 'H' // in the DLQ until a person decides
	Recorded  Source = 'N' // in MySQL alone, as NOT_SELECTED
)

// Entry is one application in Redis. The member is a canonical user id unless somebody wrote into Redis by hand.
type Entry struct {
	Member  string
	Arrival int64 // µs since 1970
	Source  Source
}

// Cursor marks a place in the line; the zero Cursor is its beginning. It stays good when entries around it go.
type Cursor struct{ score, member string }

// Page reads the entries behind the cursor that arrived before the cutoff, in order of (arrival, member), queue and
// DLQ together, at most about 500. No entries: the end of the line. It is a read; repeating it is safe.
func (s *Store) Page(ctx context.Context, coupon uint64, after Cursor, cutoff time.Time) ([]Entry, Cursor, error) {
	return s.page(ctx, coupon, after, cutoff.UnixMicro(), queuePageMembers)
}

// UnderReview reads the DLQ alone, as Page does, whatever the arrival.
func (s *Store) UnderReview(ctx context.Context, coupon uint64, after Cursor) ([]Entry, Cursor, error) {
	const never = 1 << 53 // above every arrival
	return s.page(ctx, coupon, after, never+1, 0)
}

func (s *Store) page(ctx context.Context, coupon uint64, after Cursor, cutoff int64, queueMembers int) ([]Entry, Cursor, error) {
	k := s.names.coupon(coupon)
	reply, err := pageScript.run(ctx, s.rdb, []string{k.queue, k.dlq, k.reason},
		cutoff, queueMembers, dlqPageMembers, after.score, after.member)
	if err != nil {
		return nil, after, fmt.Errorf("read line of coupon %d: %w", coupon, err)
	}
	texts, err := pageScript.strings(reply)
	if err != nil {
		return nil, after, fmt.Errorf("read line of coupon %d: %w", coupon, err)
	}
	if len(texts) < 2 || len(texts)%3 != 2 {
		return nil, after, fmt.Errorf("read line of coupon %d: %d values in the reply", coupon, len(texts))
	}
	next := Cursor{score: texts[0], member: texts[1]}
	entries := make([]Entry, 0, len(texts)/3)
	for texts = texts[2:]; len(texts) > 0; texts = texts[3:] {
		arrival, err := strconv.ParseInt(texts[1], 10, 64)
		if err != nil || !isSource(texts[2]) {
			return nil, after, fmt.Errorf("read line of coupon %d: entry %q has arrival %q and source %q", coupon, texts[0], texts[1], texts[2])
		}
		entries = append(entries, Entry{Member: texts[0], Arrival: arrival, Source: Source(texts[2][0])})
	}
	return entries, next, nil
}

func isSource(text string) bool {
	switch text {
	case string(Queue), string(Retryable), string(Held):
		return true
	}
	return false
}

// Mark is the set that Remove adds users to.
type Mark int

const (
	MarkNone Mark = iota
	MarkIssued
	MarkRejected
)

// Remove takes settled applications out of queue and DLQ, each only where it stands with that arrival, and marks their
// users. It returns how many stood there. Safe to repeat.
func (s *Store) Remove(ctx context.Context, coupon uint64, closes time.Time, mark Mark, entries []Entry) (removed int64, err error) {
	k := s.names.coupon(coupon)
	set, until := k.issued, any(closes.UnixMicro())
	switch mark {
	case MarkNone:
		until = ""
	case MarkRejected:
		set = k.rejected
	}
	var total atomic.Int64
	hands, ctx := errgroup.WithContext(ctx)
	hands.SetLimit(removers)
	for chunk := range slices.Chunk(entries, writeMembers) {
		hands.Go(func() error {
			args := make([]any, 0, 2+2*len(chunk))
			args = append(args, until, s.ttlSeconds)
			for _, e := range chunk {
				args = append(args, e.Member, e.Arrival)
			}
			n, err := removeScript.count(ctx, s.rdb, []string{k.queue, k.dlq, k.reason, set}, args...)
			if err != nil {
				return fmt.Errorf("remove settled of coupon %d: %w", coupon, err)
			}
			total.Add(n)
			return nil
		})
	}
	err = hands.Wait()
	return total.Load(), err
}
