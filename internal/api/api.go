package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// standingTimeout is how long somebody waits at most to hear where an application stands. Redis answers in a
	// millisecond; after two seconds it is better to say "ask again" than to let requests pile up.
	standingTimeout = 2 * time.Second

	// maxBodyBytes tolerates clients that always send something, such as {}. Nothing in it is used.
	maxBodyBytes = 1 << 10

	// At most so many equal failures are logged a second: without Redis every request is one.
	loggedFailures = 5
)

// Applier asks Redis for a coupon, and answers within two seconds, or says that Redis did not.
type Applier interface {
	Apply(ctx context.Context, couponID, user uint64) (candidates.Receipt, error)
}

// Standings knows where applications stand; Redis does.
type Standings interface {
	Status(ctx context.Context, couponID, user uint64) (candidates.Status, error)
}

// History knows how applications came out; MySQL does.
type History interface {
	Standing(ctx context.Context, couponID, user uint64) (candidates.Status, error)
}

// Coupons knows which coupons there are.
type Coupons interface {
	Lookup(id uint64) (coupon.Coupon, bool)
	Loaded() bool
}

// Options are what the public API works with.
type Options struct {
	Applier   Applier
	Standings Standings
	History   History
	Coupons   Coupons
	Shard     func(couponID uint64) string      // tells the shards of Redis apart; nil: there is one
	SettlesAt func(arrival time.Time) time.Time // when an arrival is settled
	Zone      *time.Location                    // of the times in answers
	Limits    Limits
	Draining  func() bool // whether the process is about to end: connections are not kept then; nil: never
	Logger    *zap.Logger
	Metrics   prometheus.Registerer
	Now       func() time.Time // for durations alone
}

// server answers applicants.
type server struct {
	Options
	applying, standings rooms
	histories           room
	users               *userRates
	metrics             metrics
}

// New returns the public API.
func New(o Options) http.Handler {
	o.Logger = o.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, loggedFailures, 0)
	}))
	if o.Shard == nil {
		o.Shard = func(uint64) string { return "" }
	}
	s := &server{Options: o, users: newUserRates(o.Limits.UserRate, o.Now()),
		applying: newRooms(int64(o.Limits.InFlight)), standings: newRooms(mostStandings)}
	s.histories.most = mostHistories
	s.metrics = newMetrics(o.Metrics, s.applying)

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/coupons/{id}/applications", s.measured(&s.metrics.apply, s.apply))
	mux.HandleFunc("/v1/coupons/{id}/applications", s.only("POST"))
	mux.HandleFunc("GET /v1/coupons/{id}/applications/me", s.measured(&s.metrics.standing, s.standing))
	mux.HandleFunc("/v1/coupons/{id}/applications/me", s.only("GET, HEAD"))
	mux.HandleFunc("GET /openapi.yaml", s.openAPI)
	mux.HandleFunc("/openapi.yaml", s.only("GET, HEAD"))
	nothing := s.answering(func(http.ResponseWriter, *http.Request, time.Time) answer { return refuse(notFound) })
	mux.HandleFunc("/", nothing)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would answer an unclean path with a redirect that repeats it.
		if unclean(r.URL) {
			nothing(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// unclean paths have a place that is empty, "." or "..", or do not begin at the root, as the mux sees them.
func unclean(u *url.URL) bool {
	path := u.Path
	if u.RawPath != "" {
		path = u.EscapedPath()
	}
	return path == "" || path[0] != '/' || strings.Contains(path, "//") || strings.Contains(path, "/.")
}

// only refuses every other method.
func (s *server) only(methods string) http.HandlerFunc {
	return s.answering(func(w http.ResponseWriter, _ *http.Request, _ time.Time) answer {
		w.Header().Set("Allow", methods)
		return refuse(methodNotAllowed)
	})
}

// answer is what a request leads to: where an application stands, or a problem.
type answer struct {
	outcome candidates.Code
	status  int
	json    []byte          // nil for a refusal
	extra   problemDocument // the extension members of a refusal

	retryAfter time.Duration // where it is another than the outcome's
	waited     time.Duration // for the client, until all of the request was there
}

func refuse(outcome candidates.Code) answer { return answer{outcome: outcome} }

// application is one that stands in line.
type application struct {
	status         candidates.Code
	couponID, user uint64
	position       int64
	seats          uint64
	applied, until time.Time // in the zone of the answers
}

// json is written by hand, since this is the answer that thousands wait for in the same second: nothing in it needs
// escaping, and reflection would take four times as long.
func (a application) json() []byte {
	const size = 256 // the longest is shorter
	text := append(make([]byte, 0, size), `{"status":"`...)
	text = append(text, a.status...)
	text = strconv.AppendUint(append(text, `","couponId":`...), a.couponID, 10)
	text = strconv.AppendUint(append(text, `,"userId":`...), a.user, 10)
	text = strconv.AppendInt(append(text, `,"position":`...), a.position, 10)
	text = strconv.AppendUint(append(text, `,"seats":`...), a.seats, 10)
	text = appendTime(append(text, `,"appliedAt":"`...), a.applied)
	text = appendTime(append(text, `","settlesAt":"`...), a.until)
	return append(text, "\"}\n"...)
}

// apply is POST /v1/coupons/{id}/applications.
func (s *server) apply(w http.ResponseWriter, r *http.Request, at time.Time) answer {
	if isSurplus(r) {
		return s.metrics.apply.turnAway(overloaded, "connections")
	}
	id, user, refusal := ids(r)
	if refusal != "" {
		return refuse(refusal)
	}
	if wait := s.users.wait(user, at); wait > 0 {
		return s.metrics.apply.tooOften(wait)
	}
	waited, refusal := s.awaitBody(w, r)
	a := s.applyFor(r.Context(), id, user, refusal)
	a.waited = waited
	return a
}

// applyFor is for a user who may ask, with a body that is there, or what stands against it.
func (s *server) applyFor(ctx context.Context, id, user uint64, refusal candidates.Code) answer {
	if refusal != "" {
		return refuse(refusal)
	}
	found, refusal := s.lookup(id)
	if refusal != "" {
		return refuse(refusal)
	}
	if found.Finalised() {
		return refuse(candidates.Closed)
	}
	room := s.applying.of(s.Shard(id))
	if !room.enter() {
		return s.metrics.apply.turnAway(overloaded, "in_flight")
	}
	defer room.leave()
	receipt, err := s.Applier.Apply(ctx, id, user)
	if err != nil {
		return s.unasked(id, err)
	}
	return s.told(receipt, found, user)
}

// awaitBody reads what a client sends, though nobody needs it, and tells how long that took.
func (s *server) awaitBody(w http.ResponseWriter, r *http.Request) (waited time.Duration, refusal candidates.Code) {
	if r.ContentLength == 0 {
		return 0, ""
	}
	began := s.Now()
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBodyBytes))
	waited = s.Now().Sub(began)
	switch tooLarge := new(http.MaxBytesError); {
	case errors.As(err, &tooLarge):
		return waited, bodyTooLarge
	case err != nil:
		return waited, unreadableBody
	default:
		return waited, ""
	}
}

