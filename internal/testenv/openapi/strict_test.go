package openapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

const (
	at      = `"2026-11-20T14:00:00.382634+09:00"`
	pending = `{"status":"PENDING","couponId":42,"userId":7,"position":5,"seats":100,"withinSeats":true,"appliedAt":` +
		at +
		`,"cadence":"NIGHTLY","settlesAt":` + at + `}`
	issued = `{"status":"ISSUED","couponId":42,"userId":7}`
	terms  = `{"couponId":42,"name":"c","status":"OPEN","opensAt":` + at + `,"closesAt":` + at +
		`,"seats":1,"cadence":"NIGHTLY","discountWon":5000,"minimumWon":0,"asOf":` + at + `}`
)

func problem(status int, code, more string) string {
	return fmt.Sprintf(
		`{"type":"urn:jajeong:problem:%s","title":"t","status":%d,"detail":"d","code":%[1]q,`+
			`"instance":"urn:jajeong:request:r"%[3]s}`,
		code, status, more)
}

// check checks an answer with the headers of its kind.
func check(method, path string, status int, body string, headers ...string) error {
	response := &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}
	for name, value := range map[string]string{"Cache-Control": "no-store", "X-Request-ID": "r",
		"X-Content-Type-Options":  "nosniff",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Content-Type": "application/json"} {
		response.Header.Set(name, value)
	}
	if status >= 400 {
		headers = append([]string{"Content-Type", "application/problem+json", "Content-Language", "ko", "Vary",
			"Accept-Language"}, headers...)
	}
	for i := 0; i < len(headers); i += 2 {
		response.Header.Set(headers[i], headers[i+1])
	}
	return openapi.Check(httptest.NewRequest(method, path, nil), response)
}

func TestCheck_RefusesWhatTheDocumentDoesNotHave(t *testing.T) {
	t.Parallel()
	const me, apply, one, stream = "/v1/coupons/42/applications/me", "/v1/coupons/42/applications", "/v1/coupons/42",
		"/v1/live/coupons/42/me"
	asked := func(body string, headers ...string) error { return check("GET", me, 200, body, headers...) }
	require.NoError(t, asked(pending))
	require.NoError(t, asked(issued))
	require.Error(t, asked(issued, "X-New", "1"), "header")
	require.Error(t, asked(strings.Replace(issued, "{", `{"new":1,`, 1)), "field")
	require.Error(t, asked(strings.Replace(issued, "ISSUED", "NEW", 1)), "status")
	require.Error(t, asked(strings.Replace(issued, "ISSUED", "NOT_APPLIED", 1)), "status of events alone")
	require.Error(t, asked(strings.Replace(pending, `"seats":100,`, "", 1)), "PENDING without seats")
	require.Error(t, asked(strings.Replace(pending, "PENDING", "ISSUED", 1)), "ISSUED with seats")
	require.Error(t, asked(strings.Replace(issued, "}", `,"delayed":true}`, 1)), "ISSUED and delayed")
	require.Error(t, check("GET", me, 201, issued), "HTTP status")

	refused := func(status int, body string) error { return check("POST", apply, status, body) }
	opens := `,"opensAt":` + at + `,"serverTime":` + at
	require.NoError(t, refused(409, problem(409, "NOT_OPEN", opens)))
	require.NoError(t, refused(409, problem(409, "LINE_FULL", `,"mayReopen":false`)))
	require.Error(t, refused(409, problem(409, "NOT_OPEN", "")), "without opensAt")
	require.Error(t, refused(409, problem(409, "CLOSED", opens)), "with opensAt")
	require.Error(t, refused(409, problem(409, "CLOSED", `,"new":1`)), "field")
	require.Error(t, refused(409, problem(409, "COUPON_NOT_FOUND", "")), "code of another status")
	require.Error(t, refused(409, problem(410, "CLOSED", "")), "status of the body")
	require.Error(t, refused(409, strings.Replace(problem(409, "CLOSED", ""), "problem:CLOSED", "problem:PAUSED", 1)),
		"type")

	shown := func(body string) error {
		return check("GET", one, 200, body, "Cache-Control", "public, max-age=1", "ETag", `"e"`)
	}
	require.NoError(t, shown(terms))
	require.Error(t, shown(strings.Replace(terms, `"minimumWon"`,
		`"discountPercent":10,"discountMaxWon":1,"minimumWon"`, 1)), "two discounts")
	require.Error(t, shown(strings.Replace(terms, `"discountWon":5000,`, "", 1)), "no discount")

	told := func(events string) error {
		return check("GET", stream, 200, events, "Content-Type", "text/event-stream", "X-Accel-Buffering", "no")
	}
	require.NoError(t, told("retry: 1\n\nid: 7-ISSUED\ndata: "+issued+"\n\n"))
	require.Error(t, told("data: {}\n\n"))
}

// Generators of clients understand types, references and enumerations.
func TestContracts_SuitGenerators(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{"openapi.yaml": docs.OpenAPI, "openapi-wallet.yaml": docs.OpenAPIWallet,
		"openapi-admin.yaml": docs.OpenAPIAdmin} {
		var document any
		require.NoError(t, yaml.Unmarshal(text, &document))
		walk(document, func(node map[string]any) {
			for _, keyword := range []string{"oneOf", "anyOf", "allOf", "not", "if", "unevaluatedProperties", "*/*"} {
				require.NotContains(t, node, keyword, name)
			}
			for _, keyword := range []string{"const", "enum"} {
				if node[keyword] != nil {
					require.Contains(t, node, "type", "%s: %v", name, node)
				}
			}
		})
	}
}

func walk(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for _, member := range value {
			walk(member, visit)
		}
	case []any:
		for _, item := range value {
			walk(item, visit)
		}
	}
}
