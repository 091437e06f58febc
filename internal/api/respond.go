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
	json   []byte          // nil: a problem
	extra  problemDocument // the extension members of a problem

	retryAfter time.Duration // at least so long; the problem may ask for longer
	waited     time.Duration // for the body of the client
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
}

// Header values, shared by all responses and never changed.
var (
	noStore = []string{"no-store"}
	// A browser guesses no type, and loads and frames nothing.
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
	_, _ = w.Write(a.json) // a client that has hung up can repeat the request
}

func (s *server) problem(header http.Header, r *http.Request, a answer) (status int, body []byte) {
	p := describe(a.result)
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
		panic(err) // impossible: texts and numbers only
	}
	return append(line, '\n')
}

func (s *server) format(t time.Time) string { return string(appendTime(nil, t.In(s.Zone))) }

// appendTime writes RFC 3339 with microseconds, inserted after the seconds: only RFC 3339 without fractions has a fast path.
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
	forFiveMinutes = []string{"public, max-age=300"} // longest time until clients see a new version
	yaml           = []string{"application/yaml"}
)

func (s *server) openAPI(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	s.setCommon(header, r)
	header["Cache-Control"] = forFiveMinutes
	header["Content-Type"] = yaml
	_, _ = w.Write(docs.OpenAPI)
}
