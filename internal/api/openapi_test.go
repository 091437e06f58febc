package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestOpenAPI_NeedsNoUser(t *testing.T) {
	t.Parallel()
	handler := newProvokedHandler(nil, plenty)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		got := request(handler, method, "/openapi.yaml")
		require.Equal(t, http.StatusOK, got.Code)
		require.Equal(t, "application/yaml", got.Header().Get("Content-Type"))
		require.Equal(t, "public, max-age=300", got.Header().Get("Cache-Control"))
		require.Equal(t, string(docs.OpenAPI), got.Body.String())
	}
	require.Equal(t, "GET, HEAD", request(handler, http.MethodPost, "/openapi.yaml").Header().Get("Allow"))
}

// opens is the opening of every coupon; the clock of Redis is one second earlier.
var opens = time.Date(2026, 11, 20, 14, 0, 0, 0, seoul)

// answers are the codes of Redis by user; other users are ACCEPTED.
type answers map[coupon.UserID]candidates.Code

func (a answers) Apply(_ context.Context, _ coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
	code, ok := a[user]
	switch {
	case code == "panic":
		panic("boom")
	case code == "error":
		return candidates.Receipt{}, errors.New("redis is away")
	case !ok:
		code = candidates.Accepted
	}
	return candidates.Receipt{Code: code, Arrival: coupon.ArrivalAt(opens) + 1, Position: 1, OpensAt: opens,
		Now: opens.Add(-time.Second)}, nil
}

// provoked is what Redis has of each user; user 5 is in MySQL alone.
type provoked map[coupon.UserID]candidates.Found

func (p provoked) Watch(_ context.Context, _ coupon.CouponID, _ coupon.Arrival,
	users ...coupon.UserID) (candidates.Watch, error) {
	switch users[0] {
	case 6:
		panic("boom")
	case 7:
		return candidates.Watch{}, errors.New("redis is away")
	default:
		return candidates.Watch{Users: []candidates.Found{p[users[0]]}, Sold: users[0] == 5, Line: restoredLine}, nil
	}
}

var (
	everyAnswer = answers{
		2: candidates.Duplicate, 3: candidates.NotOpen, 4: candidates.Closed, 5: candidates.Paused,
		6: candidates.UnderReview,
		7: candidates.AlreadyIssued, 8: candidates.Rejected, 9: candidates.SoldOut, 10: candidates.NoWindow,
		11: candidates.ClockBehind,
		12: "panic", 13: "error", 14: candidates.LineFull,
	}
	everyStanding = provoked{1: queued(1, 1), 2: reviewed(1), 3: {MarkedIssued: true}, 4: {MarkedRejected: true}}
	inMySQL       = recorded{5: {{Outcome: coupon.OutcomeNotSelected, Arrival: 1}}}
)

// everyStatus has a coupon of each status at opens.
var everyStatus = shelf{
	1: {ID: 1, OpensAt: opens, ClosesAt: opens.Add(time.Hour)},
	2: {ID: 2, OpensAt: opens.Add(time.Hour), ClosesAt: opens.Add(2 * time.Hour)},
	3: {ID: 3, OpensAt: opens, ClosesAt: opens.Add(time.Hour), Status: coupon.Paused},
	4: {ID: 4, OpensAt: opens, ClosesAt: opens.Add(time.Hour), TotalQuantity: 1, IssuedCount: 1},
	5: {ID: 5, OpensAt: opens.Add(-time.Hour), ClosesAt: opens},
}

// panicking is a catalog with a defect.
type panicking struct{ coupons }

func (panicking) Loaded() bool { panic("boom") }

// told answers streams: user 1 has heard the outcome, user 2 meets a defect, others wait.
type told struct{}

func (told) Serve(w http.ResponseWriter, _ *http.Request, of coupon.Coupon, user coupon.UserID) {
	switch user {
	case 1:
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	case 2:
		panic("boom")
	default:
		httpapi.SetStreamHeaders(w.Header())
		fmt.Fprintf(w,
			"retry: 3000\n\nid: %[1]d-UNKNOWN\ndata: "+
				"{\"status\":\"UNKNOWN\",\"couponId\":%[2]d,\"userId\":%[1]d,\"delayed\":true}\n\n", user, of.ID)
	}
}

func (told) Later(w http.ResponseWriter) { httpapi.SetStreamHeaders(w.Header()) }

