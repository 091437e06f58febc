package candidates

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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

// Many clients apply through several pods, repeat, cancel, look and settle. Proxies drop requests and replies. In half of the
// histories the clock of Redis is frozen and jumps, in half of them batches are tiny. Each coupon must behave as if all
// operations came one after the other.
//
// HISTORY_SEED repeats the operations of a history, but not their interleaving.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()
	seeds := make([]uint64, testenv.Rounds(25, 3_000))
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if given := os.Getenv("HISTORY_SEED"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
		seeds = []uint64{seed}
	}
	total := map[string]int{}
	for i, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newStory(t, server, fmt.Sprint("history", i, ":"), seed)
			s.tell()
			s.end(t)
			requireLinearizable(t, s.history)
			for what, n := range s.seen() {
				total[what] += n
			}
		})
	}
	t.Logf("%d histories: %v", len(seeds), total)
	if len(seeds) > 1 && !t.Failed() {
		for _, what := range []string{
			"ACCEPTED", "DUPLICATE", "ALREADY_ISSUED", "PENDING", "NONE", "ISSUED", "lost", "lost and in line", "line read", "settled", "in company", "in a call beside another",
		} {
			require.NotZero(t, total[what], "too tame: nobody was %s in %v", what, total)
		}
	}
	t.Logf("passed: %d histories of %d operations", len(seeds), total["asked"])
}

// story is one history as it happens.
type story struct {
	seed    uint64
	server  *redis.Client
	pods    []*pod
	coupons []*fixture
	users   int // of each coupon, from 1
	clients int
	acts    int  // of each client
	jumps   bool // the clock of Redis
	crammed bool // batches are tiny
	clock   atomic.Int64
	late    late

	mu      sync.Mutex
	history []porcupine.Operation
	unasked int
}

// callsAtOnce counts the calls of the apply script that are under way, by coupon.
type callsAtOnce struct {
	mu       sync.Mutex
	underWay map[any]int // by the key of the queue
	beside   int         // how often one began beside another
}

func (c *callsAtOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *callsAtOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *callsAtOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if args[0] != "evalsha" || args[1] != applyScript.sha {
			return next(ctx, cmd)
		}
		queue := args[3]
		c.mu.Lock()
		if c.underWay[queue]++; c.underWay[queue] > 1 {
			c.beside++
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

// jumpsTo are the instants between which a clock jumps: few, since each makes scripts of its own, which Redis keeps.
var jumpsTo = []time.Time{noon.Add(-time.Second), noon, noon.Add(time.Microsecond), noon.Add(20 * time.Microsecond)}

func newStory(t *testing.T, server, prefix string, seed uint64) *story {
	chance := rand.New(rand.NewPCG(seed, 0))
	s := &story{seed: seed, server: newClient(t, server), users: 5 + chance.IntN(60), clients: 4 + chance.IntN(29), acts: 4 + chance.IntN(9),
		jumps: chance.IntN(2) == 0, crammed: chance.IntN(2) == 0}
	for id := range 1 + coupon.CouponID(chance.IntN(3)) {
		c := couponOn(t, newClient(t, server), prefix, id+1) // a client each, for the hook it gets
		if s.jumps {
			c.open(t)
		} else {
			c.openNow(t)
		}
		s.coupons = append(s.coupons, c)
	}
	for i := range 2 + chance.IntN(3) {
		addr := server
		if i > 0 { // the first is lucky
			addr = faultproxy.New(t, s.loses(rand.New(rand.NewPCG(seed, chance.Uint64())), chance.Float64()*0.4), addr).Addr
		}
		settings := connect.RedisSettings{RedisAddrs: []string{addr}}
		rdb, err := settings.Open()
		require.NoError(t, err)
		t.Cleanup(func() { rdb.Close() })
		on, store, metrics := &wire{}, newStore(t, rdb, prefix), prometheus.NewRegistry()
		calls := &callsAtOnce{underWay: map[any]int{}}
		rdb.AddHook(calls) // before the clock is frozen, which makes another script of it
		rdb.AddHook(on)
		if s.jumps {
			on.clock.Store(noon.UnixMicro())
		}
		b := batch.New(store.ApplyAll, metrics, time.Now)
		if s.crammed { // so that several calls are under way at once, batches overtake one another, and not everybody may wait
			b.Limits = batch.Limits{Users: 2, Calls: 3, Waiting: 10}
		}
		s.pods = append(s.pods, &pod{store, b, metrics, on, calls})
	}
	return s
}

// loses breaks a share of the calls of scripts.
func (s *story) loses(chance *rand.Rand, share float64) faultproxy.Rule {
	return func(turn faultproxy.Turn) faultproxy.Action {
		if !bytes.Contains(turn.Request, []byte("\r\neval")) || chance.Float64() >= share {
			return faultproxy.Pass()
		}
		switch chance.IntN(4) {
		case 0:
			return faultproxy.DropRequest(nil)
		case 1:
			return faultproxy.DelayRequest(s.late.keep())
		default:
			return faultproxy.DropReply(nil)
		}
	}
}

// late are the requests that wait on the way though their clients have given them up.
type late struct {
	mu   sync.Mutex
	gone []chan struct{}
}

func (l *late) keep() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := make(chan struct{})
	l.gone = append(l.gone, until)
	return until
}

// arrive lets the oldest go on.
func (l *late) arrive() (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gone) == 0 {
		return false
	}
	close(l.gone[0])
	l.gone = l.gone[1:]
	return true
}

