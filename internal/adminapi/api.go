// Package adminapi serves the management API of settle console, for programs of the shop.
//
// An operation is a verb whose declaration has a place here. Its request has the values that the flags and arguments of
// the verb have, and its answer is the JSON that the verb prints. The API decides nothing about coupons: it decides who
// may call what, and that a call happens once.
//
// # Callers
//
// A program sends `Authorization: Bearer <key>`. Nothing else counts: no cookie, no header of a proxy, no development
// user of the console. The key's role gives its rights. In audit events the key is the actor key:<name>. No person has
// such a name, and a key approves nothing: there is no operation for it.
//
// # Changes
//
// A change has the digest of its preview, or an approval, which has one: what happens is what was shown. It runs in a
// job. A job that ends soon gives the answer; otherwise the answer is 202 with the job's address. Jobs are rows of
// MySQL, so that other processes see them, too.
//
// A call with an Idempotency-Key happens once in 24 hours: a repeated one gets the answer of the first. What failed
// without being refused (5xx), or was interrupted, runs again. That is safe: the digest no longer fits a change that
// has already happened.
package adminapi

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/verb"
)

const (
	// maxReads bounds how many verbs read at the same time: each takes connections of MySQL and Redis.
	maxReads = 8
	// readTimeout is enough for a report of a month.
	readTimeout = 2 * time.Minute
	// maxLogged is the maximum of equal log lines per second: anybody can send requests.
	maxLogged = 5
)

// Config is what the API needs. All fields are required.
type Config struct {
	Verbs   verb.Verbs
	Run     func(ctx context.Context, c verb.Call) verb.Answer
	Keys    *Keys
	Jobs    *job.Runner
	Lists   *httpapi.Lists
	Quickly time.Duration // how long a request waits for its job; tests set less than job.Quickly
	DB      mysqltx.Querier
	Now     func() time.Time // for limits and the expiry of keys
	Logger  *zap.Logger
	Metrics prometheus.Registerer
}

// API is an http.Handler.
type API struct {
	Config
	handler http.Handler
	reads   job.Places
	failed  *addresses
	metrics metrics
}

func New(config Config) *API {
	config.Logger = ops.Sampled(config.Logger, maxLogged)
	a := &API{Config: config, reads: make(job.Places, maxReads), failed: newAddresses(config.Now()),
		metrics: newMetrics(config.Metrics, config.Keys)}
	mux, methods := http.NewServeMux(), map[string]string{}
	route := func(method, path string, handle http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, handle)
		if method == http.MethodGet {
			method = "GET, HEAD"
		}
		if methods[path] != "" {
			method = methods[path] + ", " + method
		}
		methods[path] = method
	}
	for _, o := range operations(config.Verbs) {
		route(o.method, o.path, a.known(o.handler(a)))
	}
	route(http.MethodGet, "/v1/jobs", a.known(a.listJobs))
	route(http.MethodGet, "/v1/jobs/{job}", a.known(a.showJob))
	route(http.MethodGet, "/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		httpapi.WriteOpenAPI(w, docs.OpenAPIAdmin, false)
	})
	for path, allowed := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allowed)
			write(w, r, refuse(methodNotAllowed))
		})
	}
	nothing := func(w http.ResponseWriter, r *http.Request) { write(w, r, refuse(notFound)) }
	a.handler = httpapi.Site(mux, nothing, nil)
	return a
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }
