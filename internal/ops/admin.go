// Package ops serves health, metrics and profiles on the admin port, which must not be public, and pushes metrics.
package ops

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
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
)

// checkTimeout is shorter than one second, the default timeout of a kubelet's probe.
const checkTimeout = 800 * time.Millisecond

type Config struct {
	// Redis tells the health of the shards that answer, and an error for the others; nil: the process is ready
	// without Redis.
	Redis interface {
		Health(ctx context.Context) (candidates.Health, error)
	}
	MySQL interface {
		PingContext(ctx context.Context) error
	}
	Catalog interface { // nil: the process has no catalog, and is ready only while MySQL answers
		Loaded() bool
		JournalLate() error // returns an error while Redis alone has applications of the last minute
	}
	Durability interface { // nil: the process does not look
		Err() error // returns an error unless MySQL is known to keep what it commits
	}
	Identity interface { // nil: the process has no users
		Ready() error // returns an error while the process cannot know who sends a request
	}
	Registry *prometheus.Registry
}

type Admin struct {
	http.Handler
	config   Config
	within   time.Duration // bounds the checks; tests set more than checkTimeout
	draining atomic.Bool
}

func New(config Config) *Admin {
	config.Registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	a := &Admin{Handler: mux, config: config, within: checkTimeout}
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(config.Registry, promhttp.HandlerOpts{Registry: config.Registry}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return a
}

// Drain makes the process report "not ready" from now on, so that load balancers send no more requests.
func (a *Admin) Drain() { a.draining.Store(true) }

func (a *Admin) Draining() bool { return a.draining.Load() }

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

// Ready returns nil if the process is ready, and otherwise an error that names every failed check.
func (a *Admin) Ready(ctx context.Context) error {
	state := a.check(ctx)
	if state.Ready {
		return nil
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(state.Checks)) {
		if one := state.Checks[name]; !one.OK && name != durabilityCheck {
			problems = append(problems, fmt.Errorf("%s: %s", name, cmp.Or(one.Detail, "not yet")))
		}
	}
	return errors.Join(problems...)
}

func (a *Admin) readyz(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	state := a.check(r.Context())
	if !state.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state)
}

// check runs all checks. The process stays ready if MySQL is away but a catalog is loaded, if one shard of a Cluster is
// away, if Redis is full or cannot save, or if a journal is late: it still answers earlier applicants.
func (a *Admin) check(ctx context.Context) readiness {
	if a.draining.Load() {
		return readiness{Checks: map[string]check{"serving": {Detail: "shutting down"}}}
	}
	ctx, cancel := context.WithTimeout(ctx, a.within)
	defer cancel()
	if a.config.Redis == nil {
		mysql := checked(a.config.MySQL.PingContext(ctx))
		state := readiness{Ready: mysql.OK, Checks: map[string]check{"mysql": mysql}}
		a.checkDurability(&state)
		a.checkIdentity(&state)
		return state
	}
	var pinging sync.WaitGroup
	var mysql error
	pinging.Go(func() { mysql = a.config.MySQL.PingContext(ctx) })
	health, redis := a.config.Redis.Health(ctx)
	pinging.Wait()

	checks := map[string]check{
		"redis":            checked(redis),
		"maxmemory_policy": {OK: health.Policy == candidates.NoEviction, Detail: health.Policy},
		"memory":           {OK: health.Policy != "" && health.Share() < candidates.NearlyFull, Detail: usage(health)},
		"saving":           saving(health),
		"mysql":            checked(mysql),
	}
	required := "mysql"
	if a.config.Catalog != nil {
		required = "catalog"
		checks[required] = check{OK: a.config.Catalog.Loaded()}
		checks["journal"] = checked(a.config.Catalog.JournalLate())
	}
	ready := checks["maxmemory_policy"].OK && checks[required].OK // the policy is known only if a shard has answered
	state := readiness{Ready: ready, Checks: checks}
	a.checkDurability(&state)
	a.checkIdentity(&state)
	return state
}

const durabilityCheck = "durability"

// checkDurability makes no process unready: none of them could do better than its server.
func (a *Admin) checkDurability(state *readiness) {
	if a.config.Durability != nil {
		state.Checks[durabilityCheck] = checked(a.config.Durability.Err())
	}
}

func (a *Admin) checkIdentity(state *readiness) {
	if a.config.Identity == nil {
		return
	}
	identity := checked(a.config.Identity.Ready())
	state.Checks["identity"] = identity
	state.Ready = state.Ready && identity.OK
}

func saving(h candidates.Health) check {
	switch {
	case h.Policy == "":
		return check{}
	case h.AppendFailed:
		return check{Detail: "the last write to the append-only file failed"}
	case h.SnapshotFailed:
		return check{Detail: "the last snapshot failed"}
	default:
		return check{OK: true}
	}
}

func usage(h candidates.Health) string {
	switch {
	case h.Policy == "":
		return ""
	case h.Max == 0:
		return "no maxmemory"
	default:
		return fmt.Sprintf("%.0f %% of maxmemory", 100*h.Share())
	}
}

type Timeouts struct {
	Header time.Duration // reading a request up to its body
	Read   time.Duration // reading all of a request
	Write  time.Duration // from the end of the header until the response is written
	Idle   time.Duration // waiting for the next request
}

var AdminTimeouts = Timeouts{
	Header: 5 * time.Second,
	Read:   5 * time.Second,
	Write:  2 * time.Minute, // a profile takes 30 seconds, or longer on request
	Idle:   2 * time.Minute,
}

// maxHeaderBytes leaves space for the cookies and tracing headers of a gateway.
const maxHeaderBytes = 16 << 10

func NewServer(handler http.Handler, within Timeouts, logger *zap.Logger) *http.Server {
	errorLog, _ := zap.NewStdLogAt(logger.Named("http"), zap.WarnLevel) // fails only for an unknown level
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: within.Header,
		ReadTimeout:       within.Read,
		WriteTimeout:      within.Write,
		IdleTimeout:       within.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,

		DisableGeneralOptionsHandler: true, // so that the handler answers "OPTIONS *", too
	}
}

// Serve serves the admin port until stop is called. After ctx has ended, the process reports "not ready".
func (a *Admin) Serve(ctx context.Context, address string, logger *zap.Logger) (stop func(), err error) {
	listener, err := ListenAdmin(address, logger)
	if err != nil {
		return nil, fmt.Errorf("listen on the admin port: %w", err)
	}
	context.AfterFunc(ctx, a.Drain)
	server := NewServer(a, AdminTimeouts, logger)
	logger.Info("listening", zap.Stringer("admin", listener.Addr()))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("admin port failed; the process continues without it", zap.Error(err))
		}
	}()
	return func() { _ = server.Close(); <-served }, nil
}
