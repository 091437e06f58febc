package live

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/applicants"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/load"
	"github.com/jajeong/jajeong/internal/testenv"
)

// scene is one way to wait for an outcome.
type scene struct {
	key, name string
	play      func(m *measurement, ctx context.Context, p *testenv.Program, r *result) error
}

const (
	pollEvery   = 5 * time.Second
	connections = 64
	warmUp      = time.Second
	calmDown    = time.Second // before the cost of waiting is measured
	lineLives   = 10 * time.Minute
)

var scenes = []scene{
	{"streams", "Jajeong", (*measurement).stream},
	{"nobody", "nobody waits", (*measurement).nobody},
	{"polls", "the same users poll every 5 s", (*measurement).poll},
	{"channels", "plain server, a channel for each user",
		func(m *measurement, ctx context.Context, p *testenv.Program, r *result) error {
			return m.plain(ctx, p, r, onChannels, *m.streams)
		}},
	{"subscriptions", "plain server, a subscription for each user",
		func(m *measurement, ctx context.Context, p *testenv.Program, r *result) error {
			return m.plain(ctx, p, r, onSubscriptions, min(*m.streams, (m.openFiles-spareFiles)/2, mostClients))
		}},
}

// result is what one scene found in one round.
type result struct {
	users                 int
	server, redis, kernel int64      // bytes of memory for all users; kernel: of the server's ends of the connections
	peak                  int64      // bytes, of the server in the whole scene
	cost                  stage.Used // while nothing happens
	telling               toldAll
	untilLast             time.Duration // from the first commit until the last one was told
	settled               time.Duration // how long settle took
	apply                 applied
	back                  load.Waits // of each stream, from the cut of all
	connecting            load.Waits // of each stream, from when it connected again
	refused               int        // polls that were not answered 200
}

// applied are the 99th percentiles of applications for another coupon.
type applied struct{ quiet, waiting, telling, cut time.Duration }

// play plays a scene with a pod and a coupon of its own.
func (m *measurement) play(ctx context.Context, sc scene) (r result, err error) {
	const podConnections = 256 // more than the bench opens beside the streams
	args := []string{fmt.Sprint("--max-connections=", podConnections)}
	if *m.streams > wantedStreams {
		args = append(args, fmt.Sprint("--max-streams=", *m.streams))
	}
	p, err := m.StartPod(ctx, "", args...)
	if err != nil {
		return r, err
	}
	defer func() { _ = p.Stop() }()
	m.coupons++
	r.users = *m.streams
	busy := applicants.Load{Address: p.Apply, Coupon: busyCoupon, First: m.applicant + 1}
	m.applicant++
	if err = busy.AwaitOpen(ctx); err == nil {
		err = m.Fill(ctx, m.coupons, firstUser, *m.streams, time.Minute)
	}
	if err == nil {
		r.apply.quiet, err = m.quietly(ctx, p)
	}
	if err == nil {
		err = sc.play(m, ctx, p, &r)
	}
	if err == nil {
		r.peak = max(r.peak, peakOf(p))
	} else {
		err = fmt.Errorf("%w; %s", err, p.LastWarning())
	}
	return r, err
}

func peakOf(p *testenv.Program) int64 {
	peak, _ := stage.PeakMemory(p.Process.Pid)
	return peak
}

// during sends applications while do works, and returns the 99th percentile of those that were due meanwhile.
func (m *measurement) during(ctx context.Context, p *testenv.Program, do func() error) (time.Duration, error) {
	l := applicants.Load{Address: p.Apply, Coupon: busyCoupon, Connections: connections, Rate: float64(*m.rate),
		First: m.applicant}
	o, err := l.During(ctx, m.Stage, warmUp, do)
	m.applicant += uint64(o.Answered + o.Failed + 1)
	if err == nil {
		err = o.Fault()
	}
	return o.FromDue.P99, err
}

// quietly measures applying for a while.
func (m *measurement) quietly(ctx context.Context, p *testenv.Program) (time.Duration, error) {
	return m.during(ctx, p, func() error { return stage.Wait(ctx, *m.load) })
}

// watch measures the cost of waiting.
func (m *measurement) watch(ctx context.Context, server int) (stage.Used, error) {
	return m.Use(ctx, []int{server}, func() error { return stage.Wait(ctx, *m.idle) })
}

// memory is that of server, Redis and kernel.
func (m *measurement) memory(server int) (all [3]int64) {
	all[0], _ = stage.ResidentMemory(server)
	all[1], _ = stage.ResidentMemory(m.Redis.Pid())
	all[2] = kernelMemory() / 2 // both ends
	return all
}

// kernelMemory is the memory of the kernel's own objects and of the buffers of TCP, in bytes; 0 if it is unknown.
// Other programs change it, too.
func kernelMemory() int64 {
	info, _ := os.ReadFile("/proc/meminfo")
	sockets, _ := os.ReadFile("/proc/net/sockstat")
	var slabKiB, pages int64
	_, slab, _ := strings.Cut(string(info), "Slab:")
	_, tcp, _ := strings.Cut(string(sockets), "TCP:")
	_, tcp, _ = strings.Cut(tcp, " mem ")
	_, noSlab := fmt.Sscan(slab, &slabKiB)
	if _, err := fmt.Sscan(tcp, &pages); err != nil || noSlab != nil {
		return 0
	}
	return slabKiB*1024 + pages*int64(os.Getpagesize())
}

