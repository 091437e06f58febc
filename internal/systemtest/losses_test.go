package systemtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// What Redis loses, when, and who applies meanwhile.
var (
	lossKinds = []string{"everything", "what came after a snapshot", "the end of the append-only file",
		"what a replica lacked",
		"the queue", "the state", "the DLQ", "the issued marks", "some members"}
	lossMoments = []string{"quiet", "a stampede", "a nightly settlement", "immediate runs", "a restore",
		"a journal that is behind", "an outage of MySQL"}
)

// TestLoss_RandomLosses loses data of Redis in random ways at random moments. Afterwards everybody who was told
// ACCEPTED has a place or an outcome, at the first arrival. If a pod dies with Redis, those whom it told, and whom the
// journal did not have yet, may be lost: their receipts bring them back. Nobody is passed over, and a coupon is held
// only if somebody is missing. JAJEONG_SEED=N plays the loss first whose name begins with N.
func TestLoss_RandomLosses(t *testing.T) {
	t.Parallel()
	first, rounds := testenv.Seed(t), testenv.Rounds(6, 200)
	slots := make(chan struct{}, 6) // a round waits more than it works
	for n := range rounds {
		seed := first + uint64(n)
		random := rand.New(rand.NewPCG(seed, 0))
		kind, moment := lossKinds[seed%uint64(len(lossKinds))], lossMoments[random.IntN(len(lossMoments))]
		t.Run(fmt.Sprintf("%d %s during %s", seed, kind, moment), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			newLoss(t, random, kind, moment).play()
		})
	}
}

const (
	lossUsers = 600
	lossEarly = 300 // are in the journal before the loss

	// Pods are as in the product, but faster: a settlement waits for several of their refreshes.
	lossRefresh = 800 * time.Millisecond
)

// loss is one loss.
type loss struct {
	*jajeongtest.Deployment
	t            *testing.T
	random       *rand.Rand
	kind, moment string
	server       *testenv.Redis
	mysql        *testenv.MySQL // nil: the shared server
	id           coupon.CouponID
	seats        int
	trace        *jajeongtest.Trace
	serving      []*testenv.Program
	snapshot     map[string]string

	mu     sync.Mutex
	pods   []*lossPod // that live
	told   map[coupon.UserID]told
	unsaid int64      // applications without an answer: Redis may have accepted them
	dying  []*lossPod // die with Redis
	lostAt coupon.Arrival
	upTo   coupon.Arrival // of the journal, before the loss
}

// told is what a user knows.
type told struct {
	arrival coupon.Arrival    // the first one
	by      map[*lossPod]bool // the pods that said so
}

// lossPod is a pod in this process.
type lossPod struct {
	*jajeongtest.TracedPod
	client redis.UniversalClient
	end    context.CancelFunc
	ended  sync.WaitGroup
}

func newLoss(t *testing.T, random *rand.Rand, kind, moment string) *loss {
	l := &loss{t: t, random: random, kind: kind, moment: moment, told: map[coupon.UserID]told{}}
	l.server = testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: kind != "everything" &&
		kind != "what came after a snapshot"})
	o := jajeongtest.Options{Redis: jajeongtest.RedisAt(t, l.server.Addr())}
	if moment == "an outage of MySQL" {
		l.mysql = testenv.PrivateMySQL(t, testenv.MySQLOptions{})
		o.MySQL = jajeongtest.DatabaseOn(t, l.mysql)
	}
	l.Deployment = jajeongtest.NewWith(t, o)
	l.AddUsers(jajeongtest.Between[coupon.UserID](1, lossUsers)...)
	l.seats = map[bool]int{false: 250, true: 400}[moment == "immediate runs"]
	l.id = l.AddCoupon(l.seats)
	if moment == "immediate runs" {
		l.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", l.id)
	}
	l.trace = l.Trace(l.id, candidates.HandOverTime)
	l.addPods()
	l.serve()
	return l
}

func (l *loss) addPods() {
	l.t.Helper()
	for range 3 {
		p := l.newPod()
		l.mu.Lock()
		l.pods = append(l.pods, p)
		l.mu.Unlock()
	}
}

