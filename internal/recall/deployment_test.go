package recall

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// testingT is what both *testing.T and *rapid.T give.
type testingT interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// errReplyLost is what a pod sees of a call that was carried out.
var errReplyLost = errors.New("the reply was lost")

// link is the way of one pod to the server that it takes for the primary.
type link struct {
	to   redis.UniversalClient
	lose atomic.Bool // the replies
}

func (l *link) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *link) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *link) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := l.to.Process(ctx, cmd)
		if l.lose.Load() {
			err = errReplyLost
			cmd.SetErr(err)
		}
		return err
	}
}

// pod is a process and its link.
type pod struct {
	*candidates.Store
	*link
	memory *Memory
	told   map[coupon.UserID]coupon.Arrival // by user: the lowest arrival it told
	on     int                              // the server it asks
}

// failing is a coupon on a primary and its replicas. promised is the promise in MySQL.
type failing struct {
	t        testingT
	servers  []redis.UniversalClient
	primary  int
	prefix   string
	window   coupon.Window
	pods     []*pod
	clients  []*redis.Client
	promised coupon.Promise

	reached  map[coupon.UserID]bool // users whose application was ever accepted by a server
	settled  map[coupon.UserID]coupon.Arrival
	lost     bool  // a reply was lost
	hasty    bool  // there was a hasty failover
	changed  bool  // not every pod has refreshed in the present epoch
	repeated int64 // acceptances of users whom another server had accepted
	dead     bool  // a pod has died
}

func newFailing(t testingT, servers []redis.UniversalClient, prefix string, pods int) *failing {
	f := &failing{t: t, servers: servers, prefix: prefix, reached: map[coupon.UserID]bool{}, settled: map[coupon.UserID]coupon.Arrival{}}
	now, err := servers[0].Time(t.Context()).Result()
	require.NoError(t, err)
	f.window = coupon.Window{Coupon: 42, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)}
	for range pods {
		way := &link{to: servers[0]}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
		client.AddHook(way)
		f.clients = append(f.clients, client)
		f.pods = append(f.pods, newPod(t, client, way, prefix))
	}
	for _, p := range f.pods { // before anybody is let in
		f.refresh(p)
	}
	return f
}

func (f *failing) close() {
	for _, client := range f.clients {
		client.Close()
	}
}

// key is the key of the coupon's queue, or with a kind the one beside it.
func (f *failing) key(kind string) string {
	queue := f.prefix + "candidates:coupon:42"
	if kind == "" {
		return queue
	}
	return kind + "{" + queue + "}"
}

func (f *failing) keys() (keys []string) {
	for _, kind := range []string{"", "state:", "issued:", "rejected:", "dlq:", "dlq:reason:"} {
		keys = append(keys, f.key(kind))
	}
	return keys
}

func newPod(t testingT, client redis.UniversalClient, way *link, prefix string) *pod {
	store, err := candidates.NewStore(client, candidates.Options{KeyPrefix: prefix, TTL: candidates.MinTTL})
	require.NoError(t, err)
	return &pod{Store: store, link: way, memory: New(store), told: map[coupon.UserID]coupon.Arrival{}}
}

// askEach has users first to last apply at a pod.
func (f *failing) askEach(p *pod, first, last coupon.UserID) {
	for user := first; user <= last; user++ {
		f.ask(p, user, false)
	}
}

func (f *failing) ask(p *pod, user coupon.UserID, lose bool) {
	queued := lose && f.standing(p.on)[user] > 0
	p.lose.Store(lose)
	receipt, err := p.Apply(f.t.Context(), 42, user)
	p.lose.Store(false)
	f.quiet(p)
	if lose {
		require.ErrorIs(f.t, err, errReplyLost)
		f.lost = true
		if f.standing(p.on)[user] > 0 {
			if !queued && f.reached[user] {
				f.repeated++
			}
			f.reached[user] = true
		}
		return
	}
	require.NoError(f.t, err)
	if receipt.Code == candidates.NoWindow || receipt.Code == candidates.AlreadyIssued {
		return
	}
	require.Contains(f.t, []candidates.Code{candidates.Accepted, candidates.Duplicate}, receipt.Code)
	if receipt.Code == candidates.Accepted && f.reached[user] {
		f.repeated++
	}
	f.reached[user] = true
	if before, ok := p.told[user]; !ok || receipt.Arrival < before {
		p.told[user] = receipt.Arrival
	}
}

// refresh is what the catalog does with one coupon, every 5 s.
func (f *failing) refresh(p *pod) {
	now, _, err := p.Publish(f.t.Context(), f.window, f.promised)
	require.NoError(f.t, err)
	k := f.promised
	f.promised = coupon.Promise{Accepted: max(k.Accepted, now.Accepted), LastArrival: max(k.LastArrival, now.LastArrival),
		Twice: max(k.Twice, now.Twice), Since: max(k.Since, now.Since)}
	f.quiet(p)
}

// quiet waits until no comparison runs.
func (f *failing) quiet(p *pod) {
	m := p.memory.promisesOf(42)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		m.mu.Lock()
		putting := m.comparing
		m.mu.Unlock()
		if !putting {
			return
		}
		require.NoError(f.t, pause(f.t.Context(), time.Millisecond/4))
	}
	f.t.Errorf("people are still being put back")
	f.t.FailNow()
}