// newProvokedHandler answers each user differently.
func newProvokedHandler(known api.Coupons, limits api.Limits) http.Handler {
	return newHandler(api.Options{Applier: everyAnswer, Queue: everyStanding, Records: inMySQL, Coupons: known,
		Limits: limits})
}

func newLiveHandler(known api.Coupons) http.Handler {
	if known == nil {
		known = coupons{}
	}
	return api.NewLive(api.Options{Identity: identity.FromHeader(zap.NewNop(), identity.Anywhere()...), Coupons: known,
		Logger: zap.NewNop(), Now: time.Now}, told{})
}

// Each response of each path is provoked; together they are exactly the documented ones.
func TestOpenAPI_EveryResponseIsDocumentedAndHappens(t *testing.T) {
	t.Parallel()
	const coupons, one, clock = "/v1/coupons", "/v1/coupons/{id}", "/v1/coupons/{id}/time"
	const apply, me, openAPI = "/v1/coupons/{id}/applications", "/v1/coupons/{id}/applications/me", "/openapi.yaml"
	const stream, script = "/v1/live/coupons/{id}/me", "/v1/jajeong.js"
	p := openapi.Apply.Provoker(t)
	provoke := func(handler http.Handler, method, template, couponID, user string, body io.Reader) {
		p.Provoke(handler, method, template, couponID, body, "X-User-ID", user)
	}
	handler := newProvokedHandler(nil, plenty)
	unknowing := newProvokedHandler(shelf{}, plenty)
	restoring := newHandler(api.Options{Records: recorded{101: nil}, Coupons: shelf{isNew: {ID: isNew}}})
	provoke(restoring, "GET", me, isNew.String(), "101", nil)
	strict := newProvokedHandler(nil, api.Limits{InFlight: 1, UserRate: 1})
	for _, address := range []struct{ method, template string }{{"POST", apply}, {"GET", me}} {
		for user := 1; user <= 14; user++ {
			provoke(handler, address.method, address.template, "42", fmt.Sprint(user), nil)
		}
		provoke(handler, address.method, address.template, "42", "", nil)
		provoke(handler, address.method, address.template, "042", "1", nil)
		provoke(handler, address.method, address.template, "42", "01", nil)
		provoke(unknowing, address.method, address.template, "42", "1", nil)
		for range 3 {
			provoke(strict, address.method, address.template, "42", "1", nil)
		}
	}
	p.Provoke(handler, "POST", apply, "42", nil, "Origin", "https://evil.example.com")
	for method, template := range map[string]string{"POST": apply, "GET": me} {
		provoke(handler, method, template, "42", "1", strings.NewReader("x"))
	}
	for _, template := range []string{coupons, one, clock, openAPI, script} {
		provoke(handler, "GET", template, "42", "1", strings.NewReader("x"))
	}
	provoke(handler, "GET", openAPI, "", "", nil)
	get := func(handler http.Handler, template, id, tag string) string {
		if template == coupons {
			template += "?ids=" + id
		}
		return p.Provoke(handler, http.MethodGet, template, id, nil, "If-None-Match", tag).Header.Get("ETag")
	}
	get(handler, script, "", get(handler, script, "", ""))
	catalogue := newHandler(api.Options{Coupons: everyStatus, Now: func() time.Time { return opens }})
	for _, template := range []string{coupons, one, clock} {
		for id := range everyStatus {
			if tag := get(catalogue, template, id.String(), ""); template != clock {
				get(catalogue, template, id.String(), tag)
			}
		}
		get(catalogue, template, "042", "")
		get(catalogue, template, "42", "")
		get(newHandler(api.Options{Coupons: panicking{}}), template, "42", "")
		get(newHandler(api.Options{Coupons: catalog.New(catalog.Options{})}), template, "42", "")
	}

	live := newLiveHandler(nil)
	for user := range 4 {
		provoke(live, "GET", stream, "42", []string{"", "1", "2", "3"}[user], nil)
	}
	provoke(live, "GET", stream, "42", "1", strings.NewReader("x"))
	provoke(live, "GET", stream, "42", "01", nil)
	provoke(live, "GET", stream, "042", "1", nil)
	provoke(newLiveHandler(shelf{}), "GET", stream, "42", "1", nil)

	p.RequireAll()

	// Requests that no operation takes.
	provoke(live, "POST", stream, "42", "1", nil)
	for _, c := range []struct{ method, template, coupon string }{
		{"DELETE", apply, "42"}, {"PUT", me, "42"}, {"POST", openAPI, ""}, {"GET", "/", ""}, {"GET", apply, "."},
		{"CONNECT", me, "1"},
	} {
		provoke(handler, c.method, c.template, c.coupon, "1", nil)
	}
}

