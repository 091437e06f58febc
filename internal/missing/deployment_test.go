package missing_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/missing"
	"github.com/jajeong/jajeong/internal/recall"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// pod is a pod under the accounts of apply-api. Its clock stands still, except that a test sets it ahead.
type pod struct {
	*jajeongtest.Deployment
	store   *candidates.Store
	catalog *catalog.Catalog
	finder  *missing.Finder
	handler http.Handler
	logs    *observer.ObservedLogs
	ahead   atomic.Int64

	justChanged atomic.Bool // no time passes in Redis after its server has changed
}

// stoppable is a Redis. While justChanged is set, its clock shows the moment in which its server changed.
type stoppable struct {
	*candidates.Store
	justChanged *atomic.Bool
}

func (s stoppable) Publish(ctx context.Context, w coupon.Window,
	known coupon.Promise) (candidates.Published, bool, error) {
	now, published, err := s.Store.Publish(ctx, w, known)
	if s.justChanged.Load() {
		now.Now = now.Since.Time()
	}
	return now, published, err
}

func newPod(d *jajeongtest.Deployment) *pod {
	d.T.Helper()
	return newPodWith(d, candidates.Options{KeyPrefix: d.Prefix})
}

func newPodWith(d *jajeongtest.Deployment, options candidates.Options) *pod {
	d.T.Helper()
	p := &pod{Deployment: d}
	began := time.Now()
	now := func() time.Time { return began.Add(time.Duration(p.ahead.Load())) }
	servers, err := connect.Open(&d.API.MySQLSettings, connect.Settling, &d.API.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(servers.Close)
	p.store, err = candidates.NewStore(servers.Redis, options)
	require.NoError(d.T, err)
	memory := recall.New(p.store)
	core, logs := observer.New(zap.InfoLevel)
	p.logs = logs
	p.finder = missing.New(missing.Options{DB: servers.MySQL, Store: p.store, Memory: memory, Logger: zap.New(core),
		Now: now})
	p.catalog = catalog.New(catalog.Options{DB: servers.MySQL, Store: stoppable{p.store, &p.justChanged},
		Memory: memory, Missing: p.finder,
		Logger: zap.NewNop(), Now: now})
	p.handler = api.New(api.Options{
		Identity: identity.FromHeader(zap.NewNop(), identity.Anywhere()...),
		Queue:    p.store, Records: standing.Records{DB: servers.MySQL}, Losses: p.finder, Coupons: p.catalog,
		Terms:  standing.Terms{Zone: func() *time.Location { return time.UTC }},
		Limits: api.Limits{InFlight: 100}, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(), Now: now,
	})
	return p
}

func (p *pod) refresh() {
	p.T.Helper()
	require.NoError(p.T, p.RefreshOf(p.catalog))
}

func (p *pod) accepts(id coupon.CouponID, users ...coupon.UserID) {
	p.T.Helper()
	for _, user := range users {
		receipt, err := p.store.Apply(p.T.Context(), id, user)
		require.NoError(p.T, err)
		require.Equal(p.T, candidates.Accepted, receipt.Code)
	}
}

// The answers of /me.
const (
	pending    = "PENDING"
	restoring  = "RESTORING"
	notApplied = "NOT_APPLIED"
	mayBeLost  = "NOT_APPLIED, may be lost"

	unavailable = "UNAVAILABLE"
)

// me asks for the state of an application until it is answered in time.
func (p *pod) me(id coupon.CouponID, user coupon.UserID) string {
	p.T.Helper()
	for {
		status := p.askOnce(id, user)
		if status != unavailable || testenv.Patient(p.T).Err() != nil {
			return status
		}
	}
}

func (p *pod) askOnce(id coupon.CouponID, user coupon.UserID) string {
	p.T.Helper()
	request := httptest.NewRequest(http.MethodGet, "/v1/coupons/"+id.String()+"/applications/me", nil)
	request.Header.Set("X-User-ID", user.Member())
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, request)
	var answer struct {
		Status    any
		Code      string
		MayBeLost bool
	}
	require.NoError(p.T, json.Unmarshal(recorder.Body.Bytes(), &answer))
	if answer.Code == restoring {
		require.Equal(p.T, http.StatusServiceUnavailable, recorder.Code)
		require.Equal(p.T, "1", recorder.Header().Get("Retry-After"))
	}
	if status, ok := answer.Status.(string); ok {
		return status
	}
	if answer.MayBeLost {
		return answer.Code + ", may be lost"
	}
	return answer.Code
}

