package handover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) {
	// A pool that was closed while its Redis was away tries once more before it notices.
	goleak.VerifyTestMain(testenv.WithServers{M: m},
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

var errAway = errors.New("redis is away")

// fake is the Redis server of one coupon, by the rules of the scripts look and hand_over.
type fake struct {
	mu       sync.Mutex
	away     bool
	silentOn int    // HandOver fails from this call on; 0: never
	calls    int    // of HandOver
	asked    int    // users whom HandOver was asked about
	during   func() // called within HandOver, before it answers; nil: nothing

	state
}

// state is what replicas get.
type state struct {
	epoch    string
	restores int64
	queue    map[coupon.UserID]coupon.Arrival
	marked   map[coupon.UserID]coupon.Arrival
	returned map[coupon.UserID]coupon.Arrival
}

func newState(epoch string) state {
	return state{epoch: epoch, queue: map[coupon.UserID]coupon.Arrival{},
		marked: map[coupon.UserID]coupon.Arrival{}, returned: map[coupon.UserID]coupon.Arrival{}}
}

func (s state) copy() state {
	s.queue, s.marked, s.returned = maps.Clone(s.queue), maps.Clone(s.marked), maps.Clone(s.returned)
	return s
}

func (s state) stands(a coupon.Answer) bool {
	at, ok := s.queue[a.User]
	return ok && at <= a.Arrival
}

func (f *fake) Looks(_ context.Context,
	known map[coupon.CouponID]coupon.Known) (map[coupon.CouponID]coupon.Look, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errAway
	}
	looks := map[coupon.CouponID]coupon.Look{}
	for id := range known {
		looks[id] = coupon.Look{Line: coupon.Line{Epoch: f.epoch, Restores: f.restores,
			Returned: int64(len(f.returned))}}
	}
	return looks, nil
}

func (f *fake) HandOver(_ context.Context, _ coupon.CouponID, epoch string, marks bool,
	answers []coupon.Answer) (string, []int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.away || f.silentOn > 0 && f.calls >= f.silentOn {
		return "", nil, errAway
	}
	if f.during != nil {
		f.mu.Unlock()
		f.during()
		f.mu.Lock()
	}
	f.asked += len(answers)
	if epoch != f.epoch {
		return f.epoch, nil, nil
	}
	var handed []int
	for i, a := range answers {
		if f.stands(a) || marks && f.marked[a.User] > 0 {
			continue
		}
		handed = append(handed, i)
		if at, ok := f.returned[a.User]; !ok || a.Arrival < at {
			f.returned[a.User] = a.Arrival
		}
	}
	return f.epoch, handed, nil
}

const (
	id   coupon.CouponID = 42
	keep                 = 10 * time.Second
)

// pod is a process with its memory.
type pod struct {
	*Memory
	t     require.TestingT
	redis *fake
	clock time.Time
}

func newPod(t require.TestingT, redis *fake) *pod {
	p := &pod{t: t, redis: redis, clock: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)}
	p.Memory = New(redis, keep, func() time.Time { return p.clock }, zap.NewNop())
	return p
}

// onePod is a pod that has told users, and the server of its coupon.
func onePod(t require.TestingT, users ...coupon.Answer) (*fake, *pod) {
	r := &fake{state: newState("a:1")}
	p := newPod(t, r)
	if len(users) > 0 {
		p.apply(users...)
	}
	return r, p
}

// told records a reply of the server, as the store does, and waits for a comparison.
func (p *pod) told(epoch string, answers ...coupon.Answer) {
	p.Answered(id, candidates.Reply{Epoch: epoch, Restores: p.redis.restores, Answers: answers})
	p.work.Wait()
}

// apply lets users apply, who stand in the queue at their arrivals afterwards.
func (p *pod) apply(answers ...coupon.Answer) {
	for _, a := range answers {
		p.redis.queue[a.User] = a.Arrival
	}
	p.told(p.redis.epoch, answers...)
}

func (p *pod) looks() {
	p.look(context.Background())
	p.work.Wait()
}

// reads tells the memory how far the journal came.
func (p *pod) reads(epoch string, upTo coupon.Arrival) {
	p.Journalled(id, promise.Mark{Epoch: epoch, UpTo: upTo})
}

// mark reads a mark twice, so long after each other that it counts.
func (p *pod) mark(epoch string, upTo coupon.Arrival) {
	p.reads(epoch, upTo)
	p.clock = p.clock.Add(keep)
	p.reads(epoch, upTo)
}

// waits lets time pass with an empty `returned`.
func (p *pod) waits() {
	p.looks()
	p.clock = p.clock.Add(keep)
	p.looks()
}

// remembers demands that exactly these answers are in memory, once each.
func (p *pod) remembers(answers ...coupon.Answer) {
	found := []coupon.Answer{}
	if l := p.lines[id]; l != nil {
		for _, one := range l.told {
			if one.place != done {
				found = append(found, one.Answer)
			}
		}
		require.Len(p.t, l.known, len(l.told))
		require.EqualValues(p.t, len(l.told), p.remembered.Load())
	}
	require.ElementsMatch(p.t, answers, found)
}

func (p *pod) line() *line {
	require.Contains(p.t, p.lines, id)
	return p.lines[id]
}

// failover makes another server of the same content, which lacks users, the primary.
func (f *fake) failover(epoch string, lost ...coupon.UserID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = f.copy()
	f.epoch = epoch
	for _, user := range lost {
		delete(f.queue, user)
	}
}

// restore does what the journal's restore does.
func (f *fake) restore() {
	f.takes()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restores++
}

// takes is a restore that only takes whom pods have handed over.
func (f *fake) takes() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for user, at := range f.returned {
		if now, ok := f.queue[user]; !ok || now > at {
			f.queue[user] = at
		}
	}
	f.returned = map[coupon.UserID]coupon.Arrival{}
}

func answer(user, arrival int64) coupon.Answer {
	return coupon.Answer{User: coupon.UserID(user), Arrival: coupon.Arrival(arrival)}
}

func answersFrom(first, n int64) (all []coupon.Answer) {
	for i := range n {
		all = append(all, answer(first+i, first+i))
	}
	return all
}

func epochOf(n int) string { return fmt.Sprintf("run%d:%d", n, n) }
