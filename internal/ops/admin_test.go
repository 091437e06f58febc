package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// known is a catalog, loaded or not.
type known bool

func (k known) Loaded() bool { return bool(k) }

type pinger struct{ err error }

type keys struct{ err error }

func (k keys) Ready() error { return k.err }

func (p pinger) PingContext(context.Context) error { return p.err }

type ready struct {
	Ready  bool
	Checks map[string]struct {
		OK     bool
		Detail string
	}
}

// get is a probe.
func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func openStore(t *testing.T, addrs ...string) (redis.UniversalClient, *candidates.Store) {
	t.Helper()
	client, err := (&connect.RedisSettings{RedisAddrs: addrs}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	store, err := candidates.NewStore(client, candidates.Options{})
	require.NoError(t, err)
	return client, store
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	client, store := openStore(t, server.Addr())
	lookAt := func(options ops.Config, drain bool) (int, ready) {
		t.Helper()
		options.Redis, options.Registry = store, prometheus.NewRegistry()
		admin := ops.New(options)
		admin.TakeTime()
		if drain {
			admin.Drain()
		}
		site := httptest.NewServer(admin)
		defer site.Close()
		status, _ := get(t, site.Client(), site.URL+"/livez")
		require.Equal(t, http.StatusOK, status, "alive in every state")
		status, text := get(t, site.Client(), site.URL+"/readyz")
		var r ready
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		require.Equal(t, status == http.StatusOK, r.Ready)
		return status, r
	}
	look := func(catalog known, mysql error, drain bool) (int, ready) {
		t.Helper()
		return lookAt(ops.Config{MySQL: pinger{mysql}, Catalog: catalog}, drain)
	}

	status, r := look(true, nil, false)
	require.Equal(t, http.StatusOK, status)
	for name, check := range r.Checks {
		require.True(t, check.OK, name)
	}
	require.Len(t, r.Checks, 6)
	require.Equal(t, "no maxmemory", r.Checks["memory"].Detail)

	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	_, r = look(true, nil, false)
	require.True(t, r.Checks["memory"].OK)
	require.Equal(t, "0 % of maxmemory", r.Checks["memory"].Detail)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	status, r = look(true, nil, false)
	require.Equal(t, http.StatusOK, status, "users in the queue are still answered")
	require.False(t, r.Checks["memory"].OK)
	require.Contains(t, r.Checks["memory"].Detail, "00 % of maxmemory")
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())

	status, r = look(true, errors.New("mysql is away"), false)
	require.Equal(t, http.StatusOK, status, "applying does not need MySQL")
	require.False(t, r.Checks["mysql"].OK)
	require.Equal(t, "mysql is away", r.Checks["mysql"].Detail)

	status, r = lookAt(ops.Config{MySQL: pinger{}}, false)
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, r.Checks, "catalog")
	status, _ = lookAt(ops.Config{MySQL: pinger{errors.New("mysql is away")}}, false)
	require.Equal(t, http.StatusServiceUnavailable, status, "settling needs it")

	status, r = lookAt(ops.Config{MySQL: pinger{}, Identity: keys{}}, false)
	require.Equal(t, http.StatusOK, status)
	require.True(t, r.Checks["identity"].OK)
	status, r = lookAt(ops.Config{MySQL: pinger{}, Identity: keys{errors.New("no key")}}, false)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "no key", r.Checks["identity"].Detail)

	status, r = look(false, nil, false)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.False(t, r.Checks["catalog"].OK)

	status, r = look(true, nil, true)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "shutting down", r.Checks["serving"].Detail)

	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
	status, r = look(true, nil, false)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.True(t, r.Checks["redis"].OK)
	require.False(t, r.Checks["maxmemory_policy"].OK)
	require.Equal(t, "volatile-lru", r.Checks["maxmemory_policy"].Detail)

	require.NoError(t, server.Freeze())
	status, r = look(true, nil, false)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.False(t, r.Checks["redis"].OK)
	require.NoError(t, server.Thaw())

	require.NoError(t, server.Kill())
	status, r = look(true, nil, false)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.False(t, r.Checks["redis"].OK)
	require.NotEmpty(t, r.Checks["redis"].Detail)
}

// stuck is a server that does not answer before the end of a check.
type stuck struct{ left *time.Duration } // of the check's time, when it began

func (s stuck) Health(ctx context.Context) (candidates.Health, error) {
	return candidates.Health{}, s.PingContext(ctx)
}

func (s stuck) PingContext(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	*s.left = time.Until(deadline)
	<-ctx.Done()
	return ctx.Err()
}

func TestReadiness_IsKnownBeforeAProbeGivesUp(t *testing.T) {
	t.Parallel()
	var ofRedis, ofMySQL time.Duration
	admin := ops.New(ops.Config{Redis: stuck{&ofRedis}, MySQL: stuck{&ofMySQL}, Catalog: known(true), Registry: prometheus.NewRegistry()})
	require.ErrorContains(t, admin.Ready(t.Context()), context.DeadlineExceeded.Error())
	require.Less(t, max(ofRedis, ofMySQL), time.Second, "the default timeout of a kubelet's probe")
}

// An unreachable shard does not make the process unready: the coupons of the others can be served.
func TestReadiness_WithoutAShard(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	_, store := openStore(t, nodes[0].Addr(), nodes[1].Addr())
	admin := ops.New(ops.Config{Redis: store, MySQL: pinger{}, Catalog: known(true), Registry: prometheus.NewRegistry()})
	admin.TakeTime()
	site := httptest.NewServer(admin)
	t.Cleanup(site.Close)
	look := func() (r ready) {
		t.Helper()
		_, text := get(t, site.Client(), site.URL+"/readyz")
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		return r
	}
	r := look()
	require.True(t, r.Ready)
	require.True(t, r.Checks["redis"].OK)

	require.NoError(t, nodes[0].Kill())
	for range 2 { // the client asks a random node for the masters
		r = look()
		require.True(t, r.Ready)
		require.False(t, r.Checks["redis"].OK)
		require.Contains(t, r.Checks["redis"].Detail, nodes[0].Addr(), "the silent shard")
	}
	require.NoError(t, nodes[1].Freeze())
	require.False(t, look().Ready, "no shard answers")
	require.NoError(t, nodes[1].Thaw())
	testenv.Eventually(t, "ready with the other shard", func() bool { return look().Ready })
}

func TestAdmin_ServesMetricsAndProfiles(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	site := httptest.NewServer(ops.New(ops.Config{
		Redis: nil, MySQL: pinger{}, Catalog: known(false), Registry: registry,
	}))
	t.Cleanup(site.Close)
	status, text := get(t, site.Client(), site.URL+"/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "go_goroutines")
	require.Contains(t, text, "process_open_fds")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/goroutine?debug=1"} {
		status, _ := get(t, site.Client(), site.URL+path)
		require.Equal(t, http.StatusOK, status, path)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/symbol"} {
		response, err := site.Client().Post(site.URL+path, "text/plain", nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, path)
	}
	status, _ = get(t, site.Client(), site.URL+"/v1/coupons/1/applications")
	require.Equal(t, http.StatusNotFound, status)
}