// A word is sent in every place of a request, and no response may have it.
func TestResponses_RepeatNothingOfTheRequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newProvokedHandler(nil, plenty))
	t.Cleanup(server.Close)
	const word = "h0stile"
	for _, request := range []string{
		"POST /v1/coupons/" + word + "/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: 1\r\n\r\n",
		"POST /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: " + word + "\r\n\r\n",
		"POST /v1/coupons/1/applications?" + word + "=" + word + " HTTP/1.1\r\nHost: x\r\nX-User-ID: 1\r\n\r\n",
		"POST /v1/coupons/1/applications HTTP/1.1\r\nHost: " + word + "\r\nX-User-ID: 1\r\nAccept-Language: en-" +
			word + "\r\nOrigin: https://" + word + ".example\r\nContent-Length: 7\r\n\r\n" + word,
		"POST /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: 1\r\nContent-Length: 2000\r\n\r\n" +
			strings.Repeat(word+"!!!", 200),
		"GET /v1/coupons/1/applications/me HTTP/1.1\r\nHost: x\r\nX-User-ID: 1\r\nCookie: " + word + "\r\n\r\n",
		"GET /v1/coupons?ids=" + word + "&" + word + "=1 HTTP/1.1\r\nHost: x\r\nIf-None-Match: " + word + "\r\n\r\n",
		"GET /v1/coupons/1?" + word + " HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"" + word + "\"\r\n\r\n",
		"GET /v1/coupons/" + word + "/time HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /" + word + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /x/../" + word + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /x%2F..%2F" + word + "\" HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET //" + word + ".example/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://" + word + ".example/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT " + word + ":443 HTTP/1.1\r\nHost: x\r\n\r\n",
		word + " /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /%" + word + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / " + word + "/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n" + word + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nExpect: " + word + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + word + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		until(t, conn)
		_, err = io.WriteString(conn, strings.Replace(request, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
		require.NoError(t, err)
		raw, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.True(t, strings.HasPrefix(string(raw), "HTTP/1."), "%q: %q", request, raw)
		require.NotContains(t, strings.ToLower(string(raw)), word, request)
		require.NotContains(t, string(raw), "\nServer:", "the software of the server is not named")
	}
}

// Who asks is not told to apply again: a mock and readers take the examples of each operation for its answers.
func TestOpenAPI_ExamplesOfQuestionsSpeakOfAsking(t *testing.T) {
	t.Parallel()
	document, err := openapi.Document()
	require.NoError(t, err)
	for template, item := range document.Paths.Map() {
		if item.Get == nil {
			continue
		}
		for status, response := range item.Get.Responses.Map() {
			for _, content := range response.Value.Content {
				for name, example := range content.Examples {
					fields := example.Value.Value.(map[string]any)
					detail, _ := fields["detail"].(string)
					require.NotContains(t, detail, "다시 신청", "%s %s %s", template, status, name)
					require.NotContains(t, detail, "apply again", "%s %s %s", template, status, name)
				}
			}
		}
	}
}

// The examples of the document have the texts of the problems.
func TestOpenAPI_ExamplesAreTheTexts(t *testing.T) {
	t.Parallel()
	document, err := openapi.Document()
	require.NoError(t, err)
	type sentences struct{ title, detail any }
	known := map[sentences]bool{}
	for body := range api.ProblemBodies() {
		var p struct{ Title, Detail string }
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		known[sentences{p.Title, p.Detail}] = true
	}
	languages := map[any]map[bool]bool{} // code → whether Korean
	for name, example := range document.Components.Examples {
		value := example.Value.Value.(map[string]any)
		require.True(t, known[sentences{value["title"], value["detail"]}], name)
		require.Equal(t, "urn:jajeong:problem:"+value["code"].(string), value["type"], name)
		if languages[value["code"]] == nil {
			languages[value["code"]] = map[bool]bool{}
		}
		languages[value["code"]][hasHangul(value["detail"].(string))] = true
	}
	for code, both := range languages {
		require.Len(t, both, 2, "%s in Korean and in English", code)
	}
}
