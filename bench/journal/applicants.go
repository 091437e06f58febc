package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/line"
	"github.com/jajeong/jajeong/bench/pace"
)

// applyVerb makes this program the applicants. They are a process of their own, so that the scheduler of Go lets none wait.
const applyVerb = "apply"

const (
	connections = 128
	// warmUp is for connections, heaps and pools.
	warmUp = time.Second
	// loadWithin bounds a load.
	loadWithin = 5 * time.Minute
	// firstApplicant is above every user of a filled queue. All ids have ten digits.
	firstApplicant = 5_000_000_000
)

// demand describes applications for coupon 1. Each is from a new user.
type demand struct {
	Address string
	First   uint64  // user id
	Rate    float64 // applications that are due per second, independent of answers; 0: each connection applies after an answer
}

// answers are what the applicants got.
type answers struct {
	Samples []sample // accepted
	Failed  int      // not accepted
	Failure string   // the first
	Asked   uint64
}

type sample struct {
	Due  int64         // ns since 1970
	Took time.Duration // from when it was due
}

// apply sends the load that it reads from stdin, until stdin ends.
func apply(stdin io.Reader, stdout io.Writer) error {
	in := json.NewDecoder(stdin)
	var l demand
	if err := in.Decode(&l); err != nil {
		return fmt.Errorf("read load: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	return json.NewEncoder(stdout).Encode(l.send(ctx))
}

func (l demand) send(ctx context.Context) (all answers) {
	var mu sync.Mutex
	open := func() *line.Line {
		return line.New(l.Address, "POST /v1/coupons/1/applications", time.Now().Add(loadWithin))
	}
	ask := func(to *line.Line, n int, due time.Time) {
		r, err := to.Ask(l.First + uint64(n))
		took := time.Since(due)
		if err == nil && r.Status != http.StatusAccepted {
			err = fmt.Errorf("status %d", r.Status)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Asked++
		if err != nil {
			all.Failed++
			all.Failure = cmp.Or(all.Failure, err.Error())
			return
		}
		all.Samples = append(all.Samples, sample{due.UnixNano(), took})
	}
	if l.Rate > 0 {
		pace.Steadily(ctx, l.Rate, connections, open, ask)
		return all
	}
	var next atomic.Int64
	var senders sync.WaitGroup
	for range connections {
		senders.Go(func() {
			to := open()
			defer to.Close()
			for ctx.Err() == nil {
				ask(to, int(next.Add(1)-1), time.Now())
			}
		})
	}
	senders.Wait()
	return all
}

// heard has the applications that were due while something worked.
type heard struct {
	rate     float64 // accepted per second
	p50, p99 time.Duration
	failed   int
	failure  string
}

// load sends applications while do works.
func (p *shop) load(ctx context.Context, address string, rate float64, do func() error) (h heard, err error) {
	self, err := os.Executable()
	if err != nil {
		return h, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, applyVerb)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, os.Stderr, endWithin
	in, err := cmd.StdinPipe()
	if err != nil {
		return h, err
	}
	if err := cmd.Start(); err != nil {
		return h, fmt.Errorf("start applicants: %w", err)
	}
	if err := json.NewEncoder(in).Encode(demand{address, firstApplicant + p.asked, rate}); err != nil {
		return h, fmt.Errorf("start applicants: %w", err)
	}
	err = wait(ctx, warmUp)
	from := time.Now()
	if err == nil {
		err = do()
	}
	to := time.Now()
	if err != nil {
		cancel()
		_ = cmd.Wait()
		return h, err
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		return h, fmt.Errorf("applicants: %w", err)
	}
	var all answers
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return h, fmt.Errorf("applicants: %w", err)
	}
	p.asked += all.Asked
	return all.between(from, to), nil
}

func (a answers) between(from, to time.Time) heard {
	var took []time.Duration
	for _, s := range a.Samples {
		if s.Due >= from.UnixNano() && s.Due < to.UnixNano() {
			took = append(took, s.Took)
		}
	}
	slices.Sort(took)
	h := heard{rate: float64(len(took)) / to.Sub(from).Seconds(), failed: a.Failed, failure: a.Failure}
	if n := len(took); n > 0 {
		h.p50, h.p99 = took[n/2], took[n*99/100]
	}
	return h
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitOpen waits until the pod accepts an application, which needs a loaded catalog.
func (p *shop) awaitOpen(ctx context.Context, address string) error {
	to := line.New(address, "POST /v1/coupons/1/applications", time.Now().Add(endWithin))
	defer to.Close()
	for ctx.Err() == nil {
		r, err := to.Ask(firstApplicant + p.asked)
		p.asked++
		if err == nil && r.Status == http.StatusAccepted {
			return nil
		}
		if err != nil {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}
