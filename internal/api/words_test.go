package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// assurances are words that claim the state of an application, which only a look at Redis can justify.
const assurances = `유지|안전|is kept|keep your|is safe|received before is`

// Redis does not answer and may have lost applications: no text may claim that one is kept.
func TestProblems_ClaimNothingAboutAnUnreachableRedis(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	client, err := (&connect.RedisSettings{RedisAddrs: []string{server.Addr()}}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	store, err := candidates.NewStore(client, candidates.Options{TTL: candidates.MinTTL})
	require.NoError(t, err)
	now := time.Now()
	_, _, err = store.Publish(t.Context(), coupon.Window{Coupon: 1, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)}, coupon.Promise{})
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	s := newSiteOf(t, api.Options{
		Applier: batch.New(store.ApplyAll, registry, time.Now), Standings: store, History: history{}, Coupons: coupons{},
		SettlesAt: nextMidnight, Zone: seoul, Limits: plenty, Logger: zap.NewNop(), Metrics: registry, Now: time.Now,
	})
	require.Equal(t, http.StatusAccepted, s.apply("1", "7").status)
	require.NoError(t, client.FlushAll(t.Context()).Err())
	require.NoError(t, server.Kill())
	told := map[string]bool{}
	for range 5 { // not answered, and then left alone
		for _, l := range []string{"ko", "en"} {
			told[s.apply("1", "7", "Accept-Language", l).body["detail"].(string)] = true
			me := s.do(http.MethodGet, "/v1/coupons/1/applications/me", nil, http.Header{"X-User-Id": {"7"}, "Accept-Language": {l}})
			require.Equal(t, http.StatusServiceUnavailable, me.status)
			told[me.body["detail"].(string)] = true
		}
	}
	require.Len(t, told, 6, "of either language: not answered, left alone, where it stands")
	for words := range told {
		require.NotRegexp(t, assurances, words)
	}
}

// A request refused by a limit was not sent to Redis: the text may speak of this request only.
func TestProblems_LimitsSpeakOfThisRequestOnly(t *testing.T) {
	t.Parallel()
	busy := newLimitedSite(t, applier(accepts), coupons{}, api.Limits{InFlight: 1000, UserRate: 0.001})
	require.Equal(t, http.StatusAccepted, busy.apply("1", "7").status)
	for l, words := range map[string]string{"ko": "먼저 접수된 신청에는 영향이 없습니다", "en": "an application received before is not affected"} {
		var refused reply
		for refused.status != http.StatusTooManyRequests {
			refused = busy.apply("1", "7", "Accept-Language", l)
		}
		require.Contains(t, refused.body["detail"], words)
		require.NotRegexp(t, `유지|is kept`, refused.body["detail"])
	}
}

// After seats were added to a sold-out coupon, new applications are still SOLD_OUT until a run has ended.
func TestProblems_SoldOutDoesNotClaimEverySeatIsIssued(t *testing.T) {
	d := deploy(t)
	d.coupon(1, "issued_count = 10")
	require.NoError(t, d.store.SetSold(t.Context(), 1, true))
	d.exec("UPDATE coupon SET total_quantity = 11 WHERE id = 1")
	require.NoError(t, d.catalog.Refresh(t.Context()))
	for _, l := range []string{"ko", "en"} {
		refused := d.apply("1", "7", "Accept-Language", l)
		require.Equal(t, "SOLD_OUT", refused.body["code"])
		require.NotRegexp(t, `모두 발급|Every coupon|no longer`, refused.body["detail"])
	}
}
