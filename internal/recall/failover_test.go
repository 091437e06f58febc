package recall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	told   map[uint64]int64 // by user: the lowest arrival it told
	on     int              // the server it asks
}

// failing is a coupon on a primary and what its replicas had when they took over. What MySQL remembers stands in promised.
type failing struct {
	t        testingT
	servers  []redis.UniversalClient
	primary  int
	prefix   string
	window   coupon.Window
	pods     []*pod
	clients  []*redis.Client
	promised coupon.Promise

	reached  map[uint64]bool // users whose application was ever accepted by a server
	settled  map[uint64]int64
	lost     bool  // a reply was lost
	hasty    bool  // there was a hasty failover
	repeated int64 // acceptances of users whom another server had accepted
	dead     bool  // a pod has died
}

func newFailing(t testingT, servers []redis.UniversalClient, prefix string, pods int) *failing {
	f := &failing{t: t, servers: servers, prefix: prefix, reached: map[uint64]bool{}, settled: map[uint64]int64{}}
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
	return &pod{Store: store, link: way, memory: New(store), told: map[uint64]int64{}}
}

func (f *failing) ask(p *pod, user coupon.UserID, lose bool) {
	p.lose.Store(lose)
	receipt, err := p.Apply(f.t.Context(), 42, user)
	p.lose.Store(false)
	f.quiet(p)
	if lose {
		require.ErrorIs(f.t, err, errReplyLost)
		f.lost = true
		if f.standing(p.on)[user] > 0 {
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

// quiet waits until nobody is being put back.
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

// failover makes the next server the primary; pods ask the old one until they hear of it. A hasty one comes before all pods
// have refreshed since the one before.
func (f *failing) failover(hasty bool) {
	if f.primary+1 < len(f.servers) {
		if f.primary > 0 && !hasty {
			f.catchUp()
		}
		f.hasty = f.hasty || f.primary > 0 && hasty
		f.primary++
	}
}

func (f *failing) follow(p *pod) { p.on, p.to = f.primary, f.servers[f.primary] }

func (f *failing) standing(server int) map[uint64]int64 {
	found, err := f.servers[server].ZRangeWithScores(f.t.Context(), f.key(""), 0, -1).Result()
	require.NoError(f.t, err)
	standing := map[uint64]int64{}
	for _, z := range found {
		user, err := strconv.ParseUint(z.Member.(string), 10, 64)
		require.NoError(f.t, err)
		standing[user] = int64(z.Score)
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
}

// check is after catchUp, as a settlement would find things.
func (f *failing) check() {
	f.catchUp()
	standing := f.standing(f.primary)
	want := map[uint64]int64{}
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
		require.GreaterOrEqual(f.t, gap, int64(0), "%+v", figures)
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
		user, err := strconv.ParseUint(e.Member, 10, 64)
		require.NoError(f.t, err)
		f.settled[user] = e.Arrival
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

// Six in line; the replica hears nothing of three more, and the primary dies. Others apply to the replica in between, as many
// as were lost, so that one number lifted to the higher would say that all is well.
func TestALossDoesNotHideBehindWhoCameSince(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 2)
	defer f.close()
	one, two := f.pods[0], f.pods[1]
	for user := uint64(1); user <= 6; user++ {
		f.ask(two, user, false)
	}
	f.replicate()
	for user := uint64(101); user <= 103; user++ {
		f.ask(one, user, false)
	}
	f.failover(false)
	f.follow(one)
	f.follow(two)
	for user := uint64(201); user <= 203; user++ {
		f.ask(two, user, false)
	}

	f.ask(one, 204, false)
	f.check()
	require.Len(t, f.standing(1), 13)
	line := f.line(1)
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6, 101, 102, 103, 201, 202, 203, 204}, line)
}

// forgetsAnswers has a pod forget its answers, but not the counts that it has seen.
func (p *pod) forgetAnswers() {
	promises := p.memory.promisesOf(42)
	promises.mu.Lock()
	defer promises.mu.Unlock()
	promises.forgetAll()
}

func (f *failing) line(server int) []uint64 {
	standing := f.standing(server)
	return slices.SortedFunc(maps.Keys(standing), func(a, b uint64) int { return int(standing[a] - standing[b]) })
}

// Even if no application is put back, the counts reveal a loss that later applications would hide in a single maximum.
func TestLossStaysCountedBesideLaterApplications(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 2)
	defer f.close()
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	for user := uint64(101); user <= 103; user++ {
		f.ask(one, user, false)
	}
	f.failover(false)
	f.follow(one)
	f.follow(two)
	for user := uint64(201); user <= 203; user++ {
		f.ask(two, user, false)
	}
	one.forgetAnswers()
	f.refresh(one)
	counts, err := one.Counts(t.Context(), 42, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, counts.Accepted-counts.Twice-counts.Waiting)
}

// Who was lost and applies again before the pod of the first time notices gets the first arrival back, and is counted once.
func TestWhoAppliesAgainAfterALossKeepsTheFirstPlace(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 2)
	defer f.close()
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	f.ask(one, 2, false)
	f.ask(one, 3, false)
	f.failover(false)
	f.follow(two)
	f.ask(two, 4, false)
	f.ask(two, 2, false)
	require.Equal(t, []uint64{1, 4, 2}, f.line(1))
	f.check()
	require.Equal(t, []uint64{1, 2, 3, 4}, f.line(1))
}

