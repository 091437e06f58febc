package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/testenv"
)

// server is a running contender with its store.
type server struct {
	address  string
	pid      int
	redis    *testenv.Redis // nil: none
	storePid int            // of Redis or MySQL; 0: none, or not started by the bench
	loads    int
	accepted []span
	stored   func(ctx context.Context) (users map[uint64]bool, accepted int, err error) // nil: it stores nothing
	ends     []func()
	mint     *mint  // nil: requests have X-User-ID
	first    string // token of the first user
}

// stop ends the server first, and then its store.
func (v *server) stop() {
	for _, end := range slices.Backward(v.ends) {
		end()
	}
	v.ends = nil
}

const (
	startWithin = 30 * time.Second
	endWithin   = 10 * time.Second
	askWithin   = 2 * time.Second
	askPause    = 20 * time.Millisecond
)

// started waits until the first application is accepted. After an error everything is stopped.
func (v *server) started(p *testenv.Program, err error) (*server, error) {
	if err == nil {
		v.ends = append(v.ends, func() { _ = p.Stop() })
		v.address, v.pid = p.Apply, p.Process.Pid
		if err = v.answers(); err != nil {
			err = fmt.Errorf("start server: %w; %s", err, p.LastWarning())
		}
	}
	if err != nil {
		v.stop()
		return nil, err
	}
	return v, nil
}

// firstUser is the first in the queue. The other users have longer ids.
const firstUser = "1"

// answers waits until an application is accepted, which needs a loaded catalog.
func (v *server) answers() error {
	client := &http.Client{Timeout: askWithin}
	defer client.CloseIdleConnections()
	var last error
	for until := time.Now().Add(startWithin); time.Now().Before(until); time.Sleep(askPause) {
		request, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/v1/coupons/%d/applications", v.address, couponID), nil)
		if err != nil {
			return err
		}
		request.Header.Set("X-User-ID", firstUser)
		if v.mint != nil {
			request.Header.Set("Authorization", "Bearer "+v.first)
		}
		response, err := client.Do(request)
		if last = err; err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusAccepted {
			return nil
		}
		last = errors.New(response.Status)
	}
	return fmt.Errorf("not accepted after %s: %w", startWithin, last)
}

// sample has the outcome of a load and its resources.
type sample struct {
	outcome
	peakBytes                int64         // of the server since its start
	server, store, generator time.Duration // CPU time per answer; store is Redis or MySQL
	others                   float64       // share of the cores that other processes used
}

// take sends a load.
func (v *server) take(ctx context.Context, l load) (r sample, err error) {
	v.loads++
	if v.loads > maxLoads {
		return r, fmt.Errorf("a server accepts %d loads at most", maxLoads)
	}
	l.Address, l.FirstUser, l.Tokens = v.address, uint64(v.loads)*usersPerLoad, v.mint
	began, busy, server, store := time.Now(), process.Busy(), process.CPUTime(v.pid), process.CPUTime(v.storePid)
	if r.outcome, err = send(ctx, l); err != nil {
		return r, err
	}
	took := time.Since(began)
	busy, server, store = process.Busy()-busy, process.CPUTime(v.pid)-server, process.CPUTime(v.storePid)-store
	r.others = max(0, float64(busy-server-store-r.cpu)/float64(took)/float64(runtime.NumCPU()))
	answers := time.Duration(r.Answered)
	r.server, r.store, r.generator = server/answers, store/answers, r.cpu/answers
	r.peakBytes, _ = process.PeakMemory(v.pid)
	v.accepted = append(v.accepted, r.Accepted...)
	return r, nil
}

// verify returns an error unless the store has every accepted user.
func (v *server) verify(ctx context.Context) (accepted int, err error) {
	for _, s := range v.accepted {
		accepted += int(s.Users)
	}
	if v.stored == nil {
		return accepted, nil
	}
	users, counted, err := v.stored(ctx)
	if err != nil {
		return accepted, err
	}
	for _, s := range v.accepted {
		for user := s.First; user < s.First+s.Users; user++ {
			if !users[user] {
				return accepted, fmt.Errorf("user %d was accepted and is lost", user)
			}
		}
	}
	if len(users) != counted || accepted > counted {
		return accepted, fmt.Errorf("%d applications were accepted, %d are counted and %d are stored", accepted, counted, len(users))
	}
	return accepted, nil
}
