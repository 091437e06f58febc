package events

import (
	"context"
	"errors"
)

// Sink delivers events to where the rest of the shop reads them.
type Sink interface {
	// Publish delivers messages in order. The first delivered of them are acknowledged; after an error, more of them may
	// have been delivered. It delivers nothing if server is not the one that holds the events now: ErrServerChanged.
	Publish(ctx context.Context, server string, messages []Message) (delivered int, err error)
	// Server names the server that holds the events. After a failover or a restart that may have lost acknowledged events,
	// the name differs. A sink that loses none always returns the same name. Looking also does the upkeep of the sink,
	// such as trimming.
	Server(ctx context.Context) (string, error)
	// Lags returns how far the known consumers are behind.
	Lags(ctx context.Context) ([]Lag, error)
	Close()
}

// Lag is what a group of consumers has not read yet.
type Lag struct {
	Group   string `json:"group"`
	Unread  int64  `json:"unread"`  // events that were never delivered to the group; -1: unknown
	Pending int64  `json:"pending"` // events that were delivered and not acknowledged; -1: the sink has no such state
}

var (
	// ErrServerChanged means that events may be lost which the sink had acknowledged. The relay publishes them again.
	ErrServerChanged = errors.New("the sink's server has changed")
	// ErrFull means that the sink takes no events, so that its server keeps memory for applications.
	ErrFull = errors.New("the sink's memory is needed for applications")
)
