package standing_test

import (
	"cmp"
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

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv"
)

// The answers of /me.
const (
	restoring  = "RESTORING"
	notApplied = "NOT_APPLIED"
	mayBeLost  = "NOT_APPLIED, may be lost"
	pending    = "PENDING"
	isIssued   = "ISSUED"
)

// pod is a pod under the accounts of apply-api, which has one coupon in its catalog.
type pod struct {
	*jajeongtest.Deployment
	coupon.Coupon // as the catalog has it

	store   *candidates.Store
	handler http.Handler
	ahead   atomic.Int64 // of its clock
}

func newPod(t *testing.T, seats int, users ...coupon.UserID) *pod {
	t.Helper()
	d := jajeongtest.New(t)
	of := coupon.Coupon{ID: d.AddCoupon(seats), TotalQuantity: seats, Cadence: coupon.Nightly}
	p := &pod{Deployment: d, Coupon: of}
	d.Apply(p.ID, users...)
	servers, err := connect.Open(&d.API.MySQLSettings, connect.Patient, &d.API.RedisSettings, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(servers.Close)
	p.store, err = candidates.NewStore(servers.Redis, candidates.Options{KeyPrefix: d.Prefix})
	require.NoError(t, err)
	now := func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	p.handler = api.New(api.Options{
		Identity: identity.FromHeader(zap.NewNop(), identity.Anywhere()...), Queue: p.store,
		Records: standing.Records{DB: servers.MySQL}, Losses: standing.NewLosses(now), Coupons: p,
		Terms:  standing.Terms{Zone: func() *time.Location { return time.UTC }},
		Limits: api.Limits{InFlight: 100}, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(), Now: now,
	})
	return p
}

func (p *pod) Loaded() bool                                 { return true }
func (p *pod) Lookup(coupon.CouponID) (coupon.Coupon, bool) { return p.Coupon, true }
func (p *pod) Read(coupon.CouponID) (coupon.Coupon, coupon.Reading, bool) {
	return p.Coupon, coupon.Reading{}, true
}

// tells demands what /me answers to a user.
func (p *pod) tells(user coupon.UserID, want string) {
	p.T.Helper()
	require.Equal(p.T, want, p.me(user))
}

func (p *pod) me(user coupon.UserID) string {
	request := httptest.NewRequest(http.MethodGet, "/v1/coupons/"+p.ID.String()+"/applications/me", nil)
	request.Header.Set("X-User-ID", user.Member())
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, request)
	var answer struct {
		Status    any
		Code      string
		MayBeLost bool
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		return err.Error()
	}
	is, _ := answer.Status.(string)
	if is = cmp.Or(is, answer.Code); answer.MayBeLost {
		is += ", may be lost"
	}
	return is
}

func (p *pod) passMinute() { p.ahead.Add(int64(time.Minute)) }

// publish publishes the window, as a refresh of the catalog does.
func (p *pod) publish() {
	p.T.Helper()
	window := coupon.Window{Coupon: p.ID, Version: 1, Opens: p.Now().Add(-time.Hour), Closes: p.Now().Add(time.Hour)}
	_, _, err := p.Store.Publish(p.T.Context(), window, 1)
	require.NoError(p.T, err)
}

// changeServer makes the server of Redis another one, which has everything.
func (p *pod) changeServer() {
	p.T.Helper()
	require.NoError(p.T, p.Redis.HSet(p.T.Context(), p.Key("state", p.ID), "run_id", "another").Err())
}

func TestNowhere_RedisHasLostEverything(t *testing.T) {
	t.Parallel()
	p := newPod(t, 5, 1, 2, 3)
	p.tells(3, pending)
	p.tells(4, notApplied)
	p.Exec("INSERT INTO journal (coupon_id, accepted) VALUES (?, 3) ON DUPLICATE KEY UPDATE accepted = 3", p.ID)
	p.PodsDie()
	p.LoseRedis(p.ID)
	p.tells(3, restoring)
	p.publish()
	p.tells(3, restoring)
	p.Apply(p.ID, 4)
	p.tells(4, pending)
	p.passMinute()
	p.tells(3, mayBeLost)
	p.Restore(p.ID)
	p.tells(3, mayBeLost)
	p.Exec("UPDATE journal SET unfound = 0 WHERE coupon_id = ?", p.ID)
	p.tells(3, notApplied)
}

// Another server has served meanwhile, and accepted users whom this one, which served before, does not know.
func TestNowhere_AServerServesAgain(t *testing.T) {
	t.Parallel()
	p := newPod(t, 5, 1)
	p.AddUsers(1)
	p.SettleNow(p.ID)
	p.IssuedCount = 1
	p.Journal(p.ID)
	p.tells(9, notApplied)
	since := p.Look(p.ID).Since - coupon.Arrival(time.Hour.Microseconds())
	require.NoError(t, p.Redis.HSet(t.Context(), p.Key("state", p.ID), "since", int64(since), "restored",
		int64(since)).Err())
	p.tells(9, restoring)
	p.Restore(p.ID)
	p.tells(9, notApplied)
}

