package candidates

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// Many clients apply through several pods, repeat, cancel, look, count, settle and switch servers. Proxies drop
// requests and replies. In half of the histories the clock of Redis is frozen and jumps, in half of them batches are
// tiny, in half of them lines are limited. Each coupon must behave as if all operations came one after the other.
//
// JAJEONG_SEED=N repeats the operations of the history whose name is N, first, but not their interleaving.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()
	first, histories := testenv.Seed(t), 0
	total := map[string]int{}
	missing := func() []string {
		return slices.DeleteFunc([]string{
			"ACCEPTED", "DUPLICATE", "ALREADY_ISSUED", "LINE_FULL", "PENDING", "NONE", "ISSUED", "lost",
			"lost and queued", "read", "settled", "counted", "switched", "batched", "in overlapping calls",
		}, func(what string) bool { return total[what] > 0 })
	}
	for ctx := testenv.Patient(t); !t.Failed() &&
		(histories < testenv.Rounds(10, 3_000) || len(missing()) > 0); histories++ {
		require.NoError(t, ctx.Err(), "no history had %v: %v", missing(), total)
		i, seed := histories, first+uint64(histories)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newScenario(t, server, fmt.Sprint("history", i, ":"), seed)
			s.run()
			s.end(t)
			requireLinearizable(t, s.history)
			for what, n := range s.seen() {
				total[what] += n
			}
		})
	}
	t.Logf("%d histories: %v", histories, total)
	t.Logf("passed: %d histories of %d operations", histories, total["operations"])
}

// scenario is a running history.
type scenario struct {
	seed         uint64
	server       *redis.Client
	pods         []*pod
	coupons      []*fixture
	users        int // of each coupon, from 1
	clients      int
	acts         int  // of each client
	jumps        bool // the clock of Redis
	smallBatches bool // tiny batches and few waiting applications
	lineLimit    int  // of each coupon; 0: none
	clock        atomic.Int64
	delayed      delayed

	mu      sync.Mutex
	history []porcupine.Operation
	unsent  int
}

// overlaps counts concurrent calls of the apply script for one coupon.
type overlaps struct {
	mu          sync.Mutex
	underWay    map[any]int // by the key of the queue
	overlapping int         // calls that began during another one
}

func (c *overlaps) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *overlaps) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *overlaps) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if args[0] != "evalsha" || args[1] != applyScript.sha {
			return next(ctx, cmd)
		}
		queue := args[3]
		c.mu.Lock()
		if c.underWay[queue]++; c.underWay[queue] > 1 {
			c.overlapping++
		}
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.underWay[queue]--
		}()
		return next(ctx, cmd)
	}
}

// jumpsTo are the instants of a jumping clock: few, since Redis keeps the frozen scripts of each.
var jumpsTo = []time.Time{noon.Add(-time.Second), noon, noon.Add(time.Microsecond), noon.Add(20 * time.Microsecond)}

func newScenario(t *testing.T, server, prefix string, seed uint64) *scenario {
	chance := rand.New(rand.NewPCG(seed, 0))
	s := &scenario{seed: seed, server: newClient(t, server), users: 5 + chance.IntN(60), clients: 4 + chance.IntN(29),
		acts:  4 + chance.IntN(9),
		jumps: chance.IntN(2) == 0, smallBatches: chance.IntN(2) == 0}
	if chance.IntN(2) == 0 {
		s.lineLimit = 1 + chance.IntN(s.users)
	}
	for id := range 1 + coupon.CouponID(chance.IntN(3)) {
		c := couponOn(t, newClient(t, server), prefix, id+1) // each with its own hook
		if s.jumps {
			c.open(t)
		} else {
			c.openNow(t)
		}
		c.set(t, "line_limit", s.lineLimit)
		s.coupons = append(s.coupons, c)
	}
	for i := range 2 + chance.IntN(3) {
		addr := server
		if i > 0 { // the first pod has no proxy
			addr = faultproxy.New(t, s.faults(rand.New(rand.NewPCG(seed, chance.Uint64())), chance.Float64()*0.4),
				addr).Addr
		}
		settings := connect.RedisSettings{RedisAddrs: []string{addr}}
		rdb, err := settings.Open()
		require.NoError(t, err)
		t.Cleanup(func() { rdb.Close() })
		on, store, metrics := &wire{}, newStore(t, rdb, prefix), prometheus.NewRegistry()
		calls := &overlaps{underWay: map[any]int{}}
		rdb.AddHook(calls) // before the hook that replaces the script by a frozen one
		rdb.AddHook(on)
		if s.jumps {
			on.clock.Store(noon.UnixMicro())
		}
		b := batch.New(store.ApplyAll, metrics, time.Now)
		if s.smallBatches { // several concurrent calls, batches that overtake one another, and a full queue
			b.Limits = batch.Limits{Users: 2, Calls: 3, Waiting: 10}
		}
		s.pods = append(s.pods, &pod{store, b, metrics, on, calls})
	}
	return s
}