func (l *loss) newPod() *lossPod {
	l.t.Helper()
	servers, err := connect.Open(&l.API.MySQLSettings, connect.Settling,
		&connect.RedisSettings{RedisAddrs: []string{l.server.Addr()}}, zap.NewNop())
	require.NoError(l.t, err)
	store, err := candidates.NewStore(servers.Redis, candidates.Options{})
	require.NoError(l.t, err)
	traced := l.trace.Pod(store)
	one := catalog.New(catalog.Options{DB: servers.MySQL, Store: store, Memory: traced.Memory, Logger: zap.NewNop(),
		Now: time.Now, Interval: lossRefresh})
	ctx, end := context.WithCancel(context.Background())
	p := &lossPod{TracedPod: traced, client: servers.Redis, end: end}
	p.ended.Go(func() { one.Run(ctx) })
	p.ended.Go(func() { traced.Memory.Run(ctx) })
	l.t.Cleanup(func() { p.die(); servers.Close() })
	return p
}

// pod returns a pod that lives, or nil.
func (l *loss) pod(random *rand.Rand) *lossPod {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pods) == 0 {
		return nil
	}
	return l.pods[random.IntN(len(l.pods))]
}

// die ends the pod at once: it puts nobody back.
func (p *lossPod) die() {
	_ = p.client.Close()
	p.end()
	p.ended.Wait()
}

// serve starts two settle serve.
func (l *loss) serve() {
	l.t.Helper()
	tasks := "journal"
	if l.moment == "immediate runs" {
		tasks = "issue,journal"
	}
	for range 2 {
		cmd := exec.Command(testenv.Build(l.t, "./cmd/settle"), "serve", "--tasks="+tasks)
		cmd.Env = l.Environment()
		p, err := testenv.StartProgram(testenv.Patient(l.t), cmd)
		require.NoError(l.t, err)
		l.t.Cleanup(func() { _ = p.Stop() })
		l.serving = append(l.serving, p)
	}
}

// settle runs the nightly settlement of everything that has arrived, and returns its exit code and its output.
func (l *loss) settle(more ...string) (int, string) {
	return l.RunToEnd(func() *exec.Cmd {
		cmd := exec.CommandContext(testenv.Patient(l.t), testenv.Build(l.t, "./cmd/settle"),
			append([]string{"run", "--cutoff=now", "--operator=kim",
				"--reason=test", "--yes", "--coupon=" + l.id.String()}, more...)...)
		cmd.Env = l.Environment()
		return cmd
	})
}

// apply lets a user apply to some pod.
func (l *loss) apply(random *rand.Rand, user coupon.UserID) {
	p := l.pod(random)
	if p == nil {
		return
	}
	receipt, err := p.Apply(l.t.Context(), user)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unsaid++
		return
	}
	if receipt.Code != candidates.Accepted && receipt.Code != candidates.Duplicate {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, again := l.told[user]
	if !again || receipt.Arrival < known.arrival {
		known = told{receipt.Arrival, map[*lossPod]bool{}}
	}
	if receipt.Arrival == known.arrival {
		known.by[p] = true
	}
	l.told[user] = known
}