// unasked is the answer to an application to which Redis did not answer, or for which it was not asked.
func (s *server) unasked(couponID uint64, err error) answer {
	var not candidates.NotAsked
	switch {
	case !errors.As(err, &not):
		s.Logger.Warn("apply failed", zap.Uint64("coupon_id", couponID), zap.Error(err))
		return s.metrics.apply.turnAway(unavailable, "unanswered")
	case not == candidates.Resting:
		return s.metrics.apply.turnAway(resting, string(not))
	default:
		return s.metrics.apply.turnAway(overloaded, string(not))
	}
}

// ids reads who asks for what; refusal is empty when both are ids.
func ids(r *http.Request) (couponID, user uint64, refusal candidates.Code) {
	userIDs := r.Header.Values("X-User-ID")
	if len(userIDs) == 0 || len(userIDs) == 1 && userIDs[0] == "" {
		return 0, 0, unauthenticated
	}
	user, ok := parseID(userIDs[0])
	if !ok || len(userIDs) > 1 {
		return 0, 0, invalidUserID
	}
	couponID, ok = parseID(r.PathValue("id"))
	if !ok {
		return 0, 0, invalidCouponID
	}
	return couponID, user, ""
}

func (s *server) lookup(id uint64) (found coupon.Coupon, refusal candidates.Code) {
	if !s.Coupons.Loaded() {
		return found, catalogNotLoaded
	}
	found, ok := s.Coupons.Lookup(id)
	if !ok {
		return found, couponNotFound
	}
	return found, ""
}

