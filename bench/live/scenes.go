package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/line"
	"github.com/jajeong/jajeong/bench/pace"
	"github.com/jajeong/jajeong/bench/process"
)

// scene is one way to wait for an outcome.
type scene struct {
	key, short, name string
	play             func(s *stage, ctx context.Context, p *pod, r *result) error
}

const (
	pollEvery  = 5 * time.Second
	settleIdle = 3 * time.Second // before the cost of waiting is measured
)

var scenes = []scene{
	{"streams", "Jajeong", "Jajeong", (*stage).stream},
	{"nobody", "nobody", "nobody waits", (*stage).nobody},
	{"polls", "polls", "the same users poll every 5 s", (*stage).poll},
	{"channels", "channels", "plain server, a channel for each user", func(s *stage, ctx context.Context, p *pod, r *result) error {
		return s.plain(ctx, p, r, onChannels, s.streams)
	}},
	{"subscriptions", "subscriptions", "plain server, a subscription for each user", func(s *stage, ctx context.Context, p *pod, r *result) error {
		return s.plain(ctx, p, r, onSubscriptions, min(s.streams, (s.openFiles-spareFiles)/2, mostClients))
	}},
}

// result is what one scene found in one round.
type result struct {
	users                 int
	opened                time.Duration // until all streams had their first event
	server, redis, kernel int64         // bytes of memory for all users; kernel: of the server's ends of the connections
	peak                  int64         // bytes, of the server in the whole scene
	cost                  cost
	telling               telling
	untilLast             time.Duration // from the first commit until the last one was told
	settled               time.Duration // how long settle took
	apply                 applied
	back                  waits // of each stream, from the cut of all
	connecting            waits // of each stream, from when it connected again
	refused               int   // polls that were not answered 200
	again                 int64 // streams that ended before an outcome, other than by the cut
	failures              int64
}

// applied are the times of applications for another coupon.
type applied struct{ quiet, waiting, telling, cut waits }

func (r result) String() string {
	return fmt.Sprintf("%d users: %.1f KiB each, kernel %.1f, Redis %.1f, peak %s; a minute %s of the server, %s of Redis, %s of MySQL, %.0f commands/s; "+
		"winners p99 %s max %s, others p99 %s max %s, all after %s of a settlement of %s, missing %d, wrong %d; back %s; apply p99 quiet %s waiting %s telling %s cut %s; refused %d, again %d, failures %d, opened after %s",
		r.users, r.each(r.server), r.each(r.kernel), r.each(r.redis), process.MiB(r.peak), milli(r.cost.server), milli(r.cost.redis), milli(r.cost.mysql), r.cost.commands,
		milli(r.telling.winners.quantile(0.99)), milli(r.telling.winners.quantile(1)), milli(r.telling.others.quantile(0.99)), milli(r.telling.others.quantile(1)),
		milli(r.untilLast), milli(r.settled), r.telling.missing, r.telling.wrong, milli(r.back.quantile(1)),
		milli(r.apply.quiet.quantile(0.99)), milli(r.apply.waiting.quantile(0.99)), milli(r.apply.telling.quantile(0.99)), milli(r.apply.cut.quantile(0.99)), r.refused, r.again, r.failures, milli(r.opened))
}

// each is the memory of one user in KiB.
func (r result) each(bytes int64) float64 { return float64(bytes) / 1024 / float64(max(1, r.users)) }

// play plays a scene with a pod of its own.
func (s *stage) play(ctx context.Context, sc scene) (r result, err error) {
	p, err := s.startPod(ctx)
	if err != nil {
		return r, err
	}
	defer p.stop()
	if err := sc.play(s, ctx, p, &r); err != nil {
		return r, fmt.Errorf("%w; %s", err, p.LastWarning())
	}
	return r, nil
}

// ready lets all users apply for a new coupon, and measures applying while nobody waits.
func (s *stage) ready(ctx context.Context, p *pod, r *result) (id int, err error) {
	id, r.users = s.nextCoupon(), s.streams
	if err := p.applyAll(ctx, id); err != nil {
		return id, err
	}
	r.apply.quiet, err = p.quietly(ctx)
	return id, err
}

// stream is the scene of the streams.
func (s *stage) stream(ctx context.Context, p *pod, r *result) error {
	id, err := s.ready(ctx, p, r)
	if err != nil {
		return err
	}
	memory, redis, kernel := p.memory(), s.redisMemory(), kernelMemory()
	c, err := s.opened(ctx, p.Live, id, s.streams, r)
	if err != nil {
		return err
	}
	defer c.close()
	if r.cost, err = s.watch(ctx, p.Process.Pid); err != nil {
		return err
	}
	r.server, r.redis, r.kernel = p.memory()-memory, s.redisMemory()-redis, (kernelMemory()-kernel)/2
	if r.apply.waiting, err = p.quietly(ctx); err != nil {
		return err
	}
	r.again = c.again.Load()
	if r.apply.cut, err = p.during(ctx, func() (from, to time.Time, err error) { return s.cutAll(ctx, c, r) }); err != nil {
		return err
	}
	r.apply.telling, err = p.during(ctx, func() (from, to time.Time, err error) {
		return s.tell(ctx, id, c.tolds, nil, r)
	})
	if err != nil {
		return err
	}
	if err := c.await(ctx, "ended by 204", func() int { return int(c.over.Load()) }); err != nil {
		return err
	}
	r.failures = c.failures.Load()
	r.peak, _ = process.PeakMemory(p.Process.Pid)
	return nil
}