// misses returns the values of the metric by coupon.
func (p *pod) misses() map[string]float64 {
	p.T.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.finder)
	families, err := registry.Gather()
	require.NoError(p.T, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			found[m.Label[0].GetValue()] = m.Gauge.GetValue()
		}
	}
	return found
}

// awaitMissing refreshes, as the pod does until nothing is open, until the metric has the value.
func (p *pod) awaitMissing(id coupon.CouponID, want float64) {
	p.T.Helper()
	testenv.Eventually(p.T, "the metric shows what is missing", func() bool {
		p.refresh()
		return p.misses()[id.String()] == want
	})
}

func (p *pod) logged(message string, fields map[string]any) {
	p.T.Helper()
	all := p.logs.TakeAll()
	require.Len(p.T, all, 1)
	require.Equal(p.T, message, all[0].Message)
	require.Equal(p.T, fields, all[0].ContextMap())
}

// restored notes the end of a restore, as `settle serve` does.
func (p *pod) restored(id coupon.CouponID, missing int) {
	p.T.Helper()
	since, err := p.Redis.HGet(p.T.Context(), p.Key("state", id), "since").Result()
	require.NoError(p.T, err)
	require.NoError(p.T, p.Redis.HSet(p.T.Context(), p.Key("state", id), "restored", since, "missing", missing).Err())
}

const (
	isMissing = "accepted applications are missing in redis and mysql"
	isFound   = "no accepted applications are missing any longer"
)

func TestEmptyRedis(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 30)...)
	id, other := d.AddCoupon(5), d.AddCoupon(5)
	died, p := newPod(d), newPod(d)
	died.accepts(id, jajeongtest.Between[coupon.UserID](1, 20)...)
	died.accepts(other, 1)
	died.refresh()
	p.refresh()
	require.Equal(t, pending, p.me(id, 20))
	require.Equal(t, notApplied, p.me(id, 21))

	d.LoseRedis(id)
	p.justChanged.Store(true)
	for range 2 {
		require.Equal(t, restoring, p.me(id, 20), "before a refresh, and after it")
		require.Equal(t, restoring, p.me(id, 21))
		p.refresh()
	}
	p.accepts(id, 22)
	require.Equal(t, pending, p.me(id, 22))
	require.Empty(t, p.logs.All(), "another pod may remember")
	p.justChanged.Store(false)
	p.awaitMissing(id, 20)
	require.Len(t, p.misses(), 1, "only coupons that miss something")
	p.logged(isMissing, map[string]any{"coupon_id": uint64(id), "missing": int64(20), "accepted": int64(21)})
	require.Equal(t, notApplied, p.me(other, 20))

	p.restored(id, 20) // it has found nobody
	require.Equal(t, mayBeLost, p.me(id, 20))
	d.AcceptGap()
	p.awaitMissing(id, 0)
	p.logged(isFound, map[string]any{"coupon_id": uint64(id)})
	require.Equal(t, mayBeLost, p.me(id, 20), "an operator who accepts a loss does not undo it")
	young := newPod(d)
	young.refresh()
	require.Equal(t, mayBeLost, young.me(id, 20))
	require.Equal(t, notApplied, p.me(other, 20))
}

