package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/testenv"
)

// server is a contender that runs, and what it keeps its users in.
type server struct {
	address  string
	admin    string // empty: it has none
	pid      int
	redis    *testenv.Redis // nil: it has none
	storePid int            // of Redis or MySQL; 0: none that was started here
	loads    int
	accepted []span
	stored   func(ctx context.Context) (users map[uint64]bool, accepted int, err error) // nil: it keeps nobody
	ends     []func()
}

// stop ends the server first, then what it stands on.
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

// started waits until the first application is answered. When it is not, nothing is left running.
func (v *server) started(p *program) (*server, error) {
	v.ends = append(v.ends, p.stop)
	err := p.err
	if err == nil {
		select {
		case at := <-p.told:
			v.address, v.admin = at.Apply, at.Admin
			v.pid = p.cmd.Process.Pid
			err = v.answers()
		case <-p.gone:
			err = errors.New("it ended at once")
		case <-time.After(startWithin):
			err = fmt.Errorf("it does not listen after %s", startWithin)
		}
	}
	if err != nil {
		v.stop()
		return nil, fmt.Errorf("start server: %w: %s", err, p.last.String())
	}
	return v, nil
}

// firstUser opens the line; the others have longer ids.
const firstUser = "1"

// answers waits for the first good answer: until the catalog has been read there is none.
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
	return fmt.Errorf("no good answer after %s: %w", startWithin, last)
}

// sample is a load and what the server used for it.
type sample struct {
	outcome
	peakBytes                int64         // of the server, since it was started
	server, store, generator time.Duration // of the cores for one answer; store is Redis or MySQL
	others                   float64       // the share of the cores that everything else took
}

// take sends a load.
func (v *server) take(ctx context.Context, l load) (r sample, err error) {
	v.loads++
	if v.loads > maxLoads {
		return r, fmt.Errorf("a server takes %d loads at most", maxLoads)
	}
	l.Address, l.FirstUser = v.address, uint64(v.loads)*usersPerLoad
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

// profile writes where the server spends its time under a load, if it can tell.
func (v *server) profile(ctx context.Context, path string, l load) error {
	if path == "" || v.admin == "" {
		return nil
	}
	time.Sleep(l.Warmup)
	seconds := max(1, int(l.Length.Seconds()))
	ctx, cancel := context.WithTimeout(ctx, l.Length+grace)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", v.admin, seconds), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}

// verify is an error unless everybody who was told so stands where the server keeps them.
func (v *server) verify(ctx context.Context) (told int, err error) {
	for _, s := range v.accepted {
		told += int(s.Users)
	}
	if v.stored == nil {
		return told, nil
	}
	users, counted, err := v.stored(ctx)
	if err != nil {
		return told, err
	}
	for _, s := range v.accepted {
		for user := s.First; user < s.First+s.Users; user++ {
			if !users[user] {
				return told, fmt.Errorf("user %d was accepted and is lost", user)
			}
		}
	}
	if len(users) != counted || told > counted {
		return told, fmt.Errorf("%d were told that they are accepted, %d are counted and %d are kept", told, counted, len(users))
	}
	return told, nil
}
