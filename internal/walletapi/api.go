// Package walletapi serves the public HTTP API of wallet-api: a user's coupons, and the calls of a checkout.
//
// # Two kinds of callers
//
// A user asks for the wallet; package identity says which. A service, such as the checkout of the shop, makes the calls
// of an order. It sends a service key, or a token with the scope redeem, and its name becomes the actor in coupon_log.
//
// # Meaning of the responses
//
//	200, 201  the call has happened, now or before; the response has the state
//	204       there was nothing to give back
//	4xx       nothing was changed; RESERVED_ELSEWHERE can succeed later, the others need another request or state
//	429       the user sends too many requests; this one was not processed
//	500, 503  the result may be unknown; repeat with the same order id, after Retry-After
//
// Repeating a call is always safe, because the order id is the idempotency key.
//
// The checks of an order call run in this order: origin, connection, service key, order id, query, content, calls in
// flight, MySQL. Those of the wallet: origin, connection, content, user, page, rate of the user, calls in flight,
// MySQL. A response never contains text from the request, except for a valid order id and the X-Request-ID.
package walletapi

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/wallet"
)

const (
	// requestTimeout bounds the time in MySQL. A thousand calls about one coupon wait for one row lock, one after
	// another.
	requestTimeout = 5 * time.Second

	// maxLoggedFailures is the maximum of equal log lines per second: every request fails while MySQL is away.
	maxLoggedFailures = 5
)

type Options struct {
	Identity *identity.Identity // says which user or service sends a request
	// Redeem makes a call of a checkout. After an error the result is unknown.
	Redeem func(ctx context.Context, couponID coupon.CouponID, call wallet.Call) (wallet.Decision, error)
	// List returns a user's coupons with ids below before, at most limit, and MySQL's clock.
	List func(ctx context.Context, user coupon.UserID, before coupon.UserCouponID, limit int) ([]wallet.Item, time.Time,
		error)

	// Connections is the size of the pool of Redeem and List. Half of it reads wallets, so that the rest is for orders.
	Connections int

	Keys       *ServiceKeys
	ReserveTTL time.Duration // how long a reservation lives
	// Zone returns the time zone of the times in responses.
	Zone     func(ctx context.Context) (*time.Location, error)
	InFlight int         // maximum of requests that wait for MySQL, half of them for wallets; further ones are refused
	UserRate float64     // requests per second of one user for the wallet; 0: no limit
	Origins  []string    // origins of other sites whose pages may use the API
	Draining func() bool // reports whether the process shuts down; responses then close their connection
	Logger   *zap.Logger
	Metrics  prometheus.Registerer
	Now      func() time.Time // only durations are measured with it
}

type server struct {
	Options
	access  *zap.Logger   // one line for each call that may change an order; no line is sampled away
	places  chan struct{} // one for each request that waits for MySQL
	readers chan struct{} // one for each request for a wallet that has a place: the other places are for orders
	lists   chan struct{} // one for each wallet that is read; the other readers wait
	users   *httpapi.UserRates
	foreign func(r *http.Request) bool // see httpapi.ForeignPages
	metrics metrics
}

func New(o Options) http.Handler {
	access := o.Logger
	o.Logger = ops.Sampled(o.Logger, maxLoggedFailures)
	s := &server{Options: o, access: access, users: httpapi.NewUserRates(o.UserRate, o.Now()),
		foreign: httpapi.ForeignPages(o.Origins),
		places:  make(chan struct{}, o.InFlight), readers: make(chan struct{}, half(o.InFlight)),
		lists: make(chan struct{}, half(o.Connections))}
	s.metrics = newMetrics(o.Metrics, s.places)
	o.Metrics.MustRegister(o.Keys.metrics()...)

	mux := http.NewServeMux()
	route := func(path, methods string, calls map[string]endpoint) {
		for method, call := range calls {
			mux.HandleFunc(method+" "+path, s.measured(call))
		}
		mux.HandleFunc(path, s.only(methods))
	}
	const order = "/v1/orders/{orderId}/coupon"
	route("/v1/wallet/coupons", "GET, HEAD", map[string]endpoint{"GET": {"list", s.list}})
	route(order, "GET, HEAD, PUT, DELETE", map[string]endpoint{"GET": {"read", s.ofOrder(wallet.Read)},
		"PUT": {"reserve", s.ofOrder(wallet.Reserve)}, "DELETE": {"release", s.ofOrder(wallet.Release)}})
	route(order+"/confirm", "POST", map[string]endpoint{"POST": {"confirm", s.ofOrder(wallet.Confirm)}})
	route(order+"/refund", "POST", map[string]endpoint{"POST": {"refund", s.ofOrder(wallet.Refund)}})
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, r *http.Request) {
		if problem := refuseContent(w, r); problem != "" {
			s.write(w, r, refuse(problem))
			return
		}
		httpapi.WriteOpenAPI(w, docs.OpenAPIWallet, s.last(r))
	})
	mux.HandleFunc("/openapi.yaml", s.only("GET, HEAD"))
	nothing := func(w http.ResponseWriter, r *http.Request) { s.write(w, r, refuse(notFound)) }
	// Pages read wallets. Services, which are no browsers, use coupons.
	return httpapi.Site(mux, nothing, o.Origins, http.MethodGet, http.MethodHead)
}

// half is at least 1.
func half(n int) int { return max(1, n/2) }

func (s *server) only(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methods)
		s.write(w, r, refuse(methodNotAllowed))
	}
}

// endpoint is a call of the API. name is its label in the metrics.
type endpoint struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request, began time.Time) answer
}

func (s *server) measured(e endpoint) http.HandlerFunc {
	m := s.metrics.calls[e.name]
	return func(w http.ResponseWriter, r *http.Request) {
		began := s.Now()
		var a answer
		switch {
		case s.foreign(r):
			httpapi.LogForeignPage(s.Logger, r)
			a = refuse(foreignOrigin)
		case httpapi.IsSurplus(r):
			s.metrics.refuse("connections")
			a = refuse(overloaded)
		default:
			a = s.decide(e, w, r, began)
		}
		s.write(w, r, a)
		m.observe(a.result, s.Now().Sub(began)-a.waited)
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
	return e.answer(w, r, at)
}

// inFlight runs work with a limited time, unless too many requests are in progress.
func (s *server) inFlight(r *http.Request, work func(ctx context.Context) answer) answer {
	select {
	case s.places <- struct{}{}:
	default:
		s.metrics.refuse("in_flight")
		return refuse(overloaded)
	}
	defer func() { <-s.places }()
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	return work(ctx)
}
