// Package api serves the public HTTP API of apply-api.
//
// # Meaning of the responses
//
//	202 ACCEPTED   the application is in the queue: a promise. The response has its arrival
//	200 DUPLICATE  the application was in the queue before; nothing has changed
//	4xx            the application is not in the queue; repeating the same request does not help
//	429            the user sends too many requests; this one was not processed
//	503            the result is unknown, or the service is not ready; repeat after Retry-After
//
// Repeating a request is always safe: a user has only one application for a coupon, and it keeps its first arrival. Two
// 4xx codes are different: with UNDER_REVIEW, the application keeps its arrival and waits in the DLQ for an operator;
// LINE_FULL says by mayReopen and Retry-After whether repeating can help.
//
// No call has content. The checks run in this order: origin, connection, content, user, coupon id, rate of the user,
// coupon, requests in flight, Redis. A refusal because of a limit costs almost nothing, so that a stampede does not
// slow down the requests served.
//
// Coupons, the time and the script of pages need no user, and have no rate. Coupons come from the memory of the
// process: they show what the last refresh of the catalog has read, and only the answer to applying decides. The time
// is that of the coupon's Redis shard, by one measurement a second for all requests.
//
// Every refusal is an RFC 9457 problem; problems.go lists all problems. Ids are JSON numbers up to 2^64-1: a client
// that stores numbers as doubles, as JavaScript does, loses precision above 2^53.
//
// # Trust
//
// Package identity says who sends a request. A
// response contains no text from the request but its X-Request-ID, which may only have a few harmless characters.
//
// # Crashes
//
// The server stores nothing. If it dies after Redis has accepted an application, the client repeats the request and
// gets DUPLICATE. A client that hangs up does not withdraw its application.
package api

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/standing"
)

// maxLoggedFailures is the maximum of equal log lines per second: every request fails while Redis is away.
const maxLoggedFailures = 5

// Applier sends applications to Redis. Apply returns within two seconds, with an error if Redis did not reply.
type Applier interface {
	Apply(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt, error)
}

// Queue asks Redis about users. candidates.Store implements it.
type Queue interface {
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
}

// Records ask MySQL about users whose standing Redis does not give. standing.Records implements it.
type Records interface {
	Read(ctx context.Context, couponID coupon.CouponID,
		users ...coupon.UserID) (map[coupon.UserID][]standing.Outcome, promise.Books, error)
}

type Coupons interface {
	Lookup(id coupon.CouponID) (coupon.Coupon, bool)
	Read(id coupon.CouponID) (coupon.Coupon, coupon.Reading, bool)
	Loaded() bool
}

type Options struct {
	Identity *identity.Identity // says which user sends a request
	Applier  Applier
	Queue    Queue
	Records  Records
	Losses   *standing.Losses // those of the process
	Coupons  Coupons
	Clock    Clock
	Receipts *receipt.Keys                         // nil: answers have no receipt
	Shard    func(couponID coupon.CouponID) string // the Redis shard of a coupon; nil: there is one shard
	Terms    standing.Terms
	Limits   Limits
	Origins  []string    // origins of other sites whose pages may use the API
	Draining func() bool // reports whether the process shuts down; responses then close their connection. nil: never
	Logger   *zap.Logger
	Metrics  prometheus.Registerer
	Now      func() time.Time // durations are measured with it; status of a coupon that was never read in Redis, too
}

type server struct {
	Options
	applying, questions semaphores
	histories           semaphore
	users               *httpapi.UserRates
	metrics             metrics
	clocks              *clocks
	foreign             func(r *http.Request) bool // see httpapi.ForeignPages
}

func newServer(o Options) *server {
	o.Logger = ops.Sampled(o.Logger, maxLoggedFailures)
	if o.Shard == nil {
		o.Shard = func(coupon.CouponID) string { return "" }
	}
	return &server{Options: o, users: httpapi.NewUserRates(o.Limits.UserRate, o.Now()),
		foreign: httpapi.ForeignPages(o.Origins)}
}

