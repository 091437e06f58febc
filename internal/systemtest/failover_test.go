package systemtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
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
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/load"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// MySQL fails over while users apply, coupons are issued at once, an operator or the night settles, a shop redeems and
// events are published. No program is restarted. Whoever was told ACCEPTED has the place, and the seats are given
// in order. What was told of an issued coupon is true in the end: the same user has the same seat.
//
// If the replica had everything that was committed, MySQL has every change that the shop was told, and every event. If
// it lacked the end, the shop repeats its calls, and then all is as it was told.
//
// JAJEONG_SEED=N repeats the draws of the round N, first.
func TestMySQLFailsOver(t *testing.T) {
	t.Parallel()
	first := testenv.Seed(t)
	for n := range testenv.Rounds(3, 300) {
		seed := first + uint64(n)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			newFailover(t, seed).play()
		})
	}
}

const (
	failoverUsers = 1500 // of each coupon
	failoverSeats = 600
	failoverRate  = 100 // applications a second for each coupon
	failoverLines = 8
	shopCustomers = 800
	shopLines     = 4
)

// way is how the primary ends.
type way string

const (
	isKilled   way = "killed"
	isFrozen   way = "frozen"     // its connections stay open, and nobody answers
	isCut      way = "cut off"    // it serves on, but nobody reaches it
	isLeft     way = "left alone" // it serves on without a replica, and connections to it stay
	isSwitched way = "switched"   // it becomes the replica; its connections lead to a server that is read-only
)

type failover struct {
	*jajeongtest.Deployment
	t       *testing.T
	random  *rand.Rand
	servers *topology.Replicated

	way      way
	semiSync bool
	lacks    time.Duration // what the replica lacks; 0: nothing
	moment   time.Duration // from the beginning of the last settlement
	step     int           // the request of that settlement at which the primary ends; 0: at the moment
	blind    time.Duration // until the replica is promoted
	nightly  bool          // the last settlement is that of the night

	line       []coupon.CouponID // settled by an operator, and issued at once
	night      coupon.CouponID   // settled by the night
	sold       coupon.CouponID   // whose holders buy
	pods       []*testenv.Program
	wallet     *testenv.Program
	sink       *streamSink
	over       context.Context
	stop       context.CancelFunc
	loading    sync.WaitGroup
	promotedAt time.Time

	began       time.Time
	before      int64         // coupons that the new primary has of those issued at once
	issuedAfter time.Duration // when it had more

	mu     sync.Mutex
	told   map[coupon.CouponID]map[coupon.UserID]coupon.Arrival
	calls  map[string][]failoverCall
	orders []*failoverOrder
}

// failoverCall is a call that needs MySQL.
type failoverCall struct {
	client       int
	began, ended time.Time
	done         bool
}

// failoverOrder is what the shop knows of an order.
type failoverOrder struct {
	id     string
	user   coupon.UserID
	refund bool
	state  coupon.OrderState // the last one that it was told
}

func newFailover(t *testing.T, seed uint64) *failover {
	random := rand.New(rand.NewPCG(seed, 0))
	f := &failover{t: t, random: random, semiSync: seed%3 != 1,
		way:    []way{isKilled, isFrozen, isCut, isLeft}[random.IntN(4)],
		moment: time.Duration(random.IntN(500)) * time.Millisecond,
		blind:  time.Duration(random.IntN(1000)) * time.Millisecond,
		told:   map[coupon.CouponID]map[coupon.UserID]coupon.Arrival{}, calls: map[string][]failoverCall{}}
	switch {
	case seed%3 == 2:
		f.way = isSwitched
	case !f.semiSync:
		f.way = []way{isKilled, isFrozen, isCut}[random.IntN(3)] // who is left alone is told what nobody keeps
		f.lacks = 100*time.Millisecond + time.Duration(random.IntN(testenv.Rounds(1500, 4900)))*time.Millisecond
	}
	if f.way != isSwitched && random.IntN(2) == 0 {
		f.step = 1 + random.IntN(40)
	}
	f.nightly = random.IntN(2) == 0
	t.Logf("the primary is %s, semi-synchronous: %t; the replica lacks %v; %v after the beginning of a settlement, or "+
		"at its request %d; of the night: %t; promoted after %v", f.way, f.semiSync, f.lacks, f.moment, f.step,
		f.nightly, f.blind)

	f.servers = topology.StartReplicated(t, topology.ReplicatedOptions{SemiSync: f.semiSync})
	admin, err := (&connect.MySQLSettings{MySQLDSN: f.servers.DSN("mysql")}).Open(connect.Patient, zap.NewNop())
	testenv.Opened(t, admin, err)
	_, err = admin.Exec("CREATE DATABASE jajeong CHARACTER SET utf8mb4")
	require.NoError(t, err)
	f.Deployment = jajeongtest.NewWith(t, jajeongtest.Options{
		MySQL: &testenv.MySQLHandle{DSN: f.servers.DSN("jajeong")}})
	f.startServe()
	f.addCoupons()
	f.start()
	return f
}