// load lets users apply until stop is called.
func (l *loss) load() (stop func()) {
	pause := 10 * time.Millisecond
	switch l.moment {
	case "quiet":
		return func() {}
	case "a stampede":
		pause = 2 * time.Millisecond
	}
	var applying sync.WaitGroup
	done := make(chan struct{})
	for n := range 4 {
		random := rand.New(rand.NewPCG(l.random.Uint64(), uint64(n)))
		applying.Go(func() {
			for tick := time.NewTicker(pause); ; {
				select {
				case <-done:
					tick.Stop()
					return
				case <-tick.C:
					l.apply(random, coupon.UserID(1+random.IntN(lossUsers)))
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(done); applying.Wait() })
}

func (l *loss) wait(longest time.Duration) {
	<-time.After(time.Duration(l.random.Int64N(int64(longest))))
}

func (l *loss) play() {
	defer l.trace.Watch()()
	l.applyAll(1, 200)
	if l.random.IntN(2) == 0 && l.moment != "immediate runs" {
		code, output := l.settle()
		require.Zero(l.t, code, output)
	}
	l.applyAll(201, lossEarly)
	if l.moment != "immediate runs" {
		for range 20 { // as a run does that MySQL left; the next run settles them
			member := coupon.UserID(201 + l.random.IntN(100)).Member()
			if _, waits := l.Arrivals(l.id)[member]; waits {
				l.MoveToReview(l.id, member, coupon.Failure{Retryable: true})
			}
		}
	}
	l.keepSnapshot()
	stop := l.load()
	defer stop()
	l.wait(1500 * time.Millisecond)

	settled, release := make(chan struct{}), func() {}
	switch l.moment {
	case "a nightly settlement":
		go func() { defer close(settled); l.settle() }()
		l.wait(400 * time.Millisecond)
	case "a restore":
		// The restore stops here, and is killed.
		release = l.lock([]string{"line_journal WRITE", "journal READ"}[l.random.IntN(2)])
	case "a journal that is behind":
		release = l.lock("line_journal READ")
		upTo := l.journalled()
		testenv.Eventually(l.t, "the journal is behind", func() bool { return l.isBehind(upTo) })
	}
	defer release()
	l.lose()
	if l.moment == "a restore" {
		testenv.Eventually(l.t, "somebody waits for the table", func() bool {
			return testenv.Sessions(l.t, l.DB, func(s testenv.Session) bool {
				return strings.HasPrefix(s.State, "Waiting for table")
			}) > 0
		})
		l.wait(time.Second)
		for _, p := range l.serving {
			require.NoError(l.t, p.Process.Kill())
		}
		release()
		l.serve()
	}
	l.wait(1500 * time.Millisecond)
	if l.mysql != nil {
		require.NoError(l.t, l.mysql.Restart(l.t.Context()))
	}
	stop()
	if l.moment == "a nightly settlement" {
		<-settled
	}
	release()
	l.check()
}

// journalled returns the arrival up to which the journal has the line.
func (l *loss) journalled() coupon.Arrival {
	return coupon.Arrival(l.Number("SELECT COALESCE(MAX(up_to), 0) FROM journal WHERE coupon_id = ?", l.id))
}

// isBehind reports whether more than 20 users are younger than a journal up to there. If all users have applied, no
// more can come.
func (l *loss) isBehind(upTo coupon.Arrival) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lacks := 0
	for _, is := range l.told {
		if is.arrival > upTo {
			lacks++
		}
	}
	return lacks > 20 || len(l.told) == lossUsers
}

// applyAll lets users apply in random order, and waits until they are in the journal or have the coupon.
func (l *loss) applyAll(first, last coupon.UserID) {
	over := testenv.Patient(l.t)
	for _, n := range l.random.Perm(int(last - first + 1)) {
		user := first + coupon.UserID(n)
		for l.told[user].arrival == 0 && over.Err() == nil {
			l.apply(l.random, user)
		}
	}
	require.Len(l.t, l.told, int(last))
	const known = `
SELECT COUNT(*) FROM (SELECT user_id FROM line_journal WHERE coupon_id = ? UNION SELECT user_id FROM user_coupon
    WHERE coupon_id = ?) known`
	testenv.Eventually(l.t, "the line is journalled", func() bool { return l.Number(known, l.id, l.id) == int64(last) })
}

// keepSnapshot keeps what Redis has now, for the kinds that fall back to it.
func (l *loss) keepSnapshot() {
	switch l.kind {
	case "what came after a snapshot":
		require.NoError(l.t, l.Redis.Save(l.t.Context()).Err())
	case "what a replica lacked":
		l.snapshot = map[string]string{}
		for _, key := range l.keys() {
			value, err := l.Redis.Dump(l.t.Context(), key).Result()
			if errors.Is(err, redis.Nil) {
				continue
			}
			require.NoError(l.t, err)
			l.snapshot[key] = value
		}
	}
}

func (l *loss) keys() []string {
	all := []string{l.Queue(l.id)}
	for _, kind := range []string{"state", "issued", "rejected", "dlq", "dlq:reason", "returned"} {
		all = append(all, l.Key(kind, l.id))
	}
	return all
}

// lose loses what the kind says. No pod, one or every pod dies at the same moment, and then others take their place.
func (l *loss) lose() {
	ctx := l.t.Context()
	lost := l.trace.Loses()
	defer lost()
	l.lostAt = coupon.ArrivalAt(l.Now())
	l.upTo = l.journalled()
	if l.mysql != nil {
		require.NoError(l.t, l.mysql.Kill())
	}
	switch l.kind {
	case "everything", "what came after a snapshot", "the end of the append-only file":
		require.NoError(l.t, l.server.Kill())
	}
	l.mu.Lock()
	die := []int{0, 1, len(l.pods), len(l.pods)}[l.random.IntN(4)]
	l.dying, l.pods = l.pods[:die], l.pods[die:]
	l.mu.Unlock()
	for _, p := range l.dying {
		p.die()
		p.Dies()
	}
	defer l.addPods()
	switch l.kind {
	case "the end of the append-only file":
		files, err := filepath.Glob(filepath.Join(l.server.Dir(), "appendonlydir", "*.incr.aof"))
		require.NoError(l.t, err)
		require.Len(l.t, files, 1)
		info, err := os.Stat(files[0])
		require.NoError(l.t, err)
		require.NoError(l.t, os.Truncate(files[0], info.Size()-l.random.Int64N(info.Size()/2)))
		fallthrough
	case "everything", "what came after a snapshot":
		require.NoError(l.t, l.server.Restart(ctx))
	case "what a replica lacked":
		_, err := l.Redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Del(ctx, l.keys()...)
			for key, value := range l.snapshot {
				pipe.Restore(ctx, key, time.Hour, value)
			}
			pipe.HSet(ctx, l.Key("state", l.id), "run_id", "0123456789012345678901234567890123456789")
			return nil
		})
		require.NoError(l.t, err)
	case "some members":
		for _, member := range l.Waiting(l.id) {
			if l.random.IntN(3) == 0 {
				require.NoError(l.t, l.Redis.ZRem(ctx, l.Queue(l.id), member).Err())
			}
		}
	default:
		key := map[string]string{"the queue": l.Queue(l.id), "the state": l.Key("state", l.id),
			"the DLQ": l.Key("dlq", l.id), "the issued marks": l.Key("issued", l.id)}[l.kind]
		require.NoError(l.t, l.Redis.Del(ctx, key).Err())
	}
}

