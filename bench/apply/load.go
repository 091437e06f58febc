package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// load is what the generator is told to do. Each request is from a user who never asked before.
type load struct {
	Address     string
	Connections int
	// Rate is how many requests are due in a second, whatever becomes of those before. A connection whose last answer
	// is late sends the next one late, at once, and that counts from the instant it was due. 0: a request is due when
	// the one before is answered.
	Rate      float64
	Warmup    time.Duration // counts for nothing
	Length    time.Duration
	FirstUser uint64
}

const (
	// maxConnections and usersPerConnection fit into usersPerLoad.
	maxConnections     = 5_000
	usersPerConnection = 200_000
	usersPerLoad       = maxConnections * usersPerConnection
	// maxLoads on one server keep user ids at ten digits, so that a request has a place for each.
	maxLoads = 9
	// grace is how long the last answers may take.
	grace = 10 * time.Second
)

// outcome is what became of a load.
type outcome struct {
	Seconds  float64 // measured
	Served   int     // answered well in that time
	Refused  int     // answered 429 or 503 in that time
	Bare     int     // of those without Retry-After
	Unsent   int     // due in that time and not sent by its end
	Failed   int     // anything else, the warm-up included
	Failure  string  // the first
	Answered int     // with whatever, the warm-up included

	FromDue  quantiles // of what was served, and of what was not sent up to the end
	FromSent quantiles // of what was served
	Refusals quantiles // from sent

	Accepted []span // the users who were told so, the warm-up included

	cpu time.Duration // that the generator used
}

func (o outcome) goodput() float64 { return float64(o.Served) / o.Seconds }

// span is users from First, so many.
type span struct{ First, Users uint64 }

type quantiles struct{ P50, P99, P999, Max time.Duration }

// waits are times in µs.
type waits []uint32

func (w *waits) note(d time.Duration) { *w = append(*w, uint32(d.Microseconds())) }

func (w waits) quantiles() quantiles {
	if len(w) == 0 {
		return quantiles{}
	}
	slices.Sort(w)
	at := func(q float64) time.Duration {
		return time.Duration(w[min(len(w)-1, int(q*float64(len(w))))]) * time.Microsecond
	}
	return quantiles{at(0.5), at(0.99), at(0.999), at(1)}
}

// send has the load sent by a process of its own.
func send(ctx context.Context, l load) (o outcome, err error) {
	spec, err := json.Marshal(l)
	if err != nil {
		return o, err
	}
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	const around = 30 * time.Second // to connect, and to tell
	ctx, cancel := context.WithTimeout(ctx, l.Warmup+l.Length+grace+around)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, generateVerb)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(spec), os.Stderr
	told, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("generate load: %w", err)
	}
	if err := json.Unmarshal(told, &o); err != nil {
		return o, fmt.Errorf("generate load: %w", err)
	}
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if o.Served == 0 {
		return o, fmt.Errorf("generate load: nothing was served: %s", o.Failure)
	}
	return o, nil
}