// faults breaks a share of the calls of scripts.
func (s *scenario) faults(chance *rand.Rand, share float64) faultproxy.Rule {
	return func(turn faultproxy.Turn) faultproxy.Action {
		if !bytes.Contains(turn.Request, []byte("\r\neval")) || chance.Float64() >= share {
			return faultproxy.Pass()
		}
		switch chance.IntN(4) {
		case 0:
			return faultproxy.DropRequest(nil)
		case 1:
			return faultproxy.DelayRequest(s.delayed.keep())
		default:
			return faultproxy.DropReply(nil)
		}
	}
}

// delayed are delayed requests whose clients no longer wait.
type delayed struct {
	mu   sync.Mutex
	gone []chan struct{}
}

func (l *delayed) keep() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := make(chan struct{})
	l.gone = append(l.gone, until)
	return until
}

// releaseOldest passes on the oldest request.
func (l *delayed) releaseOldest() (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gone) == 0 {
		return false
	}
	close(l.gone[0])
	l.gone = l.gone[1:]
	return true
}

// run starts all clients together and waits for them.
func (s *scenario) run() {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range s.clients {
		c := &client{scenario: s, id: i, chance: rand.New(rand.NewPCG(s.seed, uint64(i)+1))}
		all.Go(func() {
			<-begin
			for range s.acts {
				c.act()
			}
		})
	}
	close(begin)
	all.Wait()
	for s.delayed.releaseOldest() {
	}
}

// end adds a read of the final queue as the last operation. It is one transaction, since delayed requests may still
// releaseOldest. The counters must agree with it.
func (s *scenario) end(t *testing.T) {
	for _, c := range s.coupons {
		call := s.clock.Add(1)
		var line *redis.ZSliceCmd
		var issued *redis.StringSliceCmd
		var state *redis.SliceCmd
		_, err := s.server.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			line = p.ZRangeWithScores(t.Context(), c.queue, 0, -1)
			issued = p.ZRange(t.Context(), c.issued, 0, -1)
			state = p.HMGet(t.Context(), c.state, "accepted", "last")
			return nil
		})
		require.NoError(t, err)
		var entries []queueEntry
		for _, z := range line.Val() {
			entries = append(entries, queueEntry{coupon.ParseUserID(z.Member.(string)), coupon.Arrival(z.Score)})
		}
		s.history = append(s.history, porcupine.Operation{
			ClientId: s.clients, Input: input{coupon: c.id, act: toRead}, Call: call, Output: output{entries: entries},
			Return: s.clock.Add(1),
		})

		settled, last := map[string]bool{}, coupon.Arrival(0)
		for _, op := range s.history {
			in, out := op.Input.(input), op.Output.(output)
			if in.coupon != c.id {
				continue
			}
			for _, at := range slices.Concat(in.entries, out.entries) {
				last = max(last, at.arrival)
			}
			for _, at := range in.entries {
				settled[at.user.Member()] = true
			}
		}
		for _, user := range issued.Val() {
			assert.Contains(t, settled, user)
		}
		assert.Equal(t, []any{strconv.Itoa(len(entries) + len(issued.Val())), decimal(last)}, state.Val(),
			"accepted and last of coupon %d", c.id)
	}
}

// seen counts the operations of the history by kind.
func (s *scenario) seen() map[string]int {
	n := map[string]int{"operations": len(s.history), "not sent": s.unsent}
	for _, op := range s.history {
		switch in, out := op.Input.(input), op.Output.(output); {
		case out.lost:
			n["lost"]++
		case in.act == toRead:
			n["read"]++
		case in.act == toSettle:
			n["settled"]++
		case in.act == toCount:
			n["counted"]++
		case in.act == toSwitch:
			n["switched"]++
		default:
			n[out.code]++
		}
	}
	for _, op := range resolveLost(s.history) {
		if op.Output.(output).lost && op.Input.(input).act == toApply {
			n["lost and queued"]++
		}
	}
	for _, p := range s.pods {
		n["in overlapping calls"] += p.calls.overlapping
		families, err := p.metrics.Gather()
		if err != nil {
			panic(err)
		}
		for _, f := range families {
			if f.GetName() == "jajeong_apply_batch_size" {
				h := f.GetMetric()[0].GetHistogram()
				n["batched"] += int(h.GetSampleSum()) - int(h.GetSampleCount())
			}
		}
	}
	return n
}