// opened opens the streams of a coupon, and waits until each has its first event.
func (s *stage) opened(ctx context.Context, address string, id, users int, r *result) (*crowd, error) {
	began := time.Now()
	c := s.openCrowd(ctx, address, id, users)
	err := c.await(ctx, "have an event", func() int { return int(c.open.Load()) })
	if err != nil {
		c.close()
		return nil, err
	}
	r.opened = time.Since(began)
	return c, pause(ctx, settleIdle)
}

// cutAll cuts every stream, and waits until all have their state again.
func (s *stage) cutAll(ctx context.Context, c *crowd, r *result) (from, to time.Time, err error) {
	from = time.Now()
	c.cut()
	err = c.await(ctx, "are back", func() int { n, _ := c.countSince(from); return n })
	_, to = c.countSince(from)
	for _, v := range c.streams {
		v.mu.Lock()
		r.back, r.connecting = append(r.back, v.since.Sub(from)), append(r.connecting, v.since.Sub(v.asked))
		v.mu.Unlock()
	}
	return from, to, err
}

// tell settles the coupon, and waits until everybody was told. The interval is from the start of settle to the last one.
func (s *stage) tell(ctx context.Context, id int, tolds func() []told, onCommit func(commit), r *result) (from, to time.Time, err error) {
	n, err := s.settleCoupon(ctx, id, onCommit)
	if err != nil {
		return from, to, err
	}
	for until := time.Now().Add(toldWithin); countTold(tolds()) < r.users && time.Now().Before(until); {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return from, to, err
		}
	}
	r.telling = judge(n, tolds())
	r.settled, r.untilLast = n.ended.Sub(n.began), r.telling.last.Sub(n.commits[0].since)
	return n.began, r.telling.last, nil
}

// nobody is the same settlement, and the same pod, while nobody waits for an answer.
func (s *stage) nobody(ctx context.Context, p *pod, r *result) error {
	id, err := s.ready(ctx, p, r)
	if err != nil {
		return err
	}
	if r.cost, err = s.watch(ctx, p.Process.Pid); err != nil {
		return err
	}
	r.apply.telling, err = p.during(ctx, func() (from, to time.Time, err error) {
		n, err := s.settleCoupon(ctx, id, nil)
		r.settled = n.ended.Sub(n.began)
		return n.began, n.ended, err
	})
	r.peak, _ = process.PeakMemory(p.Process.Pid)
	return err
}

// poll is the yardstick whose users ask GET …/me every five seconds, over connections that a gateway shares among them.
func (s *stage) poll(ctx context.Context, p *pod, r *result) error {
	id, err := s.ready(ctx, p, r)
	if err != nil {
		return err
	}
	memory, redis := p.memory(), s.redisMemory()
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	users := make([]atomic.Pointer[told], s.streams)
	var refused atomic.Int64
	order := rand.New(rand.NewPCG(1, 1)).Perm(s.streams) // who applied first does not ask first
	done := make(chan struct{})
	go func() {
		defer close(done)
		pace.Steadily(polling, float64(s.streams)/pollEvery.Seconds(), connections, func() *line.Line {
			return line.New(p.Apply, asking(id), time.Now().Add(10*time.Minute))
		}, func(l *line.Line, n int, _ time.Time) {
			place := order[n%s.streams]
			if users[place].Load() != nil {
				return
			}
			a, err := l.Ask(firstUser + uint64(place))
			if err != nil || a.Status != http.StatusOK {
				refused.Add(1)
				return
			}
			if found := status(a.Body); isOutcome(found) {
				users[place].Store(&told{time.Now(), found})
			}
		})
	}()
	defer func() { cancel(); <-done }()
	if err := pause(ctx, settleIdle); err != nil {
		return err
	}
	if r.cost, err = s.watch(ctx, p.Process.Pid); err != nil {
		return err
	}
	r.server, r.redis = p.memory()-memory, s.redisMemory()-redis
	if r.apply.waiting, err = p.quietly(ctx); err != nil {
		return err
	}
	tolds := func() []told {
		all := make([]told, len(users))
		for i := range users {
			if t := users[i].Load(); t != nil {
				all[i] = *t
			}
		}
		return all
	}
	r.apply.telling, err = p.during(ctx, func() (from, to time.Time, err error) { return s.tell(ctx, id, tolds, nil, r) })
	r.refused = int(refused.Load())
	r.peak, _ = process.PeakMemory(p.Process.Pid)
	return err
}