func (f *failover) addCoupons() {
	customers := jajeongtest.Between[coupon.UserID](1, shopCustomers)
	f.sold = f.AddQueue(shopCustomers, customers...)
	f.Exec("UPDATE coupon SET discount_won = 5000")
	f.SettleNow()
	f.AddUsers(jajeongtest.Between[coupon.UserID](firstFireUser, firstFireUser+failoverUsers-1)...)
	for range 2 {
		id := f.AddCoupon(failoverSeats)
		f.line, f.told[id] = append(f.line, id), map[coupon.UserID]coupon.Arrival{}
	}
	f.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", f.line[1])
	now := f.Now()
	f.night = f.AddCouponBetween(failoverSeats, now.Add(-48*time.Hour), now.Add(time.Hour))
	f.told[f.night] = map[coupon.UserID]coupon.Arrival{}
	for i := range failoverUsers {
		user, at := coupon.UserID(firstFireUser+i), now.Add(time.Duration(i)*time.Microsecond-24*time.Hour)
		f.ApplyAt(f.night, user.Member(), at)
		f.told[f.night][user] = coupon.ArrivalAt(at)
		f.SetLast(f.night, coupon.ArrivalAt(at))
	}
}

// startServe turns the events on.
func (f *failover) startServe() {
	f.began = time.Now()
	server := testenv.PrivateRedis(f.t, testenv.RedisOptions{})
	f.sink = &streamSink{server: server, client: testenv.RedisClient(f.t, server.Addr()),
		stream: f.Prefix + "coupon:events"}
	for range 2 {
		f.Start(f.Environment(), "./cmd/settle", append(append([]string{"serve", "--tasks=issue,journal,events",
			"--issue-interval=250ms"}, f.sink.flags()...), f.Flags(f.Job)...)...)
	}
	testenv.Eventually(f.t, "events are turned on", func() bool {
		return f.Number("SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL") == 1
	})
}

// start starts the servers of users and of the shop, and what users, operators and the shop do.
func (f *failover) start() {
	f.promotedAt = f.began
	f.over, f.stop = context.WithCancel(testenv.Patient(f.t))
	f.t.Cleanup(f.stop)
	for _, after := range []string{"journal", "redis"} {
		f.pods = append(f.pods, f.Start(append(f.Environment(), "ACCEPT_AFTER="+after), "./cmd/apply-api",
			f.Flags(f.API)...))
	}
	keys := filepath.Join(f.t.TempDir(), "keys")
	require.NoError(f.t, os.WriteFile(keys, fmt.Appendf(nil, "checkout %x\n", sha256.Sum256([]byte(shopKey))), 0o600))
	f.wallet = f.Start(f.Environment(), "./cmd/wallet-api", "--mysql-dsn="+f.Wallet.MySQLDSN,
		"--service-keys-file="+keys)
	for _, id := range f.line {
		seed := f.random.Uint64()
		f.loading.Go(func() { f.apply(id, seed) })
	}
	for place := range shopLines {
		f.loading.Go(func() { f.buy(place) })
	}
}

