package api

import (
	"net/http"
	"time"

	"golang.org/x/text/language"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/httpapi"
)

type answer struct {
	result   result
	status   int
	json     []byte          // nil: the response is a problem
	buffer   *[maxReply]byte // memory that json uses; nil: json has its own
	language language.Tag    // language of the text in json; Und: json has no text
	etag     string          // with an ETag, caches may keep the response for a second; empty: they may not
	extra    problemDocument // extension members of the problem

	challenge string // value of WWW-Authenticate; empty: none

	retryAfter time.Duration // minimum of the Retry-After header; the problem's own value may be longer
	waited     time.Duration // time spent waiting for the request body
}

func refuse(r result) answer { return answer{result: r} }

type problemDocument struct {
	httpapi.Document
	OpensAt    string `json:"opensAt,omitempty"`
	ServerTime string `json:"serverTime,omitempty"`
	MayReopen  *bool  `json:"mayReopen,omitempty"` // only if Code is LINE_FULL
	MayBeLost  bool   `json:"mayBeLost,omitempty"` // only if Code is NOT_APPLIED
}

var forASecond = []string{"public, max-age=1"} // never changed

func (s *server) write(w http.ResponseWriter, r *http.Request, a answer) {
	header := w.Header()
	httpapi.SetHeaders(header, s.last(r))
	if a.json == nil {
		a.status, a.json = s.problem(header, r, a)
	}
	if a.etag != "" {
		header["Cache-Control"] = forASecond
		header["Etag"] = []string{a.etag}
	}
	if a.language != language.Und {
		httpapi.SetLanguage(header, a.language)
	}
	if a.status == http.StatusNotModified {
		delete(header, "Content-Type")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.json) // an error is ignored: the client has hung up, and can repeat the request
	if a.buffer != nil {
		buffers.Put(a.buffer)
	}
}

// last reports whether the connection closes after the response.
func (s *server) last(r *http.Request) bool {
	return s.Draining != nil && s.Draining() || httpapi.IsSurplus(r)
}

func (s *server) problem(header http.Header, r *http.Request, a answer) (status int, body []byte) {
	p := a.problem(r.Method)
	p.RetryAfter = max(p.RetryAfter, a.retryAfter)
	if a.challenge != "" {
		header["Www-Authenticate"] = []string{a.challenge}
	}
	document := a.extra
	document.Document = p.Describe(header, r)
	return p.Status, httpapi.Marshal(document)
}

func (s *server) openAPI(w http.ResponseWriter, r *http.Request) {
	if !httpapi.HasNoContent(w, r) {
		s.write(w, r, refuse(invalidBody))
		return
	}
	httpapi.WriteOpenAPI(w, docs.OpenAPI, s.last(r))
}
