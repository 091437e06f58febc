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

// load describes the requests of one measurement.
type load struct {
	Address     string
	Connections int
	// Rate is the number of requests that are due per second, independent of answers. After a late answer a connection
	// sends the next request immediately, and its latency counts from the time it was due. 0: a request is due when the
	// one before is answered.
	Rate      float64
	Warmup    time.Duration // not measured
	Length    time.Duration
	FirstUser uint64
	Again     int   // users of each connection, who come again and again; 0: every request is from a new user
	Tokens    *mint // nil: requests have X-User-ID
}

const (
	// maxConnections and usersPerConnection fit into usersPerLoad.
	maxConnections     = 5_000
	usersPerConnection = 200_000
	usersPerLoad       = maxConnections * usersPerConnection
	// maxLoads is the limit of loads on one server, so that user ids have ten digits.
	maxLoads = 9
	// grace is the time limit of the last answers.
	grace = 10 * time.Second
)

// outcome has the results of a load.
type outcome struct {
	Seconds  float64 // measured
	Served   int     // accepted in that time
	Refused  int     // answered 429 or 503 in that time
	Bare     int     // of the refused ones, those without Retry-After
	Unsent   int     // due in that time and not sent by its end
	Failed   int     // anything else, the warm-up included
	Failure  string  // the first
	Answered int     // all answers, the warm-up included

	FromDue  quantiles // accepted requests, and unsent ones up to the end
	FromSent quantiles // accepted requests
	Refusals quantiles // refused requests, from the time they were sent

	Accepted []span // accepted users, the warm-up included

	cpu time.Duration // of the generator
}

func (o outcome) goodput() float64 { return float64(o.Served) / o.Seconds }

// span is a range of Users users from First on.
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

// send sends the load from a process of its own.
func send(ctx context.Context, l load) (o outcome, err error) {
	spec, err := json.Marshal(l)
	if err != nil {
		return o, err
	}
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	const around = 3 * time.Minute // for the tokens, the connections and the result
	ctx, cancel := context.WithTimeout(ctx, l.Warmup+l.Length+grace+around)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, generateVerb)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(spec), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("generate load: %w", err)
	}
	if err := json.Unmarshal(output, &o); err != nil {
		return o, fmt.Errorf("generate load: %w", err)
	}
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if o.Served == 0 {
		return o, fmt.Errorf("generate load: no request was accepted: %s", o.Failure)
	}
	return o, nil
}