// copyState lets one server have what another has, as replication does.
func (f *failing) copyState(from, to int) {
	for _, key := range f.keys() {
		value, err := f.servers[from].Dump(f.t.Context(), key).Result()
		if errors.Is(err, redis.Nil) {
			require.NoError(f.t, f.servers[to].Del(f.t.Context(), key).Err())
			continue
		}
		require.NoError(f.t, err)
		require.NoError(f.t, f.servers[to].RestoreReplace(f.t.Context(), key, time.Hour, value).Err())
	}
}

func (f *failing) replicate() {
	if f.primary+1 < len(f.servers) {
		f.copyState(f.primary, f.primary+1)
	}
}

// change notes that a new epoch begins. A hasty change comes before all pods have refreshed since the last one.
func (f *failing) change(hasty bool) {
	if f.changed && !hasty {
		f.catchUp()
	}
	f.hasty = f.hasty || f.changed
	f.changed = true
}

// failover makes the next server the primary. Pods use the old one until they follow.
func (f *failing) failover(hasty bool) {
	if f.primary+1 < len(f.servers) {
		f.change(hasty)
		f.primary++
	}
}

// forget deletes what the primary has of the coupon.
func (f *failing) forget() {
	f.change(true)
	require.NoError(f.t, f.servers[f.primary].Del(f.t.Context(), f.key(""), f.key("state:"), f.key("issued:")).Err())
}

func (f *failing) follow(p *pod) { p.on, p.to = f.primary, f.servers[f.primary] }

func (f *failing) standing(server int) map[coupon.UserID]coupon.Arrival {
	found, err := f.servers[server].ZRangeWithScores(f.t.Context(), f.key(""), 0, -1).Result()
	require.NoError(f.t, err)
	standing := map[coupon.UserID]coupon.Arrival{}
	for _, z := range found {
		standing[coupon.ParseUserID(z.Member.(string))] = coupon.Arrival(z.Score)
	}
	return standing
}

// catchUp is what happens in the time that a settlement gives pods: all of them have heard of the primary and refreshed twice.
func (f *failing) catchUp() {
	for _, p := range f.pods {
		f.follow(p)
	}
	for range 2 {
		for _, p := range f.pods {
			f.refresh(p)
		}
	}
	f.changed = false
}

// check is after catchUp, as a settlement would find things.
func (f *failing) check() {
	f.catchUp()
	standing := f.standing(f.primary)
	want := map[coupon.UserID]coupon.Arrival{}
	for _, p := range f.pods {
		for user, arrival := range p.told {
			if before, ok := want[user]; !ok || arrival < before {
				want[user] = arrival
			}
		}
	}
	for user, arrival := range want {
		if _, ok := f.settled[user]; ok {
			continue
		}
		require.Contains(f.t, standing, user, "a living pod told user %d that the application stands", user)
		require.LessOrEqual(f.t, standing[user], arrival, "user %d stands behind the first arrival", user)
	}
	missing, both := 0, 0
	for user := range f.reached {
		_, stands := standing[user]
		_, settled := f.settled[user]
		if !stands && !settled {
			missing++
		}
		if stands && settled {
			both++
		}
	}
	figures, err := f.pods[0].Counts(f.t.Context(), 42, 0)
	require.NoError(f.t, err)
	gap := figures.Accepted - figures.Twice - figures.Waiting - int64(len(f.settled)) + int64(both)
	if f.dead {
		return
	}
	unnoticed := int64(0) // users whom several servers accepted, and hasty failovers left uncounted in twice
	if f.hasty {
		unnoticed = max(0, f.repeated-figures.Twice)
	}
	require.LessOrEqual(f.t, gap, int64(missing)+unnoticed, "a gap with nobody missing: %+v", figures)
	if !f.lost {
		require.Zero(f.t, missing)
		require.True(f.t, gap >= 0 || f.hasty, "%+v", figures)
	}
}

// settle settles the first of the line, as a run does after its fence.
func (f *failing) settle(n int) {
	f.check()
	p := f.pods[0]
	entries, _, err := p.Page(f.t.Context(), 42, coupon.Cursor{}, f.window.Closes)
	require.NoError(f.t, err)
	entries = entries[:min(n, len(entries))]
	if len(entries) == 0 {
		return
	}
	for _, e := range entries {
		f.settled[e.User()] = e.Arrival
	}
	_, err = p.Remove(f.t.Context(), 42, f.window.Closes, coupon.MarkIssued, entries)
	require.NoError(f.t, err)
}

func servers(t *testing.T, n int) (all []redis.UniversalClient) {
	t.Helper()
	for range n {
		client := redis.NewClient(&redis.Options{Addr: testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
		t.Cleanup(func() { client.Close() })
		all = append(all, client)
	}
	return all
}

// forgetsAnswers has a pod forget its answers, but not the counts that it has seen.
func (p *pod) forgetAnswers() {
	promises := p.memory.promisesOf(42)
	promises.mu.Lock()
	defer promises.mu.Unlock()
	promises.forgetAll()
}

func (f *failing) line(server int) []coupon.UserID {
	standing := f.standing(server)
	return slices.SortedFunc(maps.Keys(standing), func(a, b coupon.UserID) int { return int(standing[a] - standing[b]) })
}