// The new primary accepts a user first, and then the old one does, for pods that have not heard of the failover. Every answer
// of the old one comes back from memory, but it has counted the user once.
func TestApplicantOfTwoServersIsCountedTwiceOnce(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 3)
	defer f.close()
	one, two, three := f.pods[0], f.pods[1], f.pods[2]
	f.ask(one, 1, false)
	f.replicate()
	f.failover(false)
	f.follow(three)
	f.ask(three, 5, false)
	f.ask(one, 5, false)
	f.ask(one, 5, false)
	f.ask(two, 5, false)
	f.check()
	counts, err := three.Counts(t.Context(), 42, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Twice)
}

// Whoever got no answer may have been accepted by the server that is gone. Nobody is held for that, whether they ask again or
// not.
func TestUnansweredApplicationsDoNotHoldACoupon(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"they ask again": true, "they do not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t, servers(t, 2), "", 2)
			defer f.close()
			one, two := f.pods[0], f.pods[1]
			f.ask(one, 1, false)
			f.replicate()
			f.ask(one, 2, true)
			f.ask(two, 3, false) // who is answered tells of the count before
			f.failover(false)
			if again {
				f.follow(two)
				f.ask(two, 2, false)
			}
			f.check()
			require.Len(t, f.standing(1), 3)
		})
	}
}

// A coupon that is over takes nobody back, since everybody has an outcome.
func TestNobodyIsPutBackIntoACouponThatIsOver(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 1)
	defer f.close()
	p := f.pods[0]
	f.ask(p, 1, false)
	f.settle(1)
	f.window.Closes, f.window.Version = f.window.Opens.Add(time.Second), 2
	f.refresh(p)
	swept, err := p.Sweep(t.Context(), 42, f.window.Closes)
	require.NoError(t, err)
	require.True(t, swept)
	f.replicate()
	f.failover(false)
	f.catchUp()
	require.Empty(t, f.standing(1))
	require.Zero(t, p.memory.remembered.Load())
}

// Pods, failovers to replicas that lag behind, primaries that some pods still take for one, lost replies, lost states,
// settlements, and people who ask again. Whoever was told that the application stands is there while the pod that said so
// lives, at the first arrival. A gap is never larger than how many are missing, unless failovers follow one another before all
// pods have heard of the first.
func TestModelOfFailovers(t *testing.T) {
	t.Parallel()
	all := servers(t, 4)
	n := 0
	for range testenv.Rounds(1, 20) {
		rapid.Check(t, func(t *rapid.T) {
			n++
			f := newFailing(t, all, fmt.Sprint("model", n, ":"), rapid.IntRange(1, 4).Draw(t, "pods"))
			defer f.close()
			anyPod := func() *pod { return f.pods[rapid.IntRange(0, len(f.pods)-1).Draw(t, "pod")] }
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"ask", "ask", "ask", "ask", "lose", "replicate", "replicate", "failover", "follow", "follow",
					"refresh", "refresh", "settle", "forget", "die"}).Draw(t, "step") {
				case "ask":
					f.ask(anyPod(), rapid.Uint64Range(1, 20).Draw(t, "user"), false)
				case "lose":
					f.ask(anyPod(), rapid.Uint64Range(1, 20).Draw(t, "user"), true)
				case "replicate":
					f.replicate()
				case "failover":
					f.failover(rapid.Bool().Draw(t, "hasty"))
				case "follow":
					f.follow(anyPod())
				case "refresh":
					f.refresh(anyPod())
				case "settle":
					f.settle(rapid.IntRange(1, 5).Draw(t, "how many"))
				case "forget":
					if rapid.IntRange(0, 4).Draw(t, "really") == 0 && len(f.settled) == 0 {
						require.NoError(t, f.servers[f.primary].Del(t.Context(), f.key(""), f.key("state:"), f.key("issued:")).Err())
					}
				case "die":
					if len(f.pods) > 1 && rapid.IntRange(0, 4).Draw(t, "really") == 0 {
						f.pods, f.dead = f.pods[1:], true
					}
				}
			}
			f.check()
		})
	}
}
