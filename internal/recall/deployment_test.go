package recall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// testingT are the methods of both *testing.T and *rapid.T.
type testingT interface {
	require.TestingT
	Helper()
	Context() context.Context
	Cleanup(f func())
}

// errReplyLost is the error of an executed call whose reply is lost.
var errReplyLost = errors.New("the reply was lost")

// link connects a pod to the server that it takes for the primary.
type link struct {
	to      redis.UniversalClient
	lose    atomic.Bool  // the replies
	restore atomic.Int64 // how many further replies to put-back calls are lost
}

func (l *link) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *link) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *link) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := l.to.Process(ctx, cmd)
		if l.lose.Load() || putsBack(cmd) && l.restore.Add(-1) >= 0 {
			err = errReplyLost
			cmd.SetErr(err)
		}
		return err
	}
}

// putsBack reports whether a command put applications back: only the restore script answers DONE.
func putsBack(cmd redis.Cmder) bool {
	const withoutAnswers = 3 + 6 + 4 // command, script, number of keys; keys; epoch, accepted, twice, ttl
	return len(cmd.Args()) > withoutAnswers && strings.Contains(cmd.String(), string(candidates.RestoreDone))
}

// pod is a process and its link.
type pod struct {
	*candidates.Store
	*link
	memory  *Memory
	answers map[coupon.UserID]coupon.Arrival // lowest arrival in its answers, by user
	on      int                              // index of its server
}

// servers are up to four servers that all tests share.
func servers(t *testing.T, n int) []redis.UniversalClient {
	t.Helper()
	testenv.NeedsServers(t)
	all, err := shared()
	require.NoError(t, err)
	return all[:n]
}

var shared = sync.OnceValues(func() (all []redis.UniversalClient, err error) {
	for range 4 {
		server, err := testenv.StartRedis(context.Background(), testenv.RedisOptions{})
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		testenv.StopWithShared(func() error { return errors.Join(client.Close(), server.Stop()) })
		all = append(all, client)
	}
	return all, nil
})

// deployments numbers the deployments. Each has its own prefix.
var deployments atomic.Int64

// failing is a coupon on a primary and its replicas. promised is the promise in MySQL.
type failing struct {
	t        testingT
	servers  []redis.UniversalClient
	primary  int
	prefix   string
	window   coupon.Window
	pods     []*pod
	promised coupon.Promise

	reached  map[coupon.UserID]bool // users with an application that a server accepted
	settled  map[coupon.UserID]coupon.Arrival
	lost     bool  // a reply was lost
	hasty    bool  // there was a hasty failover
	changed  bool  // some pod has not refreshed in the present epoch
	repeated int64 // acceptances of users that another server had accepted
	dead     bool  // a pod has died
}

func newFailing(t testingT, servers []redis.UniversalClient, pods int) *failing {
	prefix := fmt.Sprint("deployment", deployments.Add(1), ":")
	f := &failing{t: t, servers: servers, prefix: prefix, reached: map[coupon.UserID]bool{},
		settled: map[coupon.UserID]coupon.Arrival{}}
	now, err := servers[0].Time(t.Context()).Result()
	require.NoError(t, err)
	f.window = coupon.Window{Coupon: 42, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)}
	for range pods {
		way := &link{to: servers[0]}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
		client.AddHook(way)
		t.Cleanup(func() { client.Close() })
		f.pods = append(f.pods, newPod(t, client, way, prefix))
	}
	for _, p := range f.pods { // before the first application
		f.refresh(p)
	}
	return f
}

// key is the key of a kind of the coupon, or of its queue without a kind.
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
	store, err := candidates.NewStore(client, candidates.Options{KeyPrefix: prefix})
	require.NoError(t, err)
	return &pod{Store: store, link: way, memory: New(store), answers: map[coupon.UserID]coupon.Arrival{}}
}

// askEach applies for the users from first to last at a pod.
func (f *failing) askEach(p *pod, first, last coupon.UserID) {
	for user := first; user <= last; user++ {
		f.ask(p, user, false)
	}
}

