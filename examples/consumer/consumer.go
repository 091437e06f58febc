package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	page       = 100 // entries a read
	maxTries   = 5
	block      = 200 * time.Millisecond // how long a read waits for an event, and at most how late SIGTERM is seen
	minPause   = 200 * time.Millisecond
	maxPause   = 5 * time.Second
	reportEach = 1000 // events
)

// Consumer is one consumer of a group. It handles one event at a time.
type Consumer struct {
	runSettings
	redis   redis.UniversalClient
	handler Handler
	dlq     *DLQ
	log     *slog.Logger

	joined     bool           // this process has seen its group
	claimNext  time.Time      // when to look for entries to claim
	replayNext time.Time      // when to handle the events of the DLQ stream again
	counts     map[string]int // by Outcome, and: failed (tries), dlq, replayed, lost
	total      int
}

// Run reads until ctx ends, or until the stream is empty if that is wanted. It waits for servers that are away.
func (c *Consumer) Run(ctx context.Context) {
	if !c.keepTrying(ctx, func() error { return c.handler.Prepare(ctx) }) {
		return
	}
	c.log.Info("listening", "stream", c.Stream, "group", c.Group, "name", c.Name)
	c.keepTrying(ctx, func() error { return c.consume(ctx) })
}

// consume first handles what an earlier process of this name left behind, then new events. At intervals it takes events
// that failed, those of dead consumers, and those of the DLQ stream: these first, because a full DLQ stream stops
// everything else.
func (c *Consumer) consume(ctx context.Context) error {
	if err := c.join(ctx); err != nil {
		return err
	}
	if err := c.replay(ctx); err != nil {
		return err
	}
	for after := "0"; after != ""; { // a number: entries of this name that it has not acknowledged
		var err error
		if after, err = c.read(ctx, after); err != nil {
			return err
		}
	}
	for {
		if err := c.replay(ctx); err != nil {
			return err
		}
		if err := c.claim(ctx); err != nil {
			return err
		}
		if err := c.reportTrimmed(ctx); err != nil {
			return err
		}
		last, err := c.read(ctx, ">") // new entries
		if err != nil {
			return err
		}
		if c.UntilEmpty && last == "" {
			pending, err := c.redis.XPending(ctx, c.Stream, c.Group).Result()
			if err != nil || pending.Count == 0 {
				return err
			}
		}
	}
}

// join creates the group at the beginning of the stream, unless there is one.
func (c *Consumer) join(ctx context.Context) error {
	err := c.redis.XGroupCreateMkStream(ctx, c.Stream, c.Group, "0").Err()
	switch {
	case redis.HasErrorPrefix(err, "BUSYGROUP"): // it exists
	case err != nil:
		return err
	case c.joined:
		c.log.Error("the group was gone, so Redis has lost data; ask for a replay: settle events replay", "group",
			c.Group)
	}
	c.joined = true
	return nil
}

// read handles a page of entries and returns the id of the last one, or "" if there was none.
func (c *Consumer) read(ctx context.Context, after string) (last string, err error) {
	streams, err := c.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: c.Group, Consumer: c.Name,
		Streams: []string{c.Stream, after}, Count: page, Block: block}).Result()
	if errors.Is(err, redis.Nil) { // no event within the time
		return "", ctx.Err()
	}
	if err != nil || len(streams[0].Messages) == 0 {
		return "", err
	}
	entries := streams[0].Messages
	return entries[len(entries)-1].ID, c.handleAll(ctx, entries)
}

// claim takes over what nobody has acknowledged for ClaimAfter: events that failed, and those of dead consumers.
func (c *Consumer) claim(ctx context.Context) error {
	if time.Now().Before(c.claimNext) {
		return nil
	}
	for start := "0-0"; ; {
		entries, next, trimmed, err := c.redis.XAutoClaimWithDeleted(ctx, &redis.XAutoClaimArgs{Stream: c.Stream,
			Group: c.Group, Consumer: c.Name, MinIdle: c.ClaimAfter, Start: start, Count: page}).Result()
		if err != nil {
			return err
		}
		c.reportLost(len(trimmed), "the stream was trimmed before they were handled")
		if err := c.handleAll(ctx, entries); err != nil {
			return err
		}
		if start = next; next == "0-0" {
			c.claimNext = time.Now().Add(c.ClaimAfter / 2)
			return nil
		}
	}
}

// replay handles the events of the DLQ stream again. All consumers of the group do so: the handler drops what another
// one has handled.
func (c *Consumer) replay(ctx context.Context) error {
	if time.Now().Before(c.replayNext) {
		return nil
	}
	replayed, failed, err := c.dlq.Replay(ctx, c.handler, "all", io.Discard)
	if replayed > 0 {
		c.counts["replayed"] += replayed
		c.log.Info("events of the DLQ stream are handled", "events", replayed)
	}
	if err != nil {
		return err
	}
	if failed > 0 {
		c.log.Warn("events of the DLQ stream failed again; mend the cause, or delete them", "dlq", c.dlq.stream,
			"events", failed)
	}
	c.replayNext = time.Now().Add(c.ReplayEvery)
	return nil
}