func New(o Options) http.Handler {
	s := newServer(o)
	s.applying, s.questions = newSemaphores(int64(o.Limits.InFlight)), newSemaphores(maxQuestions)
	s.histories.max = maxHistories
	s.clocks = newClocks(s.Clock, s.Shard, s.Now)
	s.metrics = newMetrics(o.Metrics, s.applying)

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/coupons/{id}/applications", s.measured(&s.metrics.apply, s.apply))
	mux.HandleFunc("/v1/coupons/{id}/applications", s.only("POST"))
	mux.HandleFunc("GET /v1/coupons/{id}/applications/me", s.measured(&s.metrics.standing, s.standing))
	mux.HandleFunc("/v1/coupons/{id}/applications/me", s.only("GET, HEAD"))
	mux.HandleFunc("GET /v1/coupons", s.measured(&s.metrics.coupons, s.coupons))
	mux.HandleFunc("/v1/coupons", s.only("GET, HEAD"))
	mux.HandleFunc("GET /v1/coupons/{id}", s.measured(&s.metrics.coupons, s.coupon))
	mux.HandleFunc("/v1/coupons/{id}", s.only("GET, HEAD"))
	mux.HandleFunc("GET /v1/coupons/{id}/time", s.measured(&s.metrics.time, s.time))
	mux.HandleFunc("/v1/coupons/{id}/time", s.only("GET, HEAD"))
	mux.HandleFunc("GET /v1/jajeong.js", s.script)
	mux.HandleFunc("/v1/jajeong.js", s.only("GET, HEAD"))
	mux.HandleFunc("GET /openapi.yaml", s.openAPI)
	mux.HandleFunc("/openapi.yaml", s.only("GET, HEAD"))
	return s.site(mux)
}

// site answers the addresses that mux does not have, too.
func (s *server) site(mux *http.ServeMux) http.Handler {
	nothing := s.unmeasured(func(http.ResponseWriter, *http.Request, time.Time) answer { return refuse(notFound) })
	return httpapi.Site(mux, nothing, s.Origins, http.MethodGet, http.MethodHead, http.MethodPost)
}

func (s *server) only(methods string) http.HandlerFunc {
	return s.unmeasured(func(w http.ResponseWriter, _ *http.Request, _ time.Time) answer {
		w.Header().Set("Allow", methods)
		return refuse(methodNotAllowed)
	})
}

type endpoint func(w http.ResponseWriter, r *http.Request, began time.Time) answer

func (s *server) measured(m *endpointMetrics, e endpoint) http.HandlerFunc {
	e = s.contentless(e)
	return func(w http.ResponseWriter, r *http.Request) {
		began := s.Now()
		a := refuse(foreignOrigin)
		if s.foreign(r) {
			httpapi.LogForeignPage(s.Logger, r)
		} else {
			a = s.decide(e, w, r, began)
		}
		s.write(w, r, a)
		m.observe(a.result, s.Now().Sub(began)-a.waited)
	}
}

func (s *server) unmeasured(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.write(w, r, s.decide(e, w, r, time.Time{})) }
}

// contentless returns e for requests without content. What a request says beyond its address would be ignored.
func (s *server) contentless(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request, at time.Time) answer {
		if r.ContentLength == 0 || httpapi.IsSurplus(r) {
			return e(w, r, at)
		}
		began := s.Now()
		hasNone := httpapi.HasNoContent(w, r)
		waited := s.Now().Sub(began)
		a := refuse(invalidBody)
		if hasNone {
			a = e(w, r, at)
		}
		a.waited = waited
		return a
	}
}

// decide calls e. If e panics, the answer is an internal error.
func (s *server) decide(e endpoint, w http.ResponseWriter, r *http.Request, at time.Time) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("request panicked", httpapi.LogRequest(r), zap.Any("panic", p), zap.Stack("stack"))
			a = refuse(internal)
		}
	}()
	return e(w, r, at)
}
