package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/load"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// With ACCEPT_AFTER=journal, Redis with its disk and all pods are lost at a random moment under load. Whoever was told
// ACCEPTED or DUPLICATE before keeps the place, also before those who apply at the new pods. JAJEONG_SEED=N repeats the
// draws of the round N, first.
func TestAcceptAfterJournal_RedisAndAllPodsBurn(t *testing.T) {
	t.Parallel()
	first, rounds := testenv.Seed(t), testenv.Rounds(10, 100)
	for n := range rounds {
		seed := first + uint64(n)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { newFire(t, seed).play() })
	}
}

const (
	firePods  = 2
	fireLines = 128 // connections of the load
	fireRate  = 5000
	// fireUsers are fewer than the applications of a long round: some of them apply again.
	fireUsers     = 1500
	firstFireUser = 5_000_000_000 // a load needs ids of ten digits
	// The load lasts for up to longestFire from its first answer, and for afterFire at the new pods.
	longestFire = 400 * time.Millisecond
	afterFire   = 50 * time.Millisecond
)

// fire is one round.
type fire struct {
	*jajeongtest.Deployment
	t         *testing.T
	random    *rand.Rand
	moment    time.Duration // from the first answer until everything is lost
	seats     int
	immediate bool
	server    *testenv.Redis
	id        coupon.CouponID

	mu       sync.Mutex
	told     map[coupon.UserID]coupon.Arrival // the first arrival of each user
	tellings int                              // applications that were told an arrival
	unsaid   int64                            // the others
	answered chan struct{}                    // closed at the first answer
}

func newFire(t *testing.T, seed uint64) *fire {
	random := rand.New(rand.NewPCG(seed, 0))
	f := &fire{t: t, random: random, told: map[coupon.UserID]coupon.Arrival{}, answered: make(chan struct{})}
	f.moment = time.Duration(random.Int64N(longestFire.Microseconds())) * time.Microsecond
	f.seats, f.immediate = 1+random.IntN(fireUsers), random.IntN(2) == 0
	serving := random.IntN(2) == 0
	t.Logf("Redis and the pods are lost %v after the first answer; %d seats; immediate: %t; settle serve runs: %t",
		f.moment, f.seats, f.immediate, serving)

	f.server = testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	f.Deployment = jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, f.server.Addr())})
	f.AddUsers(jajeongtest.Between[coupon.UserID](firstFireUser, firstFireUser+fireUsers-1)...)
	f.id = f.AddCoupon(f.seats)
	if f.immediate {
		f.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", f.id)
	}
	if serving {
		f.Start(f.Environment(), "./cmd/settle", append(f.Flags(f.Job), "serve", "--tasks=issue,journal")...)
	}
	return f
}

func (f *fire) play() {
	pods := f.startPods()
	ctx, stop := context.WithCancel(f.t.Context())
	defer stop()
	var loading sync.WaitGroup
	loading.Go(func() { f.load(ctx, pods) })
	testenv.Receive(f.t, "an application is answered", f.answered)
	<-time.After(f.moment)
	f.burn(pods)
	stop()
	loading.Wait()
	f.t.Logf("%d users were told so, in %d answers", len(f.told), f.tellings)
	require.NoError(f.t, f.server.Restart(f.t.Context()))

	pods = f.startPods()
	ctx, stop = context.WithTimeout(f.t.Context(), afterFire)
	defer stop()
	f.load(ctx, pods)
	f.settle()
	f.check()
}

func (f *fire) startPods() (pods []*testenv.Program) {
	f.t.Helper()
	for range firePods {
		cmd := exec.Command(testenv.Build(f.t, "./cmd/apply-api"), f.Flags(f.API)...)
		cmd.Env = append(f.Environment(), "ACCEPT_AFTER=journal")
		p, err := testenv.StartProgram(testenv.Patient(f.t), cmd)
		require.NoError(f.t, err)
		f.t.Cleanup(func() { f.kill(p) })
		pods = append(pods, p)
	}
	return pods
}

// kill kills a pod, unless it was killed before.
func (f *fire) kill(p *testenv.Program) {
	if p.ProcessState == nil {
		assert.NoError(f.t, p.Process.Kill())
		<-p.Ended()
		_ = p.Wait()
	}
}

