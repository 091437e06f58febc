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

	"github.com/jajeong/jajeong/internal/coupon"
)

// How much one call reads or writes: more would hold Redis longer than about a millisecond.
const (
	queuePageMembers = 500
	dlqPageMembers   = 125 // each costs a JSON decode besides
	writeMembers     = 500
	reviewMembers    = 150 // each costs several commands
)

// sourceOf are the sources that a page can have, by the letter that the script returns.
var sourceOf = map[byte]coupon.Source{
	'Q': coupon.SourceQueue, 'R': coupon.SourceRetryable, 'B': coupon.SourceRowRefused, 'T': coupon.SourceTriedTonight, 'H': coupon.SourceHeld,
}

// Page reads the entries behind the cursor that arrived before the cutoff, in order of (arrival, member), queue and
// DLQ together, at most about 500. No entries: the end of the line. It is a read; repeating it is safe.
func (s *Store) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	return s.page(ctx, couponID, after, cutoff.UnixMicro(), queuePageMembers, cutoff.UTC().Format(time.RFC3339Nano))
}

// UnderReview reads the DLQ alone, as Page does, whatever the arrival.
func (s *Store) UnderReview(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error) {
	return s.page(ctx, couponID, after, coupon.MaxArrival+2, 0, "") // above every arrival
}

func (s *Store) page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff int64, queueMembers int, night string) ([]coupon.Application, coupon.Cursor, error) {
	if after.End {
		return nil, after, nil
	}
	k := s.names.coupon(couponID)
	reply, err := pageScript.run(ctx, s.rdb, []string{k.queue, k.dlq, k.reason},
		cutoff, queueMembers, dlqPageMembers, after.Score, after.Member, night)
	if err != nil {
		return nil, after, fmt.Errorf("read line of coupon %d: %w", couponID, err)
	}
	entries, next, err := parsePage(reply)
	if err != nil {
		return nil, after, fmt.Errorf("read line of coupon %d: %w", couponID, err)
	}
	return entries, next, nil
}

func parsePage(reply []any) ([]coupon.Application, coupon.Cursor, error) {
	if len(reply) != 5 {
		return nil, coupon.Cursor{}, fmt.Errorf("%d values in the reply, want 5", len(reply)) // one without entries is no end of the line
	}
	body, ok := reply[4].([]any)
	if !ok {
		return nil, coupon.Cursor{}, fmt.Errorf("entries are %T, want a list", reply[4])
	}
	head, err := pageScript.texts(reply[:4], 4)
	if err != nil {
		return nil, coupon.Cursor{}, err
	}
	stored := head[3]
	texts, err := pageScript.texts(body, 2*len(stored))
	if err != nil {
		return nil, coupon.Cursor{}, err
	}
	entries := make([]coupon.Application, len(stored))
	for i := range entries {
		arrival, err := arrivalOf(texts[2*i+1])
		source, known := sourceOf[stored[i]]
		if err != nil || !known {
			return nil, coupon.Cursor{}, fmt.Errorf("entry %q has score %q and source %q", texts[2*i], texts[2*i+1], stored[i])
		}
		entries[i] = coupon.Application{Member: texts[2*i], Arrival: arrival, Source: source}
	}
	return entries, coupon.Cursor{Score: head[0], Member: head[1], End: head[2] == "0"}, nil
}

// arrivalOf reads a score: whole µs between 0 and 2^53 even where somebody wrote another one by hand. The scripts that
// move entries round alike.
func arrivalOf(score string) (int64, error) {
	arrival, err := strconv.ParseInt(score, 10, 64)
	if err == nil {
		return max(0, min(arrival, int64(coupon.MaxArrival))), nil
	}
	number, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(number) {
		return 0, errors.New("not a number")
	}
	return int64(math.Max(0, math.Min(math.Floor(number), float64(coupon.MaxArrival)))), nil
}

// Remove takes settled applications out of queue and DLQ, each only where it stands with that arrival, and marks their
// users. It returns how many stood there. Safe to repeat.
func (s *Store) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark, entries []coupon.Application) (removed int64, err error) {
	k := s.names.coupon(couponID)
	var set string
	until := any(closes.UnixMicro())
	switch mark {
	case coupon.MarkNone:
		set, until = k.issued, ""
	case coupon.MarkIssued:
		set = k.issued
	case coupon.MarkRejected:
		set = k.rejected
	default:
		return 0, fmt.Errorf("remove settled of coupon %d: unknown mark %d", couponID, mark)
	}
	keys := []string{k.queue, k.dlq, k.reason, set}
	for chunk := range slices.Chunk(entries, writeMembers) { // one by one: between two of them others have their turn
		n, err := s.cut(ctx, keys, until, chunk)
		if err == nil && n < 0 {
			n, err = s.removeEach(ctx, keys, until, chunk)
		}
		if err != nil {
			return removed, fmt.Errorf("remove settled of coupon %d: %w", couponID, err)
		}
		removed += n
	}
	return removed, nil
}

// cut removes entries that stand in the queue side by side; -1 where they do not.
func (s *Store) cut(ctx context.Context, keys []string, until any, entries []coupon.Application) (removed int64, err error) {
	digest := sha1.New()
	var line []byte
	for _, e := range entries {
		line = append(append(line[:0], e.Member...), '\n')
		digest.Write(line)
	}
	last := entries[len(entries)-1]
	return removeRangeScript.count(ctx, s.rdb, keys, until, s.ttlSeconds, len(entries), entries[0].Member,
		entries[0].Arrival, last.Arrival, hex.EncodeToString(digest.Sum(nil)))
}

func (s *Store) removeEach(ctx context.Context, keys []string, until any, entries []coupon.Application) (removed int64, err error) {
	args := make([]any, 0, 2+2*len(entries))
	args = append(args, until, s.ttlSeconds)
	for _, e := range entries {
		args = append(args, e.Member, e.Arrival)
	}
	return removeScript.count(ctx, s.rdb, keys, args...)
}