func TestRestoredApplicationsAreNoLongerMissing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	id := d.AddCoupon(5)
	died, p := newPod(d), newPod(d)
	died.accepts(id, 1, 2, 3)
	d.Journal(id)
	died.refresh()
	d.LoseRedis(id)
	p.refresh()
	require.Equal(t, restoring, p.me(id, 2))
	require.EqualValues(t, 3, d.Restore(id).Back)
	require.Equal(t, pending, p.me(id, 2))
	require.Equal(t, notApplied, p.me(id, 4))
	p.refresh()
	p.refresh()
	require.Empty(t, p.misses())
	require.Empty(t, p.logs.All())
}

func TestQueueDeletedByHand(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4, 5)
	id := d.AddCoupon(10)
	died, p := newPod(d), newPod(d)
	died.accepts(id, 1, 2, 3)
	p.refresh()
	d.SettleNow()
	p.refresh()
	died.accepts(id, 4, 5)
	died.refresh()

	require.NoError(t, d.Redis.Del(t.Context(), d.Queue(id)).Err())
	require.Equal(t, restoring, p.me(id, 5))
	require.Equal(t, "ISSUED", p.me(id, 1))
	p.awaitMissing(id, 2)
	p.logged(isMissing, map[string]any{"coupon_id": uint64(id), "missing": int64(2), "accepted": int64(5)})
	p.ahead.Store(int64(time.Minute))
	require.Equal(t, mayBeLost, p.me(id, 5))
}

// The pod that accepted them puts them back, although no server has changed.
func TestMembersDeletedByHandAreRemembered(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	id := d.AddCoupon(10)
	p := newPod(d)
	p.accepts(id, 1, 2, 3)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), 1, 3).Err())
	testenv.Eventually(t, "everybody waits again", func() bool {
		p.refresh()
		return len(d.Waiting(id)) == 3
	})
	require.Equal(t, pending, p.me(id, 3))
}

// Nobody is missing if the queue is left, but that is not known before Redis has the coupon's counts again.
func TestStateDeletedByHand(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	id := d.AddCoupon(5)
	died, p := newPod(d), newPod(d)
	died.accepts(id, 1, 2, 3)
	died.refresh()
	p.refresh()
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("state", id)).Err())
	require.Equal(t, restoring, p.me(id, 9))
	require.Equal(t, pending, p.me(id, 3))
	p.refresh()
	require.Equal(t, restoring, p.me(id, 9))
	require.Equal(t, pending, p.me(id, 3))
	p.restored(id, 0)
	require.Equal(t, notApplied, p.me(id, 9))
	p.refresh()
	require.Empty(t, p.misses())

	d.LoseRedis(id) // and now the queue, too
	require.Equal(t, restoring, p.me(id, 3))
	p.awaitMissing(id, 3)
	p.logged(isMissing, map[string]any{"coupon_id": uint64(id), "missing": int64(3), "accepted": int64(3)})
}

// A replica has taken over that is older than what pods have told applicants. No pod has refreshed since, and none has
// applied.
func TestStaleReplicaBeforeAnyRefresh(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4)
	id := d.AddCoupon(5)
	p := newPod(d)
	p.accepts(id, 1, 2)
	p.refresh()
	p.accepts(id, 3)
	state := d.Key("state", id)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), 3).Err())
	require.NoError(t, d.Redis.HSet(t.Context(), state, "accepted", 2, "run_id",
		"0123456789012345678901234567890123456789").Err())

	require.Equal(t, restoring, p.me(id, 3))
	require.Equal(t, pending, p.me(id, 2))
	testenv.Eventually(t, "the pod puts it back", func() bool {
		p.refresh()
		return p.me(id, 3) == pending
	})
	p.restored(id, 0)
	require.Equal(t, notApplied, p.me(id, 4))
}

