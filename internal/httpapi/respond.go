package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/text/language"
)

// Document is the body of a problem. An API adds members of its own by embedding it.
type Document struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   Result `json:"code"`

	Instance string `json:"instance,omitempty"` // names the request
}

// Document returns the body in one language.
func (p Problem) Document(words Words) Document {
	return Document{Type: "urn:jajeong:problem:" + string(p.Code), Title: words.Title, Status: p.Status,
		Detail: words.Detail, Code: p.Code}
}

// Describe sets the headers of a problem, and returns its body in the language of the request.
func (p Problem) Describe(header http.Header, r *http.Request) Document {
	tag := Negotiate(r.Header)
	words := p.Korean
	if tag == language.English {
		words = p.English
	}
	header["Content-Type"] = problemContent
	SetLanguage(header, tag)
	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	document := p.Document(words)
	document.Instance = "urn:jajeong:request:" + RequestID(r)
	return document
}

// SetLanguage sets the headers of a response whose text is in the language of the request.
func SetLanguage(header http.Header, tag language.Tag) {
	AddVary(header, byLanguage)
	header["Content-Language"] = inKorean
	if tag == language.English {
		header["Content-Language"] = inEnglish
	}
}

// AddVary notes that a response depends on headers of the request. on is shared, and never changed.
func AddVary(header http.Header, on []string) {
	if others := header["Vary"]; len(others) == 0 {
		header["Vary"] = on
	} else {
		header["Vary"] = append(slices.Clip(others), on...) // CrossOrigin has set some
	}
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
	inKorean        = []string{"ko"}
	inEnglish       = []string{"en"}
	closeConnection = []string{"close"}
	forFiveMinutes  = []string{"public, max-age=300"} // clients see a new version after five minutes at most
	yaml            = []string{"application/yaml"}
	events          = []string{"text/event-stream"}
	unbuffered      = []string{"no"}
)

// SetHeaders sets the headers of every JSON response. last makes the client close the connection.
func SetHeaders(header http.Header, last bool) {
	setCommon(header, last)
	header["Cache-Control"] = noStore
	header["Content-Type"] = jsonContent
}

// SetStreamHeaders sets the headers of a stream of events. Proxies must neither keep nor collect what it says.
func SetStreamHeaders(header http.Header) {
	setCommon(header, true) // nothing follows a stream on its connection
	header["Cache-Control"] = noStore
	header["Content-Type"] = events
	header["X-Accel-Buffering"] = unbuffered // nginx
}

func setCommon(header http.Header, last bool) {
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noContent
	if last {
		header["Connection"] = closeConnection
	}
}

// SetFileHeaders sets the headers of a file that is part of the program.
func SetFileHeaders(header http.Header, last bool) {
	setCommon(header, last)
	header["Cache-Control"] = forFiveMinutes
}

// WriteOpenAPI answers with a contract in YAML.
func WriteOpenAPI(w http.ResponseWriter, contract []byte, last bool) {
	header := w.Header()
	SetFileHeaders(header, last)
	header["Content-Type"] = yaml
	_, _ = w.Write(contract)
}

// Marshal returns v as one line of JSON. v consists of strings, numbers and lists.
func Marshal(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible for such a v
	}
	return append(line, '\n')
}

// AppendTime appends t in RFC 3339 with microseconds. AppendFormat would be slow for a layout with six decimals.
func AppendTime(text []byte, t time.Time) []byte {
	const toSeconds = len("2006-01-02T15:04:05")
	zone := len(text) + toSeconds
	text = t.AppendFormat(text, time.RFC3339)
	fraction := [...]byte{'.', 0, 0, 0, 0, 0, 0}
	for i, µs := len(fraction)-1, t.Nanosecond()/1000; i > 0; i-- {
		fraction[i], µs = byte('0'+µs%10), µs/10
	}
	return slices.Insert(text, zone, fraction[:]...)
}
