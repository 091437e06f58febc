// Package redissink delivers events to a stream of Redis 7.0 or later: standalone, Sentinel or Cluster.
//
// A stream entry has the single field `event`, an event as JSON. One Lua script appends a page of events, all or none
// of them, so that an error in the middle of a page cannot change the order. The script runs on the master of the
// stream's slot and compares its run_id, its master_replid and the key of the stream, because a server that has
// restarted or was promoted may lack events that were acknowledged. It also looks for the event that it appended last:
// a stream that was emptied, that went back to an older copy, or that is another one, does not have it.
//
// Entries leave the stream when they are older than the retention by the clock of Redis, whether they were read or not.
// The number of entries is not limited, but nothing is appended while more than 60 % of maxmemory is used. Without
// maxmemory, no limit is known: the sink appends always.
package redissink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/rediserr"
)

const (
	// pageSize is the number of events that a script appends. A page of 600-byte events takes Redis less than a
	// millisecond.
	pageSize = 200
	// trimSize is the most entries that a script removes: five times as many as it appends, so that a stream whose
	// events are old gets shorter. It must exceed stream-node-max-entries (100 by default), because Redis removes whole
	// nodes.
	trimSize = 5 * pageSize
	// looks limits the scripts of one call of Server. They remove up to 20,000 old entries of a stream.
	looks = 20
	// fullPercent is the share of maxmemory above which nothing is appended. The rest is for applications.
	fullPercent = 60
)

// Options are the settings of a Sink.
type Options struct {
	Stream    string        // key of the stream
	Retention time.Duration // how long events stay in the stream; 0: this sink removes none
}

// Sink appends events to a stream. It is safe for parallel calls.
type Sink struct {
	rdb redis.UniversalClient
	Options
}

var _ events.Sink = (*Sink)(nil)

// New does not connect. The Sink closes the client. The client should have MaxRetries -1, since a repeated page would
// be appended twice, and ContextTimeoutEnabled.
func New(rdb redis.UniversalClient, o Options) (*Sink, error) {
	switch {
	case rdb == nil:
		return nil, errors.New("redissink: a Redis client is missing")
	case o.Stream == "":
		return nil, errors.New("redissink: the key of the stream is missing")
	case o.Retention != 0 && o.Retention < time.Millisecond:
		return nil, fmt.Errorf("redissink: a retention of %s is below a millisecond", o.Retention)
	}
	return &Sink{rdb: rdb, Options: o}, nil
}

// Close closes the client.
func (s *Sink) Close() { _ = s.rdb.Close() }

// Publish appends messages page by page. It stops at the first page that is not acknowledged; that page may have been
// appended.
func (s *Sink) Publish(ctx context.Context, at events.Place,
	messages []events.Message) (delivered int, last string, err error) {
	for page := range slices.Chunk(messages, pageSize) {
		if at.Last, err = s.append(ctx, at, page); err != nil {
			return delivered, at.Last, fmt.Errorf("append to stream %s: %w", s.Stream, err)
		}
		delivered += len(page)
	}
	return delivered, at.Last, nil
}

// append returns the last event that is known to be in the stream.
func (s *Sink) append(ctx context.Context, at events.Place, page []events.Message) (last string, err error) {
	a, err := s.run(ctx, at, page)
	if err != nil {
		return at.Last, err
	}
	switch a.code {
	case appended:
		return a.last, nil
	case changed:
		if a.lacks > 0 {
			return at.Last, fmt.Errorf("%w: it lacks the event %s", events.ErrMayHaveLost, at.Last)
		}
		return at.Last, fmt.Errorf("%w: it is %s, not %s", events.ErrMayHaveLost, a.server, at.Server)
	case full:
		return at.Last, fmt.Errorf("%w: %d of %d bytes are used, the limit for events is %d %%", events.ErrFull, a.used,
			a.max, fullPercent)
	default:
		return at.Last, fmt.Errorf("unknown code %q of redis script append", a.code)
	}
}

// Look names the server by the run_id and the master_replid of the Redis that has the stream, and by the stream's key.
// It also removes old events, so that a stream to which nothing is published gets shorter.
func (s *Sink) Look(ctx context.Context, known events.Place) (look events.Look, err error) {
	look.Last = known.Last
	for range looks {
		a, err := s.run(ctx, events.Place{Last: look.Last}, nil)
		if err == nil && a.code != looked {
			err = fmt.Errorf("unknown code %q of redis script append", a.code)
		}
		if err != nil {
			return events.Look{}, fmt.Errorf("look at stream %s: %w", s.Stream, err)
		}
		look.Place = events.Place{Server: a.server, Last: a.last}
		look.Lacks = max(look.Lacks, a.lacks)
		if a.removed == 0 {
			break
		}
	}
	return look, nil
}

// Lags returns the groups of the stream. Unread is -1 where Redis does not know it, for example after a group was set
// back.
func (s *Sink) Lags(ctx context.Context) ([]events.Lag, error) {
	groups, err := s.rdb.XInfoGroups(ctx, s.Stream).Result()
	if redis.HasErrorPrefix(err, "no such key") { // nothing was published yet, and no group was created
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read groups of stream %s: %w", s.Stream, rediserr.Classify(err))
	}
	lags := make([]events.Lag, len(groups))
	for i, g := range groups {
		lags[i] = events.Lag{Group: g.Name, Unread: g.Lag, Pending: g.Pending}
	}
	return lags, nil
}
