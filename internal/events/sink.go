package events

import (
	"context"
	"errors"
	"time"
)

// Sink delivers events to where the rest of the shop reads them.
type Sink interface {
	// Publish delivers messages in order. The first delivered of them are acknowledged, and last is the last of these;
	// after an error, more of them may have been delivered. It delivers nothing if the events are not at this place
	// now: ErrMayHaveLost.
	Publish(ctx context.Context, at Place, messages []Message) (delivered int, last string, err error)
	// Look says where the events are, and whether they lack what the caller knows of. Looking also does the upkeep of
	// the sink, such as trimming.
	Look(ctx context.Context, known Place) (Look, error)
	// Lags returns how far the known consumers are behind.
	Lags(ctx context.Context) ([]Lag, error)
	// Read passes what the sink has to visit, by pages of a few hundred bodies: at least what came to it at since or
	// later, by its clock, and nothing that came after the call. It returns since when the sink has everything that
	// came to it; the zero time if it has nothing, or lacks something since nobody knows when. It ends with the first
	// error of visit, and returns that.
	Read(ctx context.Context, since time.Time, visit func(page [][]byte) error) (from time.Time, err error)
	Close()
}

// Place is where events are, in words of their sink.
type Place struct {
	// Server holds the events. After a failover or a restart that may have lost acknowledged events, it differs, and
	// also for another stream of the same server. A sink that loses none always has the same.
	Server string
	// Last is the last event that was acknowledged there. Empty: none is known, or it has left the sink by its age.
	Last string
}

// Look is what a sink says of itself.
type Look struct {
	Place
	// Lacks is how long ago, by the clock of the sink, it last had everything that the caller knows of. Zero: it lacks
	// nothing. It is never more than the time for which the sink keeps events.
	Lacks time.Duration
}

// Lag is what a group of consumers has not read yet.
type Lag struct {
	Group   string `json:"group"`
	Unread  int64  `json:"unread"`  // events that were never delivered to the group; -1: unknown
	Pending int64  `json:"pending"` // events that were delivered and not acknowledged; -1: the sink has no such state
}

var (
	// ErrMayHaveLost means that events may be lost which the sink had acknowledged. The relay publishes them again.
	ErrMayHaveLost = errors.New("the sink may have lost events")
	// ErrFull means that the sink takes no events, because its server keeps the memory for applications.
	ErrFull = errors.New("the sink's memory is needed for applications")
)
