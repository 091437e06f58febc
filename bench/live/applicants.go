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
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/line"
	"github.com/jajeong/jajeong/bench/pace"
)

// applyVerb makes this program the applicants of the busy coupon. They are a process of their own: beside thousands of
// streams, the scheduler of Go would let them wait, and be measured.
const applyVerb = "apply"

// warmUp is for the connections of the applicants.
const warmUp = time.Second

// applicants apply at a steady rate until stdin ends.
type applicants struct {
	Address string
	First   uint64 // user id
	Rate    float64
}

// applications are what the applicants have seen.
type applications struct {
	Samples []sample
	Failed  int // not accepted
	Failure string
}

// sample is one application.
type sample struct {
	Due  int64         // ns since 1970
	Took time.Duration // from when it was due
}

func apply(stdin io.Reader, stdout io.Writer) error {
	in := json.NewDecoder(stdin)
	var a applicants
	if err := in.Decode(&a); err != nil {
		return fmt.Errorf("%s: %w", applyVerb, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	var mu sync.Mutex
	var all applications
	pace.Steadily(ctx, a.Rate, connections, func() *line.Line { return line.New(a.Address, applying(busyCoupon), time.Now().Add(askWithin)) },
		func(l *line.Line, n int, due time.Time) {
			r, err := l.Ask(a.First + uint64(n))
			took := time.Since(due)
			if err == nil && r.Status != http.StatusAccepted {
				err = fmt.Errorf("status %d", r.Status)
			}
			mu.Lock()
			defer mu.Unlock()
			all.Samples = append(all.Samples, sample{due.UnixNano(), took})
			if err != nil {
				all.Failed++
				all.Failure = cmp.Or(all.Failure, err.Error())
			}
		})
	return json.NewEncoder(stdout).Encode(all)
}

// between has the times of the applications that were due from from to to.
func (a applications) between(from, to time.Time) (w waits) {
	for _, s := range a.Samples {
		if s.Due >= from.UnixNano() && s.Due < to.UnixNano() {
			w = append(w, s.Took)
		}
	}
	return w
}

// during sends applications while do works, and returns the times of those that were due in its interval.
func (p *pod) during(ctx context.Context, do func() (from, to time.Time, err error)) (waits, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, applyVerb)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, os.Stderr, endWithin
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start applicants: %w", err)
	}
	if err := json.NewEncoder(in).Encode(applicants{p.Apply, p.stage.applicant + 1, p.stage.rate}); err != nil {
		return nil, fmt.Errorf("start applicants: %w", err)
	}
	var from, to time.Time
	if err = pause(ctx, warmUp); err == nil {
		from, to, err = do()
	}
	if err != nil {
		cancel()
		_ = cmd.Wait()
		return nil, err
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("applicants: %w", err)
	}
	var all applications
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return nil, fmt.Errorf("applicants: %w", err)
	}
	p.stage.applicant += uint64(len(all.Samples))
	if all.Failed > 0 {
		return nil, fmt.Errorf("%d applications beside the streams are not accepted, the first: %s", all.Failed, all.Failure)
	}
	return all.between(from, to), nil
}
