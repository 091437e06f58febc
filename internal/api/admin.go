package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/jajeong/jajeong/internal/candidates"
)

// checkTimeout is for one look at Redis and MySQL: a kubelet gives its probe one second by default.
const checkTimeout = 800 * time.Millisecond

// AdminOptions are what the operators' handler works with.
type AdminOptions struct {
	Redis interface { // the memory of whoever answers, and who does not
		Memory(ctx context.Context) (candidates.Memory, error)
	}
	MySQL interface {
		PingContext(ctx context.Context) error
	}
	Catalog interface { // nil where nobody applies but is settled, for which MySQL is needed instead
		Loaded() bool
	}
	Registry *prometheus.Registry
}

// Admin is for operators and Kubernetes, never for the public: liveness, readiness, metrics and profiles.
type Admin struct {
	http.Handler
	options  AdminOptions
	draining atomic.Bool
}

// NewAdmin returns the operators' handler and registers the metrics of the process.
func NewAdmin(o AdminOptions) *Admin {
	o.Registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	a := &Admin{Handler: mux, options: o}
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return a
}

// Drain makes the process not ready for good, so that no more requests are sent to it.
func (a *Admin) Drain() { a.draining.Store(true) }

// Draining says whether Drain was called.
func (a *Admin) Draining() bool { return a.draining.Load() }

// check is one thing that readiness looks at.
type check struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

func checked(err error) check {
	if err != nil {
		return check{Detail: err.Error()}
	}
	return check{OK: true}
}

type readiness struct {
	Ready  bool             `json:"ready"`
	Checks map[string]check `json:"checks"`
}

// Ready is nil when the process can serve; otherwise it tells why not.
func (a *Admin) Ready(ctx context.Context) error {
	state := a.look(ctx)
	if state.Ready {
		return nil
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(state.Checks)) {
		if one := state.Checks[name]; !one.OK {
			problems = append(problems, fmt.Errorf("%s: %s", name, cmp.Or(one.Detail, "not yet")))
		}
	}
	return errors.Join(problems...)
}

func (a *Admin) readyz(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	state := a.look(r.Context())
	if !state.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state)
}

// used says how full a Redis is.
func used(m candidates.Memory) string {
	switch {
	case m.Policy == "":
		return ""
	case m.Max == 0:
		return "no maxmemory"
	default:
		return fmt.Sprintf("%.0f %% of maxmemory", 100*m.Share())
	}
}

// look asks everything at once. Applying does not wait for MySQL: there it is told but not required. Nor is every shard of a
// Cluster: a pod that turned away everybody would take the coupons of the others down with those of one shard. Nor is memory:
// a full Redis refuses newcomers, and who stands in line is still answered.
func (a *Admin) look(ctx context.Context) readiness {
	if a.draining.Load() {
		return readiness{Checks: map[string]check{"serving": {Detail: "shutting down"}}}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var asked sync.WaitGroup
	var mysql error
	asked.Go(func() { mysql = a.options.MySQL.PingContext(ctx) })
	memory, redis := a.options.Redis.Memory(ctx)
	asked.Wait()

	checks := map[string]check{
		"redis":            checked(redis),
		"maxmemory_policy": {OK: memory.Policy == candidates.NoEviction, Detail: memory.Policy},
		"memory":           {OK: memory.Policy != "" && memory.Share() < candidates.NearlyFull, Detail: used(memory)},
		"mysql":            checked(mysql),
	}
	needed := "mysql"
	if a.options.Catalog != nil {
		needed = "catalog"
		checks[needed] = check{OK: a.options.Catalog.Loaded()}
	}
	ready := checks["maxmemory_policy"].OK && checks[needed].OK // a policy is known: some of Redis answers
	return readiness{Ready: ready, Checks: checks}
}
