package serve

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
)

const interval = 100 * time.Millisecond

// servers are MySQL, Redis and the settlement of one deployment. Each test has the clock of its synctest bubble.
type servers struct {
	mu       sync.Mutex
	coupons  []Coupon
	lines    map[coupon.CouponID]int // number of applications
	listing  error                   // of MySQL
	looking  error                   // of Redis
	hanging  string                  // shard that does not answer
	replies  time.Duration           // how long the reply to a look takes
	looks    []look
	runs     []run
	inFlight map[coupon.CouponID]int
	most     int // runs at the same time
	shardOf  func(coupon.CouponID) string
	settle   func(ctx context.Context, couponID coupon.CouponID) settle.Issuance // nil: everybody in the line is issued
}

type look struct {
	at      time.Time
	coupons []coupon.CouponID
}

type run struct {
	at     time.Time
	coupon coupon.CouponID
}

func newServers(coupons ...Coupon) *servers {
	return &servers{coupons: coupons, lines: map[coupon.CouponID]int{}, inFlight: map[coupon.CouponID]int{},
		shardOf: func(coupon.CouponID) string { return "" }}
}

func (s *servers) Coupons(_ context.Context, now time.Time, ahead time.Duration, limit int) ([]Coupon, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := slices.DeleteFunc(slices.Clone(s.coupons), func(c Coupon) bool { return !c.Opens.Before(now.Add(ahead)) })
	return listed[:min(limit, len(listed))], s.listing
}

func (s *servers) Now(context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now(), s.looking
}

func (s *servers) Shard(couponID coupon.CouponID) string { return s.shardOf(couponID) }

func (s *servers) Waiting(ctx context.Context, coupons []coupon.CouponID) (waiting []coupon.CouponID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, look{time.Now(), slices.Clone(coupons)})
	if s.hanging != "" && s.shardOf(coupons[0]) == s.hanging {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	for _, id := range coupons {
		if s.lines[id] > 0 {
			waiting = append(waiting, id)
		}
	}
	if s.looking != nil {
		return nil, s.looking
	}
	if s.replies > 0 {
		s.mu.Unlock()
		<-time.After(s.replies)
		s.mu.Lock()
	}
	return waiting, nil
}

func (s *servers) QueueStats(_ context.Context, coupons []coupon.CouponID) map[coupon.CouponID]candidates.QueueStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[coupon.CouponID]candidates.QueueStats{}
	for _, id := range coupons {
		all[id] = candidates.QueueStats{Waiting: int64(s.lines[id]), Oldest: time.Now().Add(-3 * time.Second)}
	}
	return all
}

func (s *servers) IssueNow(ctx context.Context, couponID coupon.CouponID) settle.Issuance {
	s.mu.Lock()
	s.runs = append(s.runs, run{time.Now(), couponID})
	s.inFlight[couponID]++
	running := 0
	for _, n := range s.inFlight {
		running += n
	}
	s.most = max(s.most, running)
	issue := s.settle
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight[couponID]--
	}()
	if issue != nil {
		return issue(ctx, couponID)
	}
	return s.issueAll(couponID)
}

// issueAll issues everybody in the line.
func (s *servers) issueAll(couponID coupon.CouponID) settle.Issuance {
	s.mu.Lock()
	defer s.mu.Unlock()
	issued := result(coupon.Unchanged)
	if n := s.lines[couponID]; n > 0 {
		issued = result(coupon.Settled)
		issued.Issued, issued.Delays = n, make([]time.Duration, n)
		s.lines[couponID] = 0
	}
	return issued
}

func result(status coupon.ResultStatus) (r settle.Issuance) {
	r.Status = status
	return r
}

// change changes the fields of the servers.
func (s *servers) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *servers) apply(couponID coupon.CouponID) { s.change(func() { s.lines[couponID]++ }) }

func (s *servers) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for n := range maps.Values(s.lines) {
		sum += n
	}
	return sum
}

// lookedSince returns the looks since the last call of forget.
func (s *servers) lookedSince() []look {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.looks)
}

// ran returns the runs of these coupons, or of all, since the last call of forget.
func (s *servers) ran(coupons ...coupon.CouponID) []run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.runs), func(r run) bool {
		return len(coupons) > 0 && !slices.Contains(coupons, r.coupon)
	})
}

func (s *servers) forget() { s.change(func() { s.looks, s.runs, s.most = nil, nil, 0 }) }

// open is a coupon that has been open for an hour and stays so for another.
func open(couponID coupon.CouponID) Coupon {
	return Coupon{ID: couponID, Opens: time.Now().Add(-time.Hour), Closes: time.Now().Add(time.Hour)}
}

// replica is one process with the task issue.
type replica struct {
	*Issue
	logs  *observer.ObservedLogs
	stop  context.CancelFunc
	ended chan struct{}
}

// start starts a replica, which ends at the latest with the test.
func (s *servers) start(t *testing.T, parallel int) *replica {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	task, err := New(Config{Coupons: s, Store: s, Issuer: s, Locks: mysqltx.NewBrief(nil), Interval: interval,
		Parallel: parallel, Now: time.Now,
		Logger: zap.New(core)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r := &replica{task, logs, stop, make(chan struct{})}
	go func() {
		defer close(r.ended)
		Runner{Now: time.Now, Logger: zap.New(core)}.Run(ctx, Task{Name: "issue", Run: task.Run})
	}()
	t.Cleanup(r.end)
	synctest.Wait()
	return r
}

func (r *replica) end() {
	r.stop()
	<-r.ended
}

// inBubble runs a test beside others, with a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

// pass lets the time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
