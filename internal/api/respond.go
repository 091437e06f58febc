package api

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/docs"
	"golang.org/x/text/language"
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
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       result `json:"code"`
	OpensAt    string `json:"opensAt,omitempty"`
	ServerTime string `json:"serverTime,omitempty"`
	MayReopen  *bool  `json:"mayReopen,omitempty"` // only if Code is LINE_FULL
}

// Header values are shared by all responses, and never changed.
var (
	noStore = []string{"no-store"}
	// The browser must not guess a content type, and must not load or frame anything.
	noSniff         = []string{"nosniff"}
	noContent       = []string{"default-src 'none'; frame-ancestors 'none'"}
	jsonContent     = []string{"application/json"}
	problemContent  = []string{"application/problem+json"}
	byLanguage      = []string{"Accept-Language"}
	closeConnection = []string{"close"}
)

func (s *server) setCommon(header http.Header, r *http.Request) {
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noContent
	if s.Draining != nil && s.Draining() || isSurplus(r) {
		header["Connection"] = closeConnection
	}
}

func (s *server) write(w http.ResponseWriter, r *http.Request, a answer) {
	header := w.Header()
	s.setCommon(header, r)
	header["Cache-Control"] = noStore
	header["Content-Type"] = jsonContent
	if a.json == nil {
		a.status, a.json = s.problem(header, r, a)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.json) // an error is ignored: the client has hung up, and can repeat the request
}

func (s *server) problem(header http.Header, r *http.Request, a answer) (status int, body []byte) {
	p := a.problem()
	tag := negotiate(r.Header)
	sentences := p.korean
	if tag == language.English {
		sentences = p.english
	}
	header["Content-Type"] = problemContent
	header["Vary"] = byLanguage
	header.Set("Content-Language", tag.String())
	if after := max(p.retryAfter, a.retryAfter); after > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	document := a.extra
	document.Type, document.Code = "urn:jajeong:problem:"+string(p.code), p.code
	document.Title, document.Detail, document.Status = sentences.title, sentences.detail, p.status
	return p.status, marshal(document)
}

func marshal(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: v consists of strings and numbers
	}
	return append(line, '\n')
}

func (s *server) format(t time.Time) string { return string(appendTime(nil, t.In(s.Zone))) }

// appendTime appends t in RFC 3339 with microseconds. AppendFormat would be slow for a layout with six decimals.
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

var (
	forFiveMinutes = []string{"public, max-age=300"} // clients see a new version after five minutes at most
	yaml           = []string{"application/yaml"}
)

func (s *server) openAPI(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	s.setCommon(header, r)
	header["Cache-Control"] = forFiveMinutes
	header["Content-Type"] = yaml
	_, _ = w.Write(docs.OpenAPI)
}