// Who has the coupon is told so in every state of a server that is new to it, and never PENDING.
func TestNowhere_IssuedWhileMarksAreRestored(t *testing.T) {
	t.Parallel()
	p := newPod(t, 5, 1)
	p.AddUsers(1)
	p.SettleNow(p.ID)
	p.IssuedCount = 1
	p.Apply(p.ID, 2, 3)
	p.Journal(p.ID)
	p.tells(1, isIssued)
	require.NoError(t, p.Redis.ZRem(t.Context(), p.Key("issued", p.ID), "1").Err())
	p.tells(1, isIssued)
	p.changeServer()
	p.tells(1, isIssued)
	p.tells(2, pending)
	p.tells(9, restoring)
	p.publish()
	p.tells(1, isIssued)
	p.Apply(p.ID, 1) // there is no mark
	require.Contains(t, p.Waiting(p.ID), "1")
	p.tells(1, isIssued)
	p.tells(2, pending)

	p.LoseRedis(p.ID)
	p.tells(1, isIssued)
	p.tells(2, restoring)
	p.publish()
	p.tells(1, isIssued)
	p.Restore(p.ID)
	p.tells(1, isIssued)
	p.tells(2, pending)
	p.tells(9, notApplied)
}

func TestNowhere_PromisesAreMissing(t *testing.T) {
	t.Parallel()
	p := newPod(t, 5, 1, 2)
	p.AddPromises(p.ID, 2)
	p.tells(9, restoring)
	p.passMinute()
	p.tells(9, mayBeLost)
	p.Restore(p.ID)
	p.tells(9, mayBeLost)
	p.Exec("INSERT INTO settled (coupon_id, written_off) VALUES (?, 2)", p.ID)
	p.tells(9, mayBeLost)
	p.Exec("UPDATE settled SET written_off = 0, erased = 2 WHERE coupon_id = ?", p.ID)
	p.tells(9, notApplied)
	p.FinalisedAt = time.Now()
	p.tells(9, notApplied)
	p.Exec("UPDATE settled SET written_off = 2, erased = 0 WHERE coupon_id = ?", p.ID)
	p.tells(9, mayBeLost)
}

func TestNowhere_HandedOver(t *testing.T) {
	t.Parallel()
	p := newPod(t, 5, 1, 2)
	look, err := p.Store.Observe(t.Context(), p.ID, 0)
	require.NoError(t, err)
	one := []coupon.Answer{{User: 9, Arrival: look.Last}}
	_, handed, err := p.store.HandOver(t.Context(), p.ID, look.Epoch, true, one)
	require.NoError(t, err)
	require.Len(t, handed, 1)
	p.tells(9, restoring)
	p.passMinute()
	p.tells(8, mayBeLost)
	require.NoError(t, p.Store.TakeReturned(t.Context(), p.ID,
		[]coupon.Application{{Member: "9", Arrival: look.Last}}))
	p.tells(8, notApplied)
}

// immediate makes the coupon immediate; the catalog has seen that some were issued.
func (p *pod) immediate() {
	p.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", p.ID)
	p.Cadence, p.IssuedCount = coupon.Immediate, 1
}

// While people apply and are settled, nobody is taken for missing.
func TestNowhere_NoDoubtWhilePeopleAreSettled(t *testing.T) {
	t.Parallel()
	const users = 300
	p := newPod(t, users/2)
	p.AddUsers(jajeongtest.Between[coupon.UserID](1, users)...)
	p.immediate()
	var working sync.WaitGroup
	var applied atomic.Bool
	working.Go(func() {
		for user := range coupon.UserID(2 * users) { // half of them are unknown
			if _, err := p.Store.Apply(t.Context(), p.ID, user+1); err != nil {
				t.Error(err)
			}
		}
		applied.Store(true)
	})
	settler := p.Settler()
	working.Go(func() {
		for !applied.Load() {
			settler.IssueNow(t.Context(), p.ID)
		}
	})
	for n := 0; n < 10 || !applied.Load(); n++ {
		p.tells(users*users, notApplied)
	}
	working.Wait()
	p.AddPromises(p.ID, 1) // this test can fail
	p.tells(users*users, restoring)
}

// Redis loses everything again and again, and people who have the coupon apply again meanwhile. Whoever was told of a
// coupon is never told anything else, but that the servers do not know at the moment.
func TestNowhere_IssuedStaysIssued(t *testing.T) {
	t.Parallel()
	const users, seats = 60, 40
	p := newPod(t, seats)
	p.AddUsers(jajeongtest.Between[coupon.UserID](1, users)...)
	p.immediate()
	var asking sync.WaitGroup
	var ended atomic.Bool
	var issuedTo atomic.Int64
	for half := range coupon.UserID(2) {
		asking.Go(func() {
			told := map[coupon.UserID]bool{}
			for !ended.Load() {
				for user := 1 + half; user <= users; user += 2 {
					is := p.me(user)
					if told[user] && is != isIssued && is != restoring && is != "UNAVAILABLE" {
						t.Errorf("user %d was told %s after ISSUED", user, is)
					}
					if is == isIssued && !told[user] {
						told[user] = true
						issuedTo.Add(1)
					}
				}
			}
		})
	}
	settler := p.Settler()
	for round := range coupon.UserID(4) {
		p.Apply(p.ID, jajeongtest.Between(round*10+1, round*10+10)...)
		p.Journal(p.ID)
		testenv.Eventually(t, "somebody is told of a coupon", func() bool {
			settler.IssueNow(t.Context(), p.ID)
			return issuedTo.Load() > int64(round*10)
		})
		p.LoseRedis(p.ID)
		p.publish()
		_, err := p.Store.Apply(t.Context(), p.ID, round*10+1)
		require.NoError(t, err)
		p.Restore(p.ID)
	}
	ended.Store(true)
	asking.Wait()
	require.Greater(t, issuedTo.Load(), int64(30))
}