// tell starts all clients together and waits for them.
func (s *story) tell() {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range s.clients {
		c := &client{story: s, id: i, chance: rand.New(rand.NewPCG(s.seed, uint64(i)+1))}
		all.Go(func() {
			<-begin
			for range s.acts {
				c.act()
			}
		})
	}
	close(begin)
	all.Wait()
	for s.late.arrive() {
	}
}

// end reads what Redis holds in the end, in one transaction since what is late may still come: the last operation of
// the history. The counters must agree with it.
func (s *story) end(t *testing.T) {
	for _, c := range s.coupons {
		call := s.clock.Add(1)
		var line *redis.ZSliceCmd
		var issued *redis.StringSliceCmd
		var state *redis.SliceCmd
		_, err := s.server.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			line = p.ZRangeWithScores(t.Context(), c.queue, 0, -1)
			issued = p.SMembers(t.Context(), c.issued)
			state = p.HMGet(t.Context(), c.state, "accepted", "last")
			return nil
		})
		require.NoError(t, err)
		var spots []spot
		for _, z := range line.Val() {
			spots = append(spots, spot{coupon.ParseUserID(z.Member.(string)), coupon.Arrival(z.Score)})
		}
		s.history = append(s.history, porcupine.Operation{
			ClientId: s.clients, Input: asked{coupon: c.id, act: toRead}, Call: call, Output: told{spots: spots}, Return: s.clock.Add(1),
		})

		settled, last := map[string]bool{}, coupon.Arrival(0)
		for _, op := range s.history {
			in, out := op.Input.(asked), op.Output.(told)
			if in.coupon != c.id {
				continue
			}
			for _, at := range slices.Concat(in.spots, out.spots) {
				last = max(last, at.arrival)
			}
			for _, at := range in.spots {
				settled[at.user.Member()] = true
			}
		}
		for _, user := range issued.Val() {
			assert.Contains(t, settled, user)
		}
		assert.Equal(t, []any{strconv.Itoa(len(spots) + len(issued.Val())), decimal(last)}, state.Val(), "accepted and last of coupon %d", c.id)
	}
}

// seen counts what the history is made of.
func (s *story) seen() map[string]int {
	n := map[string]int{"asked": len(s.history), "not asked": s.unasked}
	for _, op := range s.history {
		switch in, out := op.Input.(asked), op.Output.(told); {
		case out.lost:
			n["lost"]++
		case in.act == toRead:
			n["line read"]++
		case in.act == toSettle:
			n["settled"]++
		default:
			n[out.code]++
		}
	}
	for _, op := range withoutDoubt(s.history) {
		if op.Output.(told).lost && op.Input.(asked).act == toApply {
			n["lost and in line"]++
		}
	}
	for _, p := range s.pods {
		n["in a call beside another"] += p.calls.beside
		families, err := p.metrics.Gather()
		if err != nil {
			panic(err)
		}
		for _, f := range families {
			if f.GetName() == "jajeong_apply_batch_size" {
				h := f.GetMetric()[0].GetHistogram()
				n["in company"] += int(h.GetSampleSum()) - int(h.GetSampleCount())
			}
		}
	}
	return n
}
