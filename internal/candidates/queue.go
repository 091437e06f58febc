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

// Limits of the members that one call reads or writes. A larger call would block Redis for more than a millisecond.
const (
	queuePageMembers = 500
	dlqPageMembers   = 125 // fewer, because the JSON reason of each member is decoded
	writeMembers     = 500
	reviewMembers    = 150 // fewer, because each member costs several commands
)

// pageSources maps a letter in the reply of lua/page.lua to the source of an entry.
var pageSources = map[byte]coupon.Source{
	'Q': coupon.SourceQueue, 'R': coupon.SourceRetryable, 'B': coupon.SourceRowRefused, 'T': coupon.SourceTriedTonight,
	'H': coupon.SourceHeld,
}

// Page returns up to about 500 entries of queue and DLQ that follow the cursor and arrived before the cutoff, ordered
// by arrival and member. After the last page, Page returns no entries. The cursor has the epoch of the server.
func (s *Store) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	return s.page(ctx, couponID, after, coupon.ArrivalAt(cutoff), queuePageMembers, dlqPageMembers,
		cutoff.UTC().Format(time.RFC3339Nano))
}

// Queue does what Page does, but reads only the queue.
func (s *Store) Queue(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	return s.page(ctx, couponID, after, coupon.ArrivalAt(cutoff), queuePageMembers, 0, "")
}

// UnderReview does what Page does, but reads only the DLQ and has no cutoff.
func (s *Store) UnderReview(ctx context.Context, couponID coupon.CouponID,
	after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error) {
	// This cutoff is above every arrival.
	return s.page(ctx, couponID, after, coupon.MaxArrival+2, 0, dlqPageMembers, "")
}

func (s *Store) page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff coupon.Arrival,
	queueMembers, dlqMembers int, night string) ([]coupon.Application, coupon.Cursor, error) {
	if after.End {
		return nil, after, nil
	}
	reply, err := s.run(ctx, pageScript, couponID, cutoff, queueMembers, dlqMembers, after.Score, after.Member, night)
	if err != nil {
		return nil, after, err
	}
	entries, next, err := parsePage(reply)
	if err != nil {
		return nil, after, pageScript.failed(couponID, err)
	}
	return entries, next, nil
}

func parsePage(reply []any) ([]coupon.Application, coupon.Cursor, error) {
	if len(reply) != 6 {
		return nil, coupon.Cursor{}, fmt.Errorf("%d values in the reply, want 6", len(reply)) // also on the last page
	}
	body, ok := reply[5].([]any)
	if !ok {
		return nil, coupon.Cursor{}, fmt.Errorf("entries are %T, want a list", reply[5])
	}
	head, err := values[string](reply[:5], 5)
	if err != nil {
		return nil, coupon.Cursor{}, err
	}
	sources := head[4]
	texts, err := values[string](body, 2*len(sources))
	if err != nil {
		return nil, coupon.Cursor{}, err
	}
	entries := make([]coupon.Application, len(sources))
	for i := range entries {
		arrival, err := arrivalOf(texts[2*i+1])
		source, known := pageSources[sources[i]]
		if err != nil || !known {
			return nil, coupon.Cursor{}, fmt.Errorf("entry %q has score %q and source %q", texts[2*i], texts[2*i+1],
				sources[i])
		}
		entries[i] = coupon.Application{Member: texts[2*i], Arrival: arrival, Source: source}
	}
	return entries, coupon.Cursor{Score: head[0], Member: head[1], End: head[2] == "0", Epoch: head[3]}, nil
}

// arrivalOf parses a score, which may be written by hand, and turns it into a valid arrival as lua/shared.lua does.
func arrivalOf(score string) (coupon.Arrival, error) {
	arrival, err := strconv.ParseInt(score, 10, 64)
	if err == nil {
		return max(0, min(coupon.Arrival(arrival), coupon.MaxArrival)), nil
	}
	number, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(number) {
		return 0, errors.New("not a number")
	}
	return coupon.Arrival(math.Max(0, math.Min(math.Floor(number), float64(coupon.MaxArrival)))), nil
}

// markSets maps a mark to the key to which Remove adds the users. lua/settled.lua uses the same names.
var markSets = map[coupon.Mark]string{coupon.MarkNone: "", coupon.MarkIssued: "issued", coupon.MarkRejected: "rejected"}

// Remove removes settled applications from queue and DLQ, and marks their users. An entry at a later arrival stays: it
// is another application. Arrival 0 marks a user with a coupon given by hand.
func (s *Store) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
	entries []coupon.Application) (removed int64, err error) {
	set, known := markSets[mark]
	if !known {
		return 0, fmt.Errorf("remove settled of coupon %d: unknown mark %d", couponID, mark)
	}
	common := []any{set, closes.UnixMicro(), ttlSeconds}
	for chunk := range slices.Chunk(entries, writeMembers) { // between two chunks Redis serves other clients
		n, err := s.removeRange(ctx, couponID, common, chunk)
		if err == nil && n < 0 {
			args := slices.Grow(slices.Clone(common), 2*len(chunk))
			for _, e := range chunk {
				args = append(args, e.Member, e.Arrival)
			}
			n, err = s.number(ctx, removeScript, couponID, args...)
		}
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// removeRange removes entries that are neighbours in the queue. It removes nothing and returns -1 if they are not.
func (s *Store) removeRange(ctx context.Context, couponID coupon.CouponID, common []any,
	entries []coupon.Application) (removed int64, err error) {
	digest := sha1.New()
	var line []byte
	for _, e := range entries {
		line = append(append(line[:0], e.Member...), '\n')
		digest.Write(line)
	}
	args := append(slices.Clone(common), len(entries), entries[0].Member, entries[0].Arrival,
		entries[len(entries)-1].Arrival, hex.EncodeToString(digest.Sum(nil)))
	return s.number(ctx, removeRangeScript, couponID, args...)
}