// lock makes everybody else wait for a table until release, as a MySQL that is overloaded does.
func (l *loss) lock(table string) (release func()) {
	shown := l.trace.Hides()
	conn, err := l.DB.Conn(context.Background())
	require.NoError(l.t, err)
	_, err = conn.ExecContext(l.t.Context(), "LOCK TABLES "+table)
	require.NoError(l.t, err)
	return sync.OnceFunc(func() {
		_, _ = conn.ExecContext(context.Background(), "UNLOCK TABLES")
		_ = conn.Close()
		shown()
	})
}

// placesOf returns the lowest arrival at which each user of a coupon stands or has an outcome.
func placesOf(d *jajeongtest.Deployment, id coupon.CouponID) map[coupon.UserID]coupon.Arrival {
	found := map[coupon.UserID]coupon.Arrival{}
	note := func(user coupon.UserID, at coupon.Arrival) {
		if before, ok := found[user]; !ok || at < before {
			found[user] = at
		}
	}
	for member, at := range d.Arrivals(id) { // before MySQL: what is settled leaves Redis afterwards
		note(coupon.ParseUserID(member), at)
	}
	for member, at := range d.UnderReview(id) {
		note(coupon.ParseUserID(member), at)
	}
	rows, err :=
		d.DB.Query(
			"SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ? UNION ALL SELECT user_id, applied_at "+
				"FROM application_outcome WHERE coupon_id = ?", id, id)
	require.NoError(d.T, err)
	defer rows.Close()
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(d.T, rows.Scan(&user, &at))
		note(user, coupon.ArrivalAt(at))
	}
	require.NoError(d.T, rows.Err())
	return found
}

