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
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// known is a catalog, loaded or not.
type known bool

func (k known) Loaded() bool { return bool(k) }

func (known) JournalLate() error { return nil }

// late is a loaded catalog with a late journal.
type late struct {
	known
	err error
}

func (l late) JournalLate() error { return l.err }

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

func TestReadiness(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	client, store := jajeongtest.StoreAt(t, server.Addr())
	away := errors.New("away")
	set := func(name, value string) func() error {
		return func() error { return client.ConfigSet(t.Context(), name, value).Err() }
	}
	well := ops.Config{MySQL: pinger{}, Catalog: known(true)}
	// Each case leaves Redis as it has made it.
	for _, c := range []struct {
		name          string
		change        func() error // of Redis; nil: none
		of            ops.Config
		drains, ready bool
		check         string // that is wrong, or has a detail; empty: all are right
		ok            bool
		detail        string
	}{
		{name: "well", of: well, ready: true, check: "memory", ok: true, detail: "^no maxmemory$"},
		{name: "room", change: set("maxmemory", "1gb"), of: well, ready: true, check: "memory", ok: true,
			detail: "^0 % of maxmemory$"},
		{name: "full: users in the queue are still answered", change: set("maxmemory", "1"), of: well, ready: true,
			check:  "memory",
			detail: "00 % of maxmemory"},
		{name: "applying without MySQL", change: set("maxmemory", "0"),
			of:    ops.Config{MySQL: pinger{away}, Catalog: known(true)},
			ready: true, check: "mysql", detail: "^away$"},
		{name: "journal is late", of: ops.Config{MySQL: pinger{}, Catalog: late{true, errors.New("late")}}, ready: true,
			check: "journal", detail: "^late$"},
		{name: "settling", of: ops.Config{MySQL: pinger{}}, ready: true},
		{name: "settling without MySQL", of: ops.Config{MySQL: pinger{away}}, check: "mysql", detail: "^away$"},
		{name: "keys", of: ops.Config{MySQL: pinger{}, Identity: keys{}}, ready: true, check: "identity", ok: true},
		{name: "no keys", of: ops.Config{MySQL: pinger{}, Identity: keys{away}}, check: "identity", detail: "^away$"},
		{name: "no catalog", of: ops.Config{MySQL: pinger{}, Catalog: known(false)}, check: "catalog"},
		{name: "ends", of: well, drains: true, check: "serving", detail: "^shutting down$"},
		{name: "eviction", change: set("maxmemory-policy", "volatile-lru"), of: well, check: "maxmemory_policy",
			detail: "^volatile-lru$"},
		{name: "Redis hangs", change: server.Freeze, of: well, check: "redis", detail: "."},
		{name: "Redis is away", change: func() error { return errors.Join(server.Thaw(), server.Kill()) }, of: well,
			check: "redis", detail: "."},
	} {
		if c.change != nil {
			require.NoError(t, c.change(), c.name)
		}
		c.of.Redis, c.of.Registry = store, prometheus.NewRegistry()
		admin := ops.New(c.of)
		admin.TakeTime()
		if c.drains {
			admin.Drain()
		}
		site := httptest.NewServer(admin)
		alive, _ := get(t, site.Client(), site.URL+"/livez")
		status, text := get(t, site.Client(), site.URL+"/readyz")
		site.Close()
		var r ready
		require.NoError(t, json.Unmarshal([]byte(text), &r), c.name)
		require.Equal(t, http.StatusOK, alive, c.name)
		require.Equal(t, c.ready, status == http.StatusOK, "%s: %s", c.name, text)
		require.Equal(t, c.ready, r.Ready, c.name)
		_, looked := r.Checks["catalog"]
		require.Equal(t, c.of.Catalog != nil && !c.drains, looked, c.name)
		if c.check != "" {
			require.Equal(t, c.ok, r.Checks[c.check].OK, "%s: %s", c.name, text)
			require.Regexp(t, c.detail, r.Checks[c.check].Detail, c.name)
		}
		if c.name == "well" {
			require.Len(t, r.Checks, 7)
			require.True(t, r.Checks["journal"].OK)
		}
	}
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
	admin := ops.New(ops.Config{Redis: stuck{&ofRedis}, MySQL: stuck{&ofMySQL}, Catalog: known(true),
		Registry: prometheus.NewRegistry()})
	require.ErrorContains(t, admin.Ready(t.Context()), context.DeadlineExceeded.Error())
	require.Less(t, max(ofRedis, ofMySQL), time.Second, "the default timeout of a kubelet's probe")
}

// An unreachable shard does not make the process unready: the coupons of the others can be served.
func TestReadiness_WithoutAShard(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	_, store := jajeongtest.StoreAt(t, nodes[0].Addr(), nodes[1].Addr())
	admin := ops.New(ops.Config{Redis: store, MySQL: pinger{}, Catalog: known(true),
		Registry: prometheus.NewRegistry()})
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
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol",
		"/debug/pprof/goroutine?debug=1"} {
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