// apply lets random users apply, at both pods.
func (f *failover) apply(id coupon.CouponID, seed uint64) {
	path := fmt.Sprintf("POST /v1/coupons/%d/applications", id)
	load.Run(f.over, load.Every(failoverRate), failoverLines, func(place int, requests iter.Seq[load.Request]) {
		random := rand.New(rand.NewPCG(seed, uint64(place)))
		line := load.NewLine(f.pods[place%2].Apply, path, testenv.Deadline(f.t))
		defer line.Close()
		for range requests {
			user := firstFireUser + random.Uint64N(failoverUsers)
			began := time.Now()
			reply, err := line.Ask(user)
			done := err == nil && (reply.Status == http.StatusAccepted || reply.Status == http.StatusOK)
			f.mu.Lock()
			if done {
				var body struct{ AppliedAt time.Time }
				if err := json.Unmarshal(reply.Body, &body); assert.NoError(f.t, err) {
					at := coupon.ArrivalAt(body.AppliedAt)
					if before, again := f.told[id][coupon.UserID(user)]; !again || at < before {
						f.told[id][coupon.UserID(user)] = at
					}
				}
			}
			if place%2 == 0 && err == nil && reply.Status != http.StatusConflict { // a conflict needs no MySQL
				f.calls["applying with ACCEPT_AFTER=journal"] = append(
					f.calls["applying with ACCEPT_AFTER=journal"], failoverCall{place, began, time.Now(), done})
			}
			f.mu.Unlock()
		}
	})
}

// buy places an order for each customer, and refunds some.
func (f *failover) buy(place int) {
	for user := coupon.UserID(place + 1); user <= shopCustomers; user += shopLines {
		o := &failoverOrder{id: fmt.Sprintf("A-%d", user), user: user, refund: user%3 == 0}
		f.mu.Lock()
		f.orders = append(f.orders, o)
		f.mu.Unlock()
		if f.place(f.over, o) != nil {
			return
		}
		pause(f.over, 200*time.Millisecond)
	}
}

// place makes the calls of an order, each until it is done. It begins again where a call is lost that was answered.
func (f *failover) place(ctx context.Context, o *failoverOrder) error {
	calls := []struct{ method, path, body string }{
		{http.MethodPut, "", fmt.Sprintf(`{"couponId":%d,"userId":%d,"amountWon":30000}`, f.sold, o.user)},
		{http.MethodPost, "/confirm", ""}, {http.MethodPost, "/refund", ""}}
	if !o.refund {
		calls = calls[:2]
	}
	for i := 0; i < len(calls); {
		state, err := f.call(ctx, o, calls[i].method, calls[i].path, calls[i].body)
		switch {
		case ctx.Err() != nil, f.t.Failed():
			return context.Canceled
		case errors.Is(err, errLost):
			i = 0
		case err != nil:
			pause(ctx, 50*time.Millisecond)
		default:
			f.mu.Lock()
			o.state = state
			f.mu.Unlock()
			i++
		}
	}
	return nil
}

// Answers of wallet-api.
var (
	errAway = errors.New("UNAVAILABLE")
	errLost = errors.New("an earlier call is lost")
)

func (f *failover) call(ctx context.Context, o *failoverOrder, method, path, body string) (coupon.OrderState, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+f.wallet.Wallet+"/v1/orders/"+o.id+"/coupon"+path,
		bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+shopKey)
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var a struct {
		State coupon.OrderState
		Code  string
	}
	err = json.NewDecoder(response.Body).Decode(&a)
	f.mu.Lock()
	f.calls["checkout"] = append(f.calls["checkout"], failoverCall{int(o.user % shopLines), began, time.Now(),
		response.StatusCode < 300})
	f.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case response.StatusCode < 300:
		return a.State, nil
	case a.Code == "ORDER_REFUNDED": // the end of an order
		return coupon.OrderRefunded, nil
	case a.Code == errAway.Error():
		return "", errAway
	case f.lacks > 0 && slices.Contains([]string{"ORDER_NOT_FOUND", "RESERVATION_LOST", "NOT_USED"}, a.Code):
		return "", errLost
	default:
		f.t.Errorf("%s %s%s: %d %s", method, o.id, path, response.StatusCode, a.Code)
		return "", errors.New(a.Code)
	}
}

// settle is a settlement of the night, or by an operator.
func (f *failover) settle(through *jajeongtest.Deployment, nightly bool) *exec.Cmd {
	order := []string{"run"}
	if !nightly {
		order = append(order, "--cutoff=now", "--coupon="+f.line[0].String(), "--operator=kim", "--reason=test", "--yes")
	}
	cmd := exec.Command(testenv.Build(f.t, "./cmd/settle"), append(order, through.Flags(through.Job)...)...)
	cmd.Env = f.Environment()
	return cmd
}

