package adminapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// answer is what a request gets.
type answer struct {
	result result          // of a problem; empty: success
	status int             // of a success
	body   json.RawMessage // of a success
	kept   bool            // status and body are those of an earlier answer, which may be a problem

	detail     string // of a problem, in the language of the request; empty: that of the result
	errors     []fieldError
	printed    json.RawMessage // what the verb has printed nevertheless
	location   string          // address of a job
	retryAfter time.Duration   // the least value of Retry-After
}

// fieldError is what is wrong with one value.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// problem is the body of a problem.
type problem struct {
	httpapi.Document
	Errors []fieldError    `json:"errors,omitempty"` // with INVALID_VALUES
	Result json.RawMessage `json:"result,omitempty"` // what the verb has printed nevertheless
}

func refuse(r result) answer { return answer{result: r} }

func succeed(body []byte) answer { return answer{status: http.StatusOK, body: body} }

// encode returns the status and the body of an answer, and sets its headers.
func (a answer) encode(header http.Header, r *http.Request) (status int, body []byte) {
	httpapi.SetHeaders(header, false)
	if a.location != "" {
		header.Set("Location", a.location)
	}
	if a.result == "" {
		if a.kept && a.status >= http.StatusBadRequest {
			header.Set("Content-Type", "application/problem+json")
		}
		return a.status, a.body
	}
	p := problems.Of(a.result)
	p.RetryAfter = max(p.RetryAfter, a.retryAfter)
	if a.detail != "" {
		p = p.WithDetails(a.detail, a.detail)
	}
	if a.result == unauthenticated {
		header.Set("WWW-Authenticate", "Bearer")
	}
	return p.Status, httpapi.Marshal(problem{p.Describe(header, r), a.errors, a.printed})
}

// problem is the status and the body of a problem as a job keeps them: without the name of the request.
func (a answer) problem(l text.Language) (status int, body json.RawMessage) {
	p := problems.Of(a.result)
	if a.detail != "" {
		p = p.WithDetails(a.detail, a.detail)
	}
	said := p.Korean
	if l == text.English {
		said = p.English
	}
	return p.Status, httpapi.Marshal(problem{p.Document(said), a.errors, a.printed})
}

func write(w http.ResponseWriter, r *http.Request, a answer) {
	status, body := a.encode(w.Header(), r)
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error is ignored: the client has hung up
}

// maxPrinted bounds what a verb prints, in bytes. It is in memory, and jobs keep it for a day.
const maxPrinted = 8 << 20

// printed collects what a verb prints.
type printed struct {
	all     bytes.Buffer
	tooMuch bool
}

var errTooMuch = errors.New("the result is too large")

func (p *printed) Write(b []byte) (int, error) {
	if p.tooMuch = p.tooMuch || p.all.Len()+len(b) > maxPrinted; p.tooMuch {
		return 0, errTooMuch
	}
	return p.all.Write(b)
}

// answerOf turns what a verb has answered into what the caller gets.
func answerOf(answered verb.Answer, out *printed, notes *output.Document, l text.Language) answer {
	switch {
	case out.tooMuch:
		return refuse(resultTooLarge)
	case answered.Exit == 0:
		return succeed(out.all.Bytes())
	}
	a := answer{result: resultOf(answered), detail: cmp.Or(sentences(notes), errorsIn(l, answered.Errs))}
	if a.result == approvalNeeded {
		a.detail = "" // the verb names its flag
	}
	if json.Valid(out.all.Bytes()) {
		a.printed = out.all.Bytes()
	}
	for _, name := range slices.Sorted(maps.Keys(answered.Wrong)) {
		a.errors = append(a.errors, fieldError{MemberOf(name), answered.Wrong[name]})
	}
	return a
}

// sentences are what a verb has said.
func sentences(notes *output.Document) string {
	var all []string
	for _, b := range notes.Blocks() {
		line := strings.TrimSpace(output.Printable(strings.TrimPrefix(b.Text, "settle: ")))
		if b.Sheet == nil && line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// errorsIn are the errors of a verb that has printed them as JSON alone.
func errorsIn(l text.Language, errs []error) string {
	var all []string
	for _, err := range errs {
		if line := output.Printable(text.In(l, err)); line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// resultOfMessage are the refusals that a program tells from others.
var resultOfMessage = []struct {
	message text.Message
	result  result
}{
	{text.ApprovalNeeded, approvalNeeded},
	{text.PreviewChanged, previewChanged}, {text.OtherWinners, previewChanged},
	{text.ApprovalNotGiven, approvalWrong}, {text.ApprovalOfOther, approvalWrong},
	{text.ApprovalOfOtherPerson, approvalWrong}, {text.ApprovalOfOtherReason, approvalWrong},
	{text.ApprovalChanged, approvalWrong},
	{text.KeyReused, clientKeyTaken},
	{text.ListUnread, invalidBody}, {text.ListTooLong, invalidBody}, {text.ListEmpty, invalidBody},
	{text.ListNotUTF8, invalidBody}, {text.ListOtherHeader, invalidBody}, {text.ListTwoColumns, invalidBody},
	{text.ListIsWorkbook, invalidBody}, {text.ListWithoutHeader, invalidBody},
	{text.ListWrongUser, invalidBody}, {text.ListNumberShortened, invalidBody}, {text.ListWrongJSON, invalidBody},
}

// resultOf returns the result of a verb that did not succeed. Exit codes are those of DESIGN §6.
func resultOf(a verb.Answer) result {
	if a.Invalid || len(a.Wrong) > 0 {
		return invalidValues
	}
	for _, err := range a.Errs {
		for _, known := range resultOfMessage {
			if text.Has(err, known.message) {
				return known.result
			}
		}
		if text.IsMissing(err) {
			return doesNotExist
		}
	}
	ofUse := func(err error) bool { return errors.As(err, new(*text.UsageError)) }
	switch {
	case a.Exit == 3:
		return held
	case a.Exit != 2:
		return unavailable
	case slices.ContainsFunc(a.Errs, ofUse):
		return refused
	default:
		return internal // the setup of a server is wrong
	}
}
