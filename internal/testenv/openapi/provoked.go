package openapi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// parameter is the place of an id in a path.
var parameter = regexp.MustCompile(`\{\w+\}`)

// Provoker sends requests to handlers and notes which documented responses happened.
type Provoker struct {
	t        *testing.T
	contract *Contract
	happened map[string]bool
}

func (c *Contract) Provoker(t *testing.T) *Provoker { return &Provoker{t, c, map[string]bool{}} }

// Send sends a request for an operation. The response must conform to the contract.
func (p *Provoker) Send(handler http.Handler, template string, request *http.Request) *http.Response {
	p.t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	require.NoError(p.t, p.contract.Check(request, response), "%s %s", request.Method, request.URL)
	template, _, _ = strings.Cut(template, "?")
	document, err := p.contract.document()
	require.NoError(p.t, err)
	what := response.Header.Get("Content-Type")
	if described := responsesTo(document, request).Status(response.StatusCode); described != nil {
		if content := described.Value.Content[what]; content != nil {
			for _, member := range []string{"code", "status"} {
				_, after, found := strings.Cut(recorder.Body.String(), `"`+member+`":"`)
				if value, _, _ := strings.Cut(after, `"`); found && slices.Contains(Values(content), value) {
					what = value
					break
				}
			}
		}
	}
	p.happened[fmt.Sprint(request.Method, " ", template, " ", response.StatusCode, " ", what)] = true
	return response
}

// Provoke sends a request with pairs of header names and values.
func (p *Provoker) Provoke(handler http.Handler, method, template, id string, body io.Reader,
	headers ...string) *http.Response {
	p.t.Helper()
	path := parameter.ReplaceAllLiteralString(template, id)
	request := httptest.NewRequest(method, path, body)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return p.Send(handler, template, request)
}

// RequireAll demands that exactly the documented responses happened.
func (p *Provoker) RequireAll() {
	p.t.Helper()
	document, err := p.contract.document()
	require.NoError(p.t, err)
	var documented []string
	for template, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				for _, what := range answersOf(response.Value.Content) {
					documented = append(documented, fmt.Sprint(method, " ", template, " ", status, " ", what))
				}
			}
		}
	}
	require.ElementsMatch(p.t, documented, slices.Collect(maps.Keys(p.happened)))
}

func answersOf(content openapi3.Content) (answers []string) {
	for contentType, one := range content {
		values := Values(one)
		if len(values) == 0 {
			values = []string{contentType}
		}
		answers = append(answers, values...)
	}
	if len(content) == 0 {
		return []string{""}
	}
	return answers
}

// Broken is content that breaks off.
type Broken struct{}

func (Broken) Read([]byte) (int, error) { return 0, errors.New("it broke off") }

// RefusesContent demands that a call without content is answered as one with an empty object, and that other content is
// refused: it may not be longer than max bytes.
func RefusesContent(t *testing.T, handler http.Handler, call string, max int, headers ...string) {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	send := func(content io.Reader) (status int, body string) {
		request, recorder := httptest.NewRequest(method, path, content), httptest.NewRecorder()
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		handler.ServeHTTP(recorder, request)
		return recorder.Code, recorder.Body.String()
	}
	withAndWithoutLength := func(text string) []io.Reader {
		return []io.Reader{strings.NewReader(text), io.MultiReader(strings.NewReader(text))}
	}
	want, _ := send(nil)
	require.Less(t, want, http.StatusInternalServerError, call)
	require.NotEqual(t, http.StatusBadRequest, want, call)
	for _, none := range []string{"", "{}", " {\n}\r\n"} {
		for _, content := range withAndWithoutLength(none) {
			status, body := send(content)
			require.Equal(t, want, status, "%s %q: %s", call, none, body)
		}
	}
	for _, some := range []string{
		"x", "null", "[]", "{}{}", `{"userId":8}`, `{"amountWon":5000}`, "seats=2", strings.Repeat(" ", max+1),
	} {
		for _, content := range append(withAndWithoutLength(some), Broken{}) {
			status, body := send(content)
			require.Equal(t, http.StatusBadRequest, status, "%s %q: %s", call, some, body)
			require.Contains(t, body, `"code":"INVALID_BODY"`, "%s %q", call, some)
		}
	}
}