// What pods put back after a failover was never missing.
func TestNoAlarmForPutBack(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 40)...)
	id := d.AddCoupon(5)
	patient := candidates.Options{KeyPrefix: d.Prefix, PutBackTime: time.Hour}
	first, second := newPodWith(d, patient), newPodWith(d, patient)
	first.accepts(id, jajeongtest.Between[coupon.UserID](1, 20)...)
	second.accepts(id, jajeongtest.Between[coupon.UserID](21, 40)...)
	first.refresh()
	second.refresh()
	d.LoseRedis(id)
	first.justChanged.Store(true)
	second.justChanged.Store(true)
	for range 3 { // the second pod refreshes later
		first.refresh()
	}
	require.Empty(t, first.misses())
	testenv.Eventually(t, "all are put back", func() bool {
		second.refresh()
		return len(d.Waiting(id)) == 40
	})
	for _, p := range []*pod{first, second} {
		p.refresh()
		p.refresh()
		require.Empty(t, p.misses())
		require.Empty(t, p.logs.All())
		require.Equal(t, pending, p.me(id, 7))
	}
}

// People apply and are settled at full speed, at once and by runs that clean up later, while a pod looks all the time.
func TestNoAlarmWhilePeopleApplyAndAreSettled(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	const users = 400
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, users)...) // later users are unknown
	at, night := d.AddImmediate(users/2), d.AddCoupon(users/4)
	p := newPod(d)
	p.refresh()
	run := func(work func() (more bool)) func() {
		return func() {
			for work() {
			}
		}
	}
	var applied atomic.Int64
	var working sync.WaitGroup
	var ended atomic.Bool
	for _, id := range []coupon.CouponID{at, night} {
		working.Go(run(func() bool {
			user := coupon.UserID(applied.Add(1))
			_, err := p.store.Apply(t.Context(), id, user)
			return err == nil && user < 2*users+200
		}))
	}
	var others sync.WaitGroup
	s := d.Settler()
	others.Go(run(func() bool { s.IssueNow(t.Context(), at); return !ended.Load() }))
	others.Go(run(func() bool {
		_, err := s.RunOnce(t.Context(), jajeongtest.Manual(night))
		return err == nil && !ended.Load()
	}))
	var alarms, doubted int
	var refreshes, asked atomic.Int64
	others.Go(run(func() bool {
		refreshes.Add(1)
		if p.RefreshOf(p.catalog) != nil || len(p.misses()) > 0 {
			alarms++
		}
		return !ended.Load()
	}))
	others.Go(run(func() bool {
		asked.Add(1)
		if p.me(at, 1_000_000) != notApplied || p.me(night, 1_000_000) != notApplied {
			doubted++
		}
		return !ended.Load()
	}))
	working.Wait()
	testenv.Eventually(t, "several looks", func() bool { return min(refreshes.Load(), asked.Load()) > 5 })
	ended.Store(true)
	others.Wait()
	require.Zero(t, alarms)
	require.Zero(t, doubted)
	require.Empty(t, p.logs.All())

	d.SettleNow(night)
	d.SetSeats(night, users) // NOT_SELECTED users get the added seats
	d.SettleNow()
	p.refresh()
	p.refresh()
	require.Empty(t, p.misses())
	for _, id := range []coupon.CouponID{at, night} { // this test can fail
		d.AddPromises(id, 2)
		p.awaitMissing(id, 2)
	}
}

// A pod whose account may not read the sums, because grants.sql was not run after a migration, still serves its
// coupons.
func TestWithoutGrantsCouponsArePublished(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Refresh()
	d.SettleNow()
	d.Exec("REVOKE SELECT (coupon_id, issued, concluded, settled_up_to) ON settled FROM " + account(d))
	p := newPod(d)
	require.ErrorContains(t, p.RefreshOf(p.catalog), "read promises and sums")
	_, known := p.catalog.Lookup(id)
	require.True(t, known)
	require.Empty(t, p.misses())
}

// account is the account of pods, as GRANT names it.
func account(d *jajeongtest.Deployment) string {
	d.T.Helper()
	found := jajeongtest.Column[string](d, `SELECT DISTINCT GRANTEE FROM information_schema.COLUMN_PRIVILEGES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'settled' AND COLUMN_NAME = 'issued' AND PRIVILEGE_TYPE = 'SELECT'`)
	require.Len(d.T, found, 1)
	return found[0]
}