func (f *failing) ask(p *pod, user coupon.UserID, lose bool) {
	queued := lose && f.arrivals(p.on)[user] > 0
	p.lose.Store(lose)
	receipt, err := p.Apply(f.t.Context(), 42, user)
	p.lose.Store(false)
	f.quiet(p)
	if lose {
		require.ErrorIs(f.t, err, errReplyLost)
		f.lost = true
		if f.arrivals(p.on)[user] > 0 {
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
	if before, ok := p.answers[user]; !ok || receipt.Arrival < before {
		p.answers[user] = receipt.Arrival
	}
}

// refresh does for one coupon what the catalog does every 5 s.
func (f *failing) refresh(p *pod) {
	now, _, err := p.Publish(f.t.Context(), f.window, f.promised)
	require.NoError(f.t, err)
	k := f.promised
	f.promised = coupon.Promise{Accepted: max(k.Accepted, now.Accepted),
		LastArrival: max(k.LastArrival, now.LastArrival),
		Twice:       max(k.Twice, now.Twice), Since: max(k.Since, now.Since)}
	f.quiet(p)
}

// quiet waits until no comparison runs.
func (f *failing) quiet(p *pod) {
	m := p.memory.promisesOf(42)
	for {
		m.mu.Lock()
		running := m.comparing
		m.mu.Unlock()
		if !running {
			return
		}
		require.NoError(f.t, sleep.For(f.t.Context(), time.Millisecond/4))
	}
}

// copyState copies the coupon from one server to another, as replication does.
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

// forget deletes the coupon on the primary.
func (f *failing) forget() {
	f.change(true)
	require.NoError(f.t, f.servers[f.primary].Del(f.t.Context(), f.key(""), f.key("state:"), f.key("issued:")).Err())
}

func (f *failing) follow(p *pod) { p.on, p.to = f.primary, f.servers[f.primary] }

func (f *failing) arrivals(server int) map[coupon.UserID]coupon.Arrival {
	found, err := f.servers[server].ZRangeWithScores(f.t.Context(), f.key(""), 0, -1).Result()
	require.NoError(f.t, err)
	arrivals := map[coupon.UserID]coupon.Arrival{}
	for _, z := range found {
		arrivals[coupon.ParseUserID(z.Member.(string))] = coupon.Arrival(z.Score)
	}
	return arrivals
}

// catchUp does what pods do while a settlement waits for them: all follow the primary and refresh twice.
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

// check checks the queue and the counts that a settlement finds after catchUp.
func (f *failing) check() {
	f.catchUp()
	arrivals := f.arrivals(f.primary)
	want := map[coupon.UserID]coupon.Arrival{}
	for _, p := range f.pods {
		for user, arrival := range p.answers {
			if before, ok := want[user]; !ok || arrival < before {
				want[user] = arrival
			}
		}
	}
	for user, arrival := range want {
		if _, ok := f.settled[user]; ok {
			continue
		}
		require.Contains(f.t, arrivals, user, "user %d has an answer of a living pod", user)
		require.LessOrEqual(f.t, arrivals[user], arrival, "user %d is behind the first arrival", user)
	}
	missing, both := 0, 0
	for user := range f.reached {
		_, queued := arrivals[user]
		_, settled := f.settled[user]
		if !queued && !settled {
			missing++
		}
		if queued && settled {
			both++
		}
	}
	counts, err := f.pods[0].Counts(f.t.Context(), 42, 0)
	require.NoError(f.t, err)
	gap := counts.Accepted - counts.Twice - counts.Waiting - int64(len(f.settled)) + int64(both)
	if f.dead {
		return
	}
	unnoticed := int64(0) // users of several servers that twice lacks after hasty failovers
	if f.hasty {
		unnoticed = max(0, f.repeated-counts.Twice)
	}
	require.LessOrEqual(f.t, gap, int64(missing)+unnoticed, "a gap without a missing application: %+v", counts)
	if !f.lost {
		require.Zero(f.t, missing)
		require.True(f.t, gap >= 0 || f.hasty, "%+v", counts)
	}
}

// settle settles the first entries of the queue, as a run does after its fence.
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

// forgetAnswers makes a pod forget its answers, but not the counts that it has seen.
func (p *pod) forgetAnswers() {
	promises := p.memory.promisesOf(42)
	promises.mu.Lock()
	defer promises.mu.Unlock()
	promises.forgetAll()
}

func (f *failing) order(server int) []coupon.UserID {
	arrivals := f.arrivals(server)
	return slices.SortedFunc(maps.Keys(arrivals),
		func(a, b coupon.UserID) int { return int(arrivals[a] - arrivals[b]) })
}