// told turns what Redis said into an answer.
func (s *server) told(receipt candidates.Receipt, of coupon.Coupon, user uint64) answer {
	status := http.StatusOK
	switch receipt.Code {
	case candidates.Accepted:
		status = http.StatusAccepted
	case candidates.Duplicate:
	case candidates.NotOpen:
		return answer{outcome: receipt.Code, extra: problemDocument{
			OpensAt: s.format(receipt.OpensAt), ServerTime: s.format(receipt.Now),
		}}
	default:
		return refuse(receipt.Code)
	}
	arrival := time.UnixMicro(receipt.Arrival)
	return answer{outcome: receipt.Code, status: status, json: application{
		status: receipt.Code, couponID: of.ID, user: user, position: receipt.Position, seats: uint64(of.Free()),
		applied: arrival.In(s.Zone), until: s.SettlesAt(arrival).In(s.Zone),
	}.json()}
}

func (s *server) format(t time.Time) string { return string(appendTime(nil, t.In(s.Zone))) }

// appendTime writes RFC 3339 with microseconds. Package time is fast at RFC 3339 alone: they are put in behind the seconds.
func appendTime(text []byte, t time.Time) []byte {
	const toSeconds = len("2006-01-02T15:04:05")
	zone := len(text) + toSeconds
	text = t.AppendFormat(text, time.RFC3339)
	fraction := [...]byte{'.', 0, 0, 0, 0, 0, 0}
	for i, µs := len(fraction)-1, t.Nanosecond()/1000; i > 0; i-- {
		fraction[i], µs = byte('0'+µs%10), µs/10
	}
	return slices.Insert(text, zone, fraction[:]...)
}

// parseID reads an id from 1 to 2^64-1 in canonical decimal: one user must not be able to stand in line as 7 and 07.
func parseID(text string) (uint64, bool) {
	id, err := strconv.ParseUint(text, 10, 64)
	return id, err == nil && text[0] >= '1' && text[0] <= '9'
}

// endpoint decides an answer to a request that began at an instant; writing it is left to answering.
type endpoint func(w http.ResponseWriter, r *http.Request, at time.Time) answer

// measured counts and times what answering writes.
func (s *server) measured(m *endpointMetrics, e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := s.Now()
		a := s.decide(e, w, r, began)
		s.write(w, r, a)
		m.observe(a.outcome, s.Now().Sub(began)-a.waited)
	}
}

func (s *server) answering(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.write(w, r, s.decide(e, w, r, time.Time{})) }
}

// decide turns a panic into an answer, so that the server goes on.
func (s *server) decide(e endpoint, w http.ResponseWriter, r *http.Request, at time.Time) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("request panicked", zap.Any("panic", p), zap.Stack("stack"))
			a = refuse(internal)
		}
	}()
	return e(w, r, at)
}

// problemDocument is a refusal by RFC 9457.
type problemDocument struct {
	Type       string          `json:"type"`
	Title      string          `json:"title"`
	Status     int             `json:"status"`
	Detail     string          `json:"detail"`
	Code       candidates.Code `json:"code"`
	OpensAt    string          `json:"opensAt,omitempty"`
	ServerTime string          `json:"serverTime,omitempty"`
}

// Header values that every answer has: shared, since nobody changes them.
var (
	noStore = []string{"no-store"}
	// A browser that is led here by somebody else's page neither guesses a type nor loads or frames anything.
	noSniff         = []string{"nosniff"}
	noContent       = []string{"default-src 'none'; frame-ancestors 'none'"}
	jsonContent     = []string{"application/json"}
	problemContent  = []string{"application/problem+json"}
	byLanguage      = []string{"Accept-Language"}
	closeConnection = []string{"close"}
)

// guard sets what every response has.
func (s *server) guard(header http.Header, r *http.Request) {
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noContent
	if s.Draining != nil && s.Draining() || isSurplus(r) {
		header["Connection"] = closeConnection
	}
}

func (s *server) write(w http.ResponseWriter, r *http.Request, a answer) {
	header := w.Header()
	s.guard(header, r)
	header["Cache-Control"] = noStore
	header["Content-Type"] = jsonContent
	if a.json == nil {
		a.status, a.json = s.problem(header, r, a)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.json) // whoever has hung up learns by asking again
}

// problem is a refusal in the language of whoever asks.
func (s *server) problem(header http.Header, r *http.Request, a answer) (status int, text []byte) {
	p, code := describe(a.outcome)
	tag := negotiate(r.Header)
	words := p.in(tag)
	header["Content-Type"] = problemContent
	header["Vary"] = byLanguage
	header.Set("Content-Language", tag.String())
	if after := max(p.retryAfter, a.retryAfter); after > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	document := a.extra
	document.Type, document.Code = "urn:jajeong:problem:"+string(code), code
	document.Title, document.Detail, document.Status = words.title, words.detail, p.status
	return p.status, marshal(document)
}

// marshal is a line of JSON.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of texts and numbers alone
	}
	return append(text, '\n')
}