// stream is the scene of the streams of a pod.
func (m *measurement) stream(ctx context.Context, p *testenv.Program, r *result) error {
	return m.onStreams(ctx, p, p, p.Live, r, nil, func(c *crowd) error {
		return c.await(ctx, "ended by 204", func() int { return int(c.over.Load()) })
	})
}

// plain is a scene of the plain server. The pod only takes the applications.
func (m *measurement) plain(ctx context.Context, p *testenv.Program, r *result, kind string, users int) error {
	server, err := m.StartServer(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }()
	r.users = users
	publish, end := m.publisher(ctx, m.coupons)
	defer func() { _ = end() }()
	err = m.onStreams(ctx, p, server, server.Apply, r, publish, func(*crowd) error { return end() })
	if r.peak = peakOf(server); kind == onSubscriptions {
		r.kernel = 0 // each user has two connections
	}
	return err
}

// onStreams opens the streams of the users, lets them wait, cuts them, and tells them.
func (m *measurement) onStreams(ctx context.Context, p, server *testenv.Program, address string, r *result,
	onCommit func(commit), ended func(*crowd) error) (err error) {
	before := m.memory(server.Process.Pid)
	c := openCrowd(ctx, address, m.coupons, r.users)
	defer c.close()
	if err := c.await(ctx, "have an event", func() int { return int(c.open.Load()) }); err != nil {
		return err
	}
	if err := stage.Wait(ctx, calmDown); err != nil {
		return err
	}
	if r.cost, err = m.watch(ctx, server.Process.Pid); err != nil {
		return err
	}
	after := m.memory(server.Process.Pid)
	r.server, r.redis, r.kernel = after[0]-before[0], after[1]-before[1], after[2]-before[2]
	if r.apply.waiting, err = m.quietly(ctx, p); err != nil {
		return err
	}
	if r.apply.cut, err = m.during(ctx, p, func() error { return cutAll(ctx, c, r) }); err != nil {
		return err
	}
	if r.apply.telling, err = m.during(ctx, p, func() error { return m.tell(ctx, c.tolds, onCommit, r) }); err != nil {
		return err
	}
	return ended(c)
}

// cutAll cuts every stream, and waits until all have their state again.
func cutAll(ctx context.Context, c *crowd, r *result) error {
	from := time.Now()
	c.cut()
	err := c.await(ctx, "are back", func() int { return c.countSince(from) })
	c.each(func(v *stream) {
		r.back, r.connecting = append(r.back, v.since.Sub(from)), append(r.connecting, v.since.Sub(v.asked))
	})
	return err
}

// tell settles the coupon, and waits until everybody was told, or too late.
func (m *measurement) tell(ctx context.Context, tolds func() []told, onCommit func(commit), r *result) error {
	n, err := m.settleCoupon(ctx, m.coupons, onCommit)
	if err != nil {
		return err
	}
	_ = stage.Until(ctx, "tell all", toldWithin, func() (bool, error) { // judge counts who was not told
		return countTold(tolds()) >= r.users, nil
	})
	r.telling = judge(n, tolds())
	r.settled, r.untilLast = n.ended.Sub(n.began), r.telling.last.Sub(n.commits[0].since)
	return ctx.Err()
}

// nobody measures the same settlement and the same pod without streams.
func (m *measurement) nobody(ctx context.Context, p *testenv.Program, r *result) (err error) {
	if r.cost, err = m.watch(ctx, p.Process.Pid); err != nil {
		return err
	}
	r.apply.telling, err = m.during(ctx, p, func() error {
		n, err := m.settleCoupon(ctx, m.coupons, nil)
		r.settled = n.ended.Sub(n.began)
		return err
	})
	return err
}

// poll is the yardstick whose users ask GET …/me every five seconds, over connections that a gateway shares among them.
func (m *measurement) poll(ctx context.Context, p *testenv.Program, r *result) (err error) {
	before := m.memory(p.Process.Pid)
	polling, cancel := context.WithCancel(ctx)
	users := make([]atomic.Pointer[told], r.users)
	var refused atomic.Int64
	order := rand.New(rand.NewPCG(1, 1)).Perm(r.users) // who applied first does not ask first
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		rate := float64(r.users) / pollEvery.Seconds()
		load.Run(polling, load.Every(rate), connections, func(_ int, requests iter.Seq[load.Request]) {
			l := load.NewLine(p.Apply, fmt.Sprintf("GET /v1/coupons/%d/applications/me", m.coupons),
				time.Now().Add(lineLives))
			defer l.Close()
			for request := range requests {
				place := order[request.N%len(order)]
				if users[place].Load() != nil {
					continue
				}
				a, err := l.Ask(firstUser + uint64(place))
				if found := status(a.Body); err != nil || a.Status != http.StatusOK {
					refused.Add(1)
				} else if isOutcome(found) {
					users[place].Store(&told{time.Now(), found})
				}
			}
		})
	}()
	if err := stage.Wait(ctx, calmDown); err != nil {
		return err
	}
	if r.cost, err = m.watch(ctx, p.Process.Pid); err != nil {
		return err
	}
	after := m.memory(p.Process.Pid)
	r.server, r.redis = after[0]-before[0], after[1]-before[1]
	if r.apply.waiting, err = m.quietly(ctx, p); err != nil {
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
	r.apply.telling, err = m.during(ctx, p, func() error { return m.tell(ctx, tolds, nil, r) })
	r.refused = int(refused.Load())
	return err
}