func (f *failover) play() {
	f.awaitWork()
	require.NoError(f.t, f.settle(f.Deployment, false).Run())
	if f.lacks > 0 {
		f.servers.Behind(f.t)
		<-time.After(f.lacks)
	}
	f.strike()
	f.awaitWork()
	f.measure()
	f.stop()
	f.loading.Wait()
	require.False(f.t, f.t.Failed())

	lost := f.repeatOrders()
	f.SettleByProgram(f.line[0])
	code, output := f.RunToEnd(func() *exec.Cmd { return f.settle(f.Deployment, true) })
	require.Zero(f.t, code, output)
	f.awaitIssued()
	for id := range f.told {
		f.checkLine(id)
	}
	f.checkEvents()
	f.verify()
	f.t.Logf("the shop was told of %d orders, of which the new primary lacked %d", len(f.orders), lost)
}

// strike ends the primary during a settlement, and promotes the replica.
func (f *failover) strike() {
	f.t.Helper()
	strike, struck := sync.OnceFunc(f.end), make(chan struct{})
	through := f.Deployment
	if f.step > 0 {
		_, through = f.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
			if turn.Number == f.step {
				strike()
				close(struck)
			}
			return faultproxy.Pass()
		})
	}
	run := f.settle(through, f.nightly)
	var output bytes.Buffer
	run.Stdout, run.Stderr = &output, &output
	require.NoError(f.t, run.Start())
	select {
	case <-struck:
	case <-time.After(f.moment):
		if f.step == 0 {
			strike()
			break
		}
		select { // a short settlement has fewer requests
		case <-struck:
		case <-time.After(time.Second):
			strike()
		}
	}
	if f.way == isSwitched {
		f.servers.Switch(f.t)
	} else {
		<-time.After(f.blind)
		f.servers.Promote(f.t, true)
	}
	f.promotedAt = time.Now()
	f.loading.Go(func() {
		_ = run.Wait()
		code := run.ProcessState.ExitCode()
		assert.True(f.t, code == 0 || code == 1, "%d: %s", code, &output)
		f.t.Logf("the settlement ended with exit code %d, %v after the promotion", code, time.Since(f.promotedAt))
	})
	db, err := (&connect.MySQLSettings{MySQLDSN: f.servers.Primary.DSN("jajeong")}).Open(connect.Patient, zap.NewNop())
	f.DB = testenv.Opened(f.t, db, err) // its connections would stay where they are
	f.before = f.issuedAtOnce()
}

func (f *failover) end() {
	switch f.way {
	case isKilled:
		assert.NoError(f.t, f.servers.Primary.Kill())
	case isFrozen:
		assert.NoError(f.t, f.servers.Primary.Freeze())
	case isCut:
		f.servers.Address.Silence()
	}
}

// awaitWork waits until everything that needs MySQL works, since the promotion.
func (f *failover) awaitWork() {
	f.t.Helper()
	testenv.Eventually(f.t, "calls are answered", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.first("applying with ACCEPT_AFTER=journal") > 0 && f.first("checkout") > 0 || f.t.Failed()
	})
	testenv.Eventually(f.t, "coupons are issued at once", func() bool { return f.issuedAtOnce() > f.before })
	f.issuedAfter = time.Since(f.promotedAt)
	<-time.After(time.Second)
}

// first is the time from the promotion until the first call is done that began afterwards. 0: none is.
func (f *failover) first(kind string) time.Duration {
	for _, c := range f.calls[kind] {
		if c.done && c.began.After(f.promotedAt) {
			return max(1, c.ended.Sub(f.promotedAt))
		}
	}
	return 0
}

// measure demands that no call of a client fails after the new primary has answered the client.
func (f *failover) measure() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, calls := range f.calls {
		first := f.first(kind)
		f.t.Logf("%s works again after %v", kind, first.Round(time.Millisecond))
		var failed []time.Duration
		answered := map[int]bool{}
		for _, c := range calls {
			since := c.began.Sub(f.promotedAt)
			answered[c.client] = answered[c.client] || c.done && since > 0
			if !c.done && answered[c.client] {
				failed = append(failed, since)
			}
		}
		if f.way != isLeft { // whose commits hang
			assert.Empty(f.t, failed, kind)
		}
	}
	f.t.Logf("coupons are issued again after %v", f.issuedAfter.Round(time.Millisecond))
}

func (f *failover) issuedAtOnce() int64 {
	f.t.Helper()
	return f.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", f.line[1])
}