// burn kills Redis and all pods at the same moment, and empties the disk of Redis.
func (f *fire) burn(pods []*testenv.Program) {
	f.t.Helper()
	var dying sync.WaitGroup
	dying.Go(func() { assert.NoError(f.t, f.server.Kill()) })
	for _, p := range pods {
		dying.Go(func() { f.kill(p) })
	}
	dying.Wait()
	disk := filepath.Join(f.server.Dir(), "appendonlydir")
	require.DirExists(f.t, disk)
	require.NoError(f.t, os.RemoveAll(disk))
}

// load lets random users apply until ctx ends.
func (f *fire) load(ctx context.Context, pods []*testenv.Program) {
	path := fmt.Sprintf("POST /v1/coupons/%d/applications", f.id)
	seed := f.random.Uint64()
	load.Run(ctx, load.Every(fireRate), fireLines, func(place int, requests iter.Seq[load.Request]) {
		random := rand.New(rand.NewPCG(seed, uint64(place)))
		line := load.NewLine(pods[place%len(pods)].Apply, path, testenv.Deadline(f.t))
		defer line.Close()
		for range requests {
			user := firstFireUser + random.Uint64N(fireUsers)
			reply, err := line.Ask(user)
			f.note(coupon.UserID(user), reply, err)
		}
	})
}

// note notes what a user was told.
func (f *fire) note(user coupon.UserID, reply load.Reply, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || reply.Status != http.StatusAccepted && reply.Status != http.StatusOK {
		f.unsaid++
		return
	}
	var body struct{ AppliedAt time.Time }
	if err := json.Unmarshal(reply.Body, &body); !assert.NoError(f.t, err) {
		return
	}
	if f.tellings++; f.tellings == 1 {
		close(f.answered)
	}
	at := coupon.ArrivalAt(body.AppliedAt)
	if before, again := f.told[user]; !again || at < before {
		f.told[user] = at
	}
}

// settle settles everybody who has applied. A nightly run restores by itself.
func (f *fire) settle() {
	f.t.Helper()
	if !f.immediate {
		f.SettleNow(f.id)
		return
	}
	// Pods that see the end of a restore late may hand over whom a run has settled meanwhile: the next restore knows.
	testenv.Eventually(f.t, "nobody is left to be issued", func() bool {
		result := f.IssueNow(f.id)
		if result.Status == coupon.Busy {
			f.Restore(f.id)
		}
		return result.Status == coupon.Unchanged
	})
}

func (f *fire) check() {
	winners := f.Issued(f.id)
	f.t.Logf("%d users were told in all, in %d answers; %d applications got no place; %d winners", len(f.told),
		f.tellings, f.unsaid, len(winners))
	require.LessOrEqual(f.t, len(winners), f.seats)
	require.True(f.t, len(winners) == f.seats || len(winners) >= len(f.told), "seats are left")
	places := placesOf(f.Deployment, f.id)
	last := coupon.Arrival(0)
	for _, winner := range winners { // in the order of their seats
		require.Less(f.t, last, places[winner])
		last = places[winner]
	}
	for user, at := range f.told {
		place, ok := places[user]
		require.True(f.t, ok, "user %d was told %d and is lost", user, at)
		require.LessOrEqual(f.t, place, at, "user %d", user)
		require.True(f.t, place > last || slices.Contains(winners, user),
			"user %d was told %d and is passed over", user, at)
	}
	f.verify()
}

// verify runs `settle verify`. What Redis had accepted and nobody was told may be unknown; that is a warning.
func (f *fire) verify() {
	f.t.Helper()
	code, output := f.RunToEnd(func() *exec.Cmd {
		cmd := exec.CommandContext(testenv.Patient(f.t), testenv.Build(f.t, "./cmd/settle"),
			append(f.Flags(f.Operator), "verify", "--coupon="+f.id.String())...)
		cmd.Env = f.Environment()
		return cmd
	})
	require.Zero(f.t, code, output)
	for _, code := range f.Findings(f.id) {
		require.Equal(f.t, verify.PromiseUnknown, code)
	}
	unknown := f.Number("SELECT COALESCE(SUM(unfound), 0) FROM journal WHERE coupon_id = ?", f.id)
	require.LessOrEqual(f.t, unknown, f.unsaid)
}
