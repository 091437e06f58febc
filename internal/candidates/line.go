package candidates

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// How much one call reads or writes: more would hold Redis longer than about a millisecond.
const (
	queuePageMembers = 500
	dlqPageMembers   = 125 // each costs a JSON decode besides
	writeMembers     = 500
	reviewMembers    = 150 // each costs several commands
)

// Source is where an entry of the line stands.
type Source byte

const (
	Queue         Source = 'Q' // waiting in the queue
	Retryable     Source = 'R' // in the DLQ, to be tried again by every run
	RefusedBefore Source = 'B' // the same, and its own row was refused before
	Tried         Source = 'T' // the same, by a nightly run of the very cutoff that is read
	Held          Source = 'H' // in the DLQ until a person decides
	Recorded      Source = 'N' // in MySQL alone, as NOT_SELECTED
	Keeping       Source = 'K' // of Review alone: in the DLQ as R, where why it stands there is to stay
)

// Entry is one application in Redis. The member is a canonical user id unless somebody wrote into Redis by hand.
type Entry struct {
	Member  string
	Arrival int64 // µs since 1970
	Source  Source
}

// Cursor marks a place in the line; the zero Cursor is its beginning. It stays good when entries around it go.
type Cursor struct {
	score, member string
	end           bool // nothing stood behind it
}

// Page reads the entries behind the cursor that arrived before the cutoff, in order of (arrival, member), queue and
// DLQ together, at most about 500. No entries: the end of the line. It is a read; repeating it is safe.
func (s *Store) Page(ctx context.Context, coupon uint64, after Cursor, cutoff time.Time) ([]Entry, Cursor, error) {
	return s.page(ctx, coupon, after, cutoff.UnixMicro(), queuePageMembers, cutoff.UTC().Format(time.RFC3339Nano))
}

// UnderReview reads the DLQ alone, as Page does, whatever the arrival.
func (s *Store) UnderReview(ctx context.Context, coupon uint64, after Cursor) ([]Entry, Cursor, error) {
	return s.page(ctx, coupon, after, lastArrival+2, 0, "") // above every arrival
}

func (s *Store) page(ctx context.Context, coupon uint64, after Cursor, cutoff int64, queueMembers int, night string) ([]Entry, Cursor, error) {
	if after.end {
		return nil, after, nil
	}
	k := s.names.coupon(coupon)
	reply, err := pageScript.run(ctx, s.rdb, []string{k.queue, k.dlq, k.reason},
		cutoff, queueMembers, dlqPageMembers, after.score, after.member, night)
	if err != nil {
		return nil, after, fmt.Errorf("read line of coupon %d: %w", coupon, err)
	}
	entries, next, err := parsePage(reply)
	if err != nil {
		return nil, after, fmt.Errorf("read line of coupon %d: %w", coupon, err)
	}
	return entries, next, nil
}

func parsePage(reply []any) ([]Entry, Cursor, error) {
	if len(reply) != 5 {
		return nil, Cursor{}, fmt.Errorf("%d values in the reply, want 5", len(reply)) // one without entries is no end of the line
	}
	body, ok := reply[4].([]any)
	if !ok {
		return nil, Cursor{}, fmt.Errorf("entries are %T, want a list", reply[4])
	}
	head, err := pageScript.texts(reply[:4], 4)
	if err != nil {
		return nil, Cursor{}, err
	}
	sources := head[3]
	texts, err := pageScript.texts(body, 2*len(sources))
	if err != nil {
		return nil, Cursor{}, err
	}
	entries := make([]Entry, len(sources))
	for i := range entries {
		arrival, err := arrivalOf(texts[2*i+1])
		if err != nil || !isSource(sources[i]) {
			return nil, Cursor{}, fmt.Errorf("entry %q has score %q and source %q", texts[2*i], texts[2*i+1], sources[i])
		}
		entries[i] = Entry{Member: texts[2*i], Arrival: arrival, Source: Source(sources[i])}
	}
	return entries, Cursor{score: head[0], member: head[1], end: head[2] == "0"}, nil
}

func isSource(letter byte) bool {
	switch Source(letter) {
	case Queue, Retryable, RefusedBefore, Tried, Held:
		return true
	}
	return false
}

// lastArrival is the highest there can be.
const lastArrival = 1<<53 - 1

// arrivalOf reads a score: whole µs between 0 and 2^53 even where somebody wrote another one by hand. The scripts that
// move entries round alike.
func arrivalOf(score string) (int64, error) {
	arrival, err := strconv.ParseInt(score, 10, 64)
	if err == nil {
		return max(0, min(arrival, lastArrival)), nil
	}
	number, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(number) {
		return 0, errors.New("not a number")
	}
	return int64(math.Max(0, math.Min(math.Floor(number), lastArrival))), nil
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
	keys := []string{k.queue, k.dlq, k.reason, set}
	for chunk := range slices.Chunk(entries, writeMembers) { // one by one: between two of them others have their turn
		n, err := s.cut(ctx, keys, until, chunk)
		if err == nil && n < 0 {
			n, err = s.removeEach(ctx, keys, until, chunk)
		}
		if err != nil {
			return removed, fmt.Errorf("remove settled of coupon %d: %w", coupon, err)
		}
		removed += n
	}
	return removed, nil
}

// cut removes entries that stand in the queue side by side; -1 where they do not.
func (s *Store) cut(ctx context.Context, keys []string, until any, entries []Entry) (removed int64, err error) {
	digest := sha1.New()
	var line []byte
	for _, e := range entries {
		line = append(append(line[:0], e.Member...), '\n')
		digest.Write(line)
	}
	last := entries[len(entries)-1]
	return cutScript.count(ctx, s.rdb, keys, until, s.ttlSeconds, len(entries), entries[0].Member,
		entries[0].Arrival, last.Arrival, hex.EncodeToString(digest.Sum(nil)))
}

func (s *Store) removeEach(ctx context.Context, keys []string, until any, entries []Entry) (removed int64, err error) {
	args := make([]any, 0, 2+2*len(entries))
	args = append(args, until, s.ttlSeconds)
	for _, e := range entries {
		args = append(args, e.Member, e.Arrival)
	}
	return removeScript.count(ctx, s.rdb, keys, args...)
}
