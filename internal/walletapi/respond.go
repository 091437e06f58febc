package walletapi

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
)

type answer struct {
	result result
	status int
	body   any             // nil: the response is a problem, or has no content
	extra  problemDocument // extension members of the problem

	challenge  string        // value of WWW-Authenticate; empty: none
	retryAfter time.Duration // minimum of the Retry-After header; the problem's own value may be longer
	waited     time.Duration // time spent waiting for the request body
}

func refuse(r result) answer { return answer{result: r} }

type problemDocument struct {
	httpapi.Document
	Until string `json:"until,omitempty"` // only if Code is RESERVED_ELSEWHERE
	// Only if Code is RESERVED_ELSEWHERE, and the service has reserved for that order.
	OrderID    string `json:"orderId,omitempty"`
	MinimumWon int64  `json:"minimumWon,omitempty"` // only if Code is BELOW_MINIMUM
}

func (s *server) write(w http.ResponseWriter, r *http.Request, a answer) {
	header := w.Header()
	httpapi.SetHeaders(header, s.last(r))
	var body []byte
	switch {
	case a.status == http.StatusNoContent:
		header.Del("Content-Type")
	case a.body != nil:
		body = httpapi.Marshal(a.body)
	default:
		a.status, body = s.problem(header, r, a)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // an error is ignored: the client has hung up, and can repeat the request
}

// last reports whether the connection closes after the response.
func (s *server) last(r *http.Request) bool { return s.Draining() || httpapi.IsSurplus(r) }

func (s *server) problem(header http.Header, r *http.Request, a answer) (status int, body []byte) {
	p := problems.Of(a.result)
	p.RetryAfter = max(p.RetryAfter, a.retryAfter)
	document := a.extra
	document.Document = p.Describe(header, r)
	if a.challenge != "" {
		header.Set("WWW-Authenticate", a.challenge)
	}
	return p.Status, httpapi.Marshal(document)
}

// format returns "" for the zero time.
func format(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return string(httpapi.AppendTime(nil, t.In(zone)))
}
