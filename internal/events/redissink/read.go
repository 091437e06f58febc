package redissink

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/rediserr"
)

// Read reads the stream by pages, from the first entry that is not older than since to the last one that it had at the
// call. The stream has everything since its first entry was appended, unless somebody deletes single entries (XDEL).
func (s *Sink) Read(ctx context.Context, since time.Time, visit func(page [][]byte) error) (from time.Time, err error) {
	_, last, err := s.ends(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for next := strconv.FormatInt(max(0, since.UnixMilli()), 10); ; {
		entries, err := s.rdb.XRangeN(ctx, s.Stream, next, last, pageSize).Result()
		if err != nil {
			return time.Time{}, fmt.Errorf("read stream %s: %w", s.Stream, rediserr.Classify(err))
		}
		page := make([][]byte, len(entries))
		for i, entry := range entries {
			body, _ := entry.Values["event"].(string)
			page[i] = []byte(body)
		}
		if err := visit(page); err != nil {
			return time.Time{}, err
		}
		if len(entries) < pageSize {
			break
		}
		next = "(" + entries[len(entries)-1].ID
	}
	from, _, err = s.ends(ctx) // after the reading: old entries may have left the stream meanwhile
	return from, err
}

// ends returns when the first entry of the stream was appended, and the id of the last one that ever was. The time is
// zero if the stream is empty.
func (s *Sink) ends(ctx context.Context) (first time.Time, last string, err error) {
	info, err := s.rdb.XInfoStream(ctx, s.Stream).Result()
	if redis.HasErrorPrefix(err, "no such key") {
		return time.Time{}, "0-0", nil
	}
	if err != nil {
		return time.Time{}, "", fmt.Errorf("read the ends of stream %s: %w", s.Stream, rediserr.Classify(err))
	}
	if id := info.FirstEntry.ID; id != "" {
		ms, _, _ := strings.Cut(id, "-")
		millis, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return time.Time{}, "", fmt.Errorf("read the first entry of stream %s: %w", s.Stream, err)
		}
		first = time.UnixMilli(millis)
	}
	return first, info.LastGeneratedID, nil
}
