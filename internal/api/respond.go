package api

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/httpapi"
)

type answer struct {
	result result
	status int
	json   []byte          // nil: the response is a problem
	extra  problemDocument // extension members of the problem

	retryAfter time.Duration // minimum of the Retry-After header; the problem's own value may be longer
	waited     time.Duration // time spent waiting for the request body
}

func refuse(r result) answer { return answer{result: r} }

type problemDocument struct {
	httpapi.Document
	OpensAt    string `json:"opensAt,omitempty"`
	ServerTime string `json:"serverTime,omitempty"`
	MayReopen  *bool  `json:"mayReopen,omitempty"` // only if Code is LINE_FULL
}

func (s *server) write(w http.ResponseWriter, r *http.Request, a answer) {
	header := w.Header()
	httpapi.SetHeaders(header, s.last(r))
	if a.json == nil {
		a.status, a.json = s.problem(header, r, a)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.json) // an error is ignored: the client has hung up, and can repeat the request
}

// last reports whether the connection closes after the response.
func (s *server) last(r *http.Request) bool {
	return s.Draining != nil && s.Draining() || httpapi.IsSurplus(r)
}

func (s *server) problem(header http.Header, r *http.Request, a answer) (status int, body []byte) {
	p := a.problem().shared()
	p.RetryAfter = max(p.RetryAfter, a.retryAfter)
	document := a.extra
	document.Document = p.Describe(header, r)
	return p.Status, httpapi.Marshal(document)
}

func (s *server) format(t time.Time) string { return string(httpapi.AppendTime(nil, t.In(s.Zone))) }

func (s *server) openAPI(w http.ResponseWriter, r *http.Request) {
	httpapi.WriteOpenAPI(w, docs.OpenAPI, s.last(r))
}
