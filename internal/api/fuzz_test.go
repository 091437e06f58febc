package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

// FuzzRequest sends requests that net/http accepts. Each response must be documented, and consist of a problem of the
// table, or of the two ids and the answer of Redis: the document has all headers and their values, so nothing else of
// the request can be in it.
func FuzzRequest(f *testing.F) {
	handler := newProvokedHandler(nil, plenty)
	problems := api.ProblemBodies()
	f.Fuzz(func(t *testing.T, raw string) {
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		response := recorder.Result()
		body := bytes.Replace(recorder.Body.Bytes(),
			[]byte(`,"instance":"urn:jajeong:request:`+response.Header.Get("X-Request-ID")+`"`), nil, 1)
		if request.Method == http.MethodHead {
			response.Body = io.NopCloser(new(bytes.Buffer)) // net/http sends none of it
		}
		require.NoError(t, openapi.Check(request, response))
		switch {
		case problems[string(body)] || response.Header.Get("Content-Type") == "application/yaml":
		case strings.Contains(string(body), `"code":"NOT_OPEN"`): // with two times, which the document bounds
		case strings.Contains(string(body), `"code":"LINE_FULL"`): // with mayReopen
		case response.StatusCode < 400 && !strings.Contains(request.URL.Path, "/applications"): // a coupon or the time
		default:
			var answer struct{ CouponID, UserID json.Number }
			require.NoError(t, json.Unmarshal(body, &answer))
			couponID, _ := url.PathUnescape(strings.Split(request.URL.EscapedPath(), "/")[3])
			require.Equal(t, couponID, answer.CouponID.String(), "%q", raw)
			require.Equal(t, request.Header.Get("X-User-ID"), answer.UserID.String(), "%q", raw)
		}
		// The fakes answer these users with a status from 500 on.
		if user := request.Header.Get("X-User-ID"); response.StatusCode >= 500 &&
			!strings.Contains(" 6 7 10 11 12 13 ", " "+user+" ") {
			t.Errorf("%q was answered with %d", raw, response.StatusCode)
		}
	})
}
