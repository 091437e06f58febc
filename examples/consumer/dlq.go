package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxDLQ protects the memory of Redis. A full DLQ stops the consumer: so many bad events mean that the handler is
	// broken.
	maxDLQ   = 1000
	maxError = 500 // bytes
)

// DLQ is the stream of events that could not be handled. It is never trimmed.
type DLQ struct {
	redis  redis.UniversalClient
	stream string
}

// Add appends an entry of the main stream.
func (q *DLQ) Add(ctx context.Context, entry redis.XMessage, tries int64, cause error) error {
	length, err := q.redis.XLen(ctx, q.stream).Result()
	if err == nil && length >= maxDLQ {
		err = fmt.Errorf("it is full with %d entries: replay or delete them", length)
	}
	if err == nil {
		event, unknown := parse(body(entry))
		if unknown != nil {
			event = &Event{}
		}
		reason := cause.Error()
		err = q.redis.XAdd(ctx, &redis.XAddArgs{Stream: q.stream, Values: []any{
			"stream_id", entry.ID, "source", event.Source, "id", event.ID, "error", reason[:min(len(reason), maxError)],
			"tries", tries, "time", time.Now().UTC().Format(time.RFC3339Nano), "event", body(entry),
		}}).Err()
	}
	if err != nil {
		return fmt.Errorf("add %s to DLQ stream %s: %w", entry.ID, q.stream, err)
	}
	return nil
}

// List prints every entry, the oldest first.
func (q *DLQ) List(ctx context.Context, out io.Writer) error {
	entries, err := q.entries(ctx, "all")
	for _, entry := range entries {
		v := entry.Values
		fmt.Fprintf(out, "%s source=%s id=%s stream_id=%s tries=%s time=%s error=%q\n",
			entry.ID, v["source"], v["id"], v["stream_id"], v["tries"], v["time"], v["error"])
	}
	return err
}

// Replay gives entries to the handler here and now: all that are in the DLQ stream, or the one with this id. An entry
// leaves the stream only after it was handled; one that fails again stays. To add events to the main stream instead
// would repeat them to every other group, and would not tell who replays them what became of them. Running consumers
// need not stop: the handler drops what was handled before, by (source, id). It returns how many succeeded, and how
// many failed again.
func (q *DLQ) Replay(ctx context.Context, handler Handler, id string, out io.Writer) (replayed, failed int, err error) {
	entries, err := q.entries(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	for _, entry := range entries {
		outcome, err := attempt(ctx, handler, body(entry))
		if errors.Is(err, ErrRefused) {
			failed++
			fmt.Fprintf(out, "%s failed again: %v\n", entry.ID, err)
			continue
		}
		if err == nil {
			err = q.redis.XDel(ctx, q.stream, entry.ID).Err()
		}
		if err != nil {
			return replayed, failed, fmt.Errorf("replay %s: %w", entry.ID, err)
		}
		replayed++
		fmt.Fprintln(out, entry.ID, outcome)
	}
	return replayed, failed, nil
}

// entries returns all entries, or the one with this id.
func (q *DLQ) entries(ctx context.Context, id string) ([]redis.XMessage, error) {
	first, last := id, id
	if id == "all" {
		first, last = "-", "+"
	}
	entries, err := q.redis.XRange(ctx, q.stream, first, last).Result()
	if err == nil && len(entries) == 0 && id != "all" {
		err = fmt.Errorf("no entry %s: the command dlq lists the entries", id)
	}
	if err != nil {
		return nil, fmt.Errorf("read DLQ stream %s: %w", q.stream, err)
	}
	return entries, nil
}