// displaced returns the users who are nowhere, or later than they were told.
func (l *loss) displaced() (all []coupon.UserID) {
	places := placesOf(l.Deployment, l.id)
	for user, is := range l.told {
		if at, ok := places[user]; !ok || at > is.arrival {
			all = append(all, user)
		}
	}
	slices.Sort(all)
	return all
}

// young reports whether a user's application was younger than the journal when the only pods that knew it died.
func (l *loss) young(user coupon.UserID) bool {
	is := l.told[user]
	for p := range is.by {
		if !slices.Contains(l.dying, p) {
			return false
		}
	}
	return user > lossEarly && is.arrival > l.upTo
}

// checkFindings allows what settle serve is about to clean up, and that those who needed a receipt were unknown.
func (l *loss) checkFindings() {
	l.t.Helper()
	for _, f := range l.Check(l.id)[0].Findings {
		require.Contains(l.t, []verify.Code{verify.CleanUpToDo, verify.PromiseUnknown}, f.Code)
	}
}

func (l *loss) check() {
	defer func() {
		if !l.t.Failed() {
			return
		}
		standing := placesOf(l.Deployment, l.id)
		for _, user := range l.displaced() {
			l.t.Logf("user %d was told %v before the loss, by %d pods; young: %t; stands at %d", user,
				(l.lostAt - l.told[user].arrival).Time().Sub(time.UnixMicro(0)), len(l.told[user].by), l.young(user),
				standing[user])
		}
	}()
	testenv.Eventually(l.t, "everybody has a place", func() bool {
		return !slices.ContainsFunc(l.displaced(), func(user coupon.UserID) bool { return !l.young(user) })
	})
	lost := l.displaced()
	shown := l.trace.Hides() // who has a receipt is in the journal before they stand
	var answered []coupon.UserID
	for _, user := range lost {
		w, err := l.Restorer().Honour(l.t.Context(), journal.HonourOrder{Coupon: l.id, User: user,
			Arrival: l.told[user].arrival,
			Origin:  audit.Origin{At: time.Now().UTC().Truncate(time.Microsecond), Actor: "kim", Reason: "test"}})
		require.NoError(l.t, err)
		// Who applied again has an outcome of a run that saw them there: it answers the receipt, too.
		if w.Fate == journal.NotSelected {
			answered = append(answered, user)
		}
	}
	shown()
	require.Subset(l.t, answered, l.displaced())
	code, output := l.settle()
	// Redis accepted them, their pod died before it said so, and Redis lost them.
	if gap := l.Check(l.id)[0].Gap; code == 3 && gap > 0 {
		require.LessOrEqual(l.t, gap, l.unsaid, output)
		code, output = l.settle("--accept-gap")
	}
	require.Zero(l.t, code, output)
	l.trace.Check()

	winners := l.Issued(l.id)
	require.LessOrEqual(l.t, len(winners), l.seats)
	// Some users never heard that they were accepted.
	require.True(l.t, len(winners) == l.seats || len(winners) >= len(l.told), "%d winners of %d, %d seats",
		len(winners), len(l.told), l.seats)
	last := coupon.Arrival(0)
	for _, at := range l.IDs("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) FROM user_coupon WHERE "+
		"coupon_id = ?",
		l.id) {
		last = max(last, coupon.Arrival(at))
	}
	for user, is := range l.told {
		passed := is.arrival < last && !slices.Contains(winners, user) && !slices.Contains(lost, user)
		require.False(l.t, passed, "user %d was told %d, the last winner had arrived at %d", user, is.arrival, last)
	}
	l.checkFindings()
	l.t.Logf("%d of %d users needed their receipts, %d pods died; %d winners", len(lost), len(l.told), len(l.dying),
		len(winners))
}
