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
// The checks run in this order: connection, user, coupon id, rate of the user, body, coupon, requests in flight, Redis.
// A refusal because of a limit costs almost nothing, so that a stampede does not slow down the requests served.
//
// Every refusal is an RFC 9457 problem; problems.go lists all problems. Ids are JSON numbers up to 2^64-1: a client
// that stores numbers as doubles, as JavaScript does, loses precision above 2^53.
//
// # Trust
//
// The gateway sets X-User-ID: a client that reaches this server without the gateway can claim any user id. A
// response never contains text from the request.
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
	"go.uber.org/zap/zapcore"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

// maxLoggedFailures is the maximum of equal log lines per second: every request fails while Redis is away.
const maxLoggedFailures = 5

// Applier sends applications to Redis. Apply returns within two seconds, with an error if Redis did not reply.
type Applier interface {
	Apply(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt, error)
}

type Standings interface {
	Status(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Status, error)
}

type History interface {
	Standing(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (coupon.Standing, coupon.Arrival, error)
}

type Coupons interface {
	Lookup(id coupon.CouponID) (coupon.Coupon, bool)
	Loaded() bool
}

type Options struct {
	Applier       Applier
	Standings     Standings
	History       History
	Coupons       Coupons
	Shard         func(couponID coupon.CouponID) string // the Redis shard of a coupon; nil: there is one shard
	SettlesAt     func(arrival time.Time) time.Time     // the midnight that settles an arrival
	Zone          *time.Location                        // time zone of the times in responses
	IssueInterval time.Duration                         // how often `settle serve` looks at immediate coupons
	Limits        Limits
	Draining      func() bool // reports whether the process shuts down; responses then close their connection. nil: never
	Logger        *zap.Logger
	Metrics       prometheus.Registerer
	Now           func() time.Time // only durations are measured with it
}

type server struct {
	Options
	applying, standings semaphores
	histories           semaphore
	users               *httpapi.UserRates
	metrics             metrics
}

func New(o Options) http.Handler {
	o.Logger = o.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, maxLoggedFailures, 0)
	}))
	if o.Shard == nil {
		o.Shard = func(coupon.CouponID) string { return "" }
	}
	s := &server{Options: o, users: httpapi.NewUserRates(o.Limits.UserRate, o.Now()),
		applying: newSemaphores(int64(o.Limits.InFlight)), standings: newSemaphores(maxStandings)}
	s.histories.max = maxHistories
	s.metrics = newMetrics(o.Metrics, s.applying)

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/coupons/{id}/applications", s.measured(&s.metrics.apply, s.apply))
	mux.HandleFunc("/v1/coupons/{id}/applications", s.only("POST"))
	mux.HandleFunc("GET /v1/coupons/{id}/applications/me", s.measured(&s.metrics.standing, s.standing))
	mux.HandleFunc("/v1/coupons/{id}/applications/me", s.only("GET, HEAD"))
	mux.HandleFunc("GET /openapi.yaml", s.openAPI)
	mux.HandleFunc("/openapi.yaml", s.only("GET, HEAD"))
	nothing := s.unmeasured(func(http.ResponseWriter, *http.Request, time.Time) answer { return refuse(notFound) })
	mux.HandleFunc("/", nothing)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would answer an unclean path with a redirect that contains text from the request.
		if httpapi.Unclean(r.URL) {
			nothing(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *server) only(methods string) http.HandlerFunc {
	return s.unmeasured(func(w http.ResponseWriter, _ *http.Request, _ time.Time) answer {
		w.Header().Set("Allow", methods)
		return refuse(methodNotAllowed)
	})
}

type endpoint func(w http.ResponseWriter, r *http.Request, began time.Time) answer

func (s *server) measured(m *endpointMetrics, e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := s.Now()
		a := s.decide(e, w, r, began)
		s.write(w, r, a)
		m.observe(a.result, s.Now().Sub(began)-a.waited)
	}
}

func (s *server) unmeasured(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.write(w, r, s.decide(e, w, r, time.Time{})) }
}

// decide calls e. If e panics, the answer is an internal error.
func (s *server) decide(e endpoint, w http.ResponseWriter, r *http.Request, at time.Time) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("request panicked", zap.Any("panic", p), zap.Stack("stack"))
			a = refuse(internal)
		}
	}()
	return e(w, r, at)
}