// reportTrimmed is called before each read of new entries: with that read, some versions of Redis correct their own
// count. It moves the group's entries-read on, so that each event is reported once. It sends commands, because a
// consumer has no right to run scripts. If another consumer reads meanwhile, XGROUP SETID moves the group back to
// before that read: its events come again, and are dropped as duplicates.
func (c *Consumer) reportTrimmed(ctx context.Context) error {
	stream, err := c.redis.XInfoStream(ctx, c.Stream).Result()
	if err != nil {
		return err
	}
	trimmed := stream.EntriesAdded - stream.Length
	last, read, known, err := c.position(ctx)
	switch {
	case err != nil:
		return err
	case known && trimmed > read:
		c.reportLost(int(trimmed-read), "the stream was trimmed before the group read them")
	case known || last != "0-0": // a group that has read nothing misses nothing that was trimmed before
		return nil
	}
	return c.redis.Do(ctx, "XGROUP", "SETID", c.Stream, c.Group, last, "ENTRIESREAD", trimmed).Err()
}

// position returns the last entry that the group has read, and how many entries it has read. known is false if Redis
// does not know the number. XInfoGroups would return 0 then.
func (c *Consumer) position(ctx context.Context) (last string, read int64, known bool, err error) {
	groups, err := c.redis.Do(ctx, "XINFO", "GROUPS", c.Stream).Slice()
	if err != nil {
		return "", 0, false, err
	}
	for _, reply := range groups {
		group, _ := reply.(map[any]any)
		if group["name"] == c.Group {
			last, _ = group["last-delivered-id"].(string)
			read, known = group["entries-read"].(int64)
			return last, read, known, nil
		}
	}
	return "", 0, false, errors.New("the stream has no group " + c.Group)
}

func (c *Consumer) reportLost(events int, why string) {
	if events > 0 {
		c.counts["lost"] += events
		c.log.Error("events are lost; ask for a replay: settle events replay", "events", events, "why", why)
	}
}

// handleAll stops between two events when ctx ends. The rest stays pending under this name.
func (c *Consumer) handleAll(ctx context.Context, entries []redis.XMessage) error {
	for _, entry := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if entry.Values == nil {
			continue // trimmed: claim reports it
		}
		if err := c.handle(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// handle acknowledges an entry after its effect was committed. It waits here while the shop's database is away, because
// reading the entry again would count as a try.
func (c *Consumer) handle(ctx context.Context, entry redis.XMessage) error {
	inHand := context.WithoutCancel(ctx) // SIGTERM does not interrupt an event
	var outcome Outcome
	var refused error
	if !c.keepTrying(ctx, func() (err error) {
		if outcome, err = attempt(inHand, c.handler, body(entry)); errors.Is(err, ErrRefused) {
			outcome, refused, err = "failed", err, nil
		}
		return err
	}) {
		return ctx.Err()
	}
	c.counts[string(outcome)]++
	if c.total++; c.total%reportEach == 0 {
		c.log.Info("events handled", "counts", c.counts)
	}
	if refused != nil {
		if done, err := c.refuse(inHand, entry, refused); !done {
			return err
		}
	}
	return c.redis.XAck(inHand, c.Stream, c.Group, entry.ID).Err()
}

// refuse leaves the entry pending for another try. After the last try it adds the entry to the DLQ stream, and only
// then may the entry be acknowledged. A crash in between leaves both: it will be added again, and a replay drops the
// second one as a duplicate. The number of tries is the number of deliveries: a delivery to a consumer that was killed
// counts, too.
func (c *Consumer) refuse(ctx context.Context, entry redis.XMessage, cause error) (done bool, err error) {
	pending, err := c.redis.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: c.Stream, Group: c.Group,
		Start: entry.ID, End: entry.ID, Count: 1}).Result()
	if err != nil || len(pending) == 0 { // none: another consumer has claimed and handled it
		return false, err
	}
	tries := pending[0].RetryCount
	log := c.log.With("entry", entry.ID, "tries", tries, "error", cause.Error())
	if tries < maxTries && !errors.Is(cause, ErrMalformed) {
		log.Warn("event failed; it will be tried again")
		return false, nil
	}
	if err := c.dlq.Add(ctx, entry, tries, cause); err != nil {
		return false, err
	}
	c.counts["dlq"]++
	log.Error("event is in the DLQ stream; mend the cause: it is tried again", "dlq", c.dlq.stream)
	return true, nil
}

// keepTrying calls do until it succeeds, and returns false if ctx ends before. Between the calls it waits at random, up
// to a limit that doubles.
func (c *Consumer) keepTrying(ctx context.Context, do func() error) bool {
	for limit := 2 * minPause; ; limit = min(2*limit, maxPause) {
		started := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if time.Since(started) > maxPause { // it had worked for a while
			limit = 2 * minPause
		}
		pause := minPause + rand.N(limit-minPause)
		c.log.Warn("a server does not answer as it should; trying again", "error", err.Error(), "pause", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}
