package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/browser"
)

// fake stands in for apply-api where a test needs answers that real servers give only by chance.
type fake struct {
	me, apply, live http.HandlerFunc // live: nil tells of a coupon that was issued
	status          func() string    // of the coupon; nil: OPEN
	ahead           time.Duration    // of the server's clock
	opens           time.Time        // on that clock; zero: the coupon is open
}

// serve returns the address of a gateway before the fake.
func (f fake) serve(t *testing.T) string {
	t.Helper()
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/coupons/1/time", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"serverTime":%q}`, at(time.Now().Add(f.ahead)))
	})
	mux.HandleFunc("GET /v1/coupons/1", func(w http.ResponseWriter, _ *http.Request) {
		status, opens := "UPCOMING", f.opens // it is for ever
		if opens.IsZero() {
			status, opens = "OPEN", time.Now().Add(f.ahead-time.Hour)
		}
		if f.status != nil {
			status = f.status()
		}
		fmt.Fprintf(w, `{"name":"A coupon","discountWon":5000,"status":%q,"opensAt":%q,"closesAt":%q,"seats":1}`,
			status, at(opens), at(opens.Add(24*time.Hour)))
	})
	mux.HandleFunc("GET /v1/coupons/1/applications/me", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-User-ID") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.me(w, r)
	})
	mux.HandleFunc("POST /v1/coupons/1/applications", f.apply)
	if f.live == nil {
		f.live = issued
	}
	mux.HandleFunc("GET /v1/live/coupons/1/me", f.live)
	mux.Handle("GET /v1/jajeong.js", api.New(api.Options{Identity: identity.FromHeader(zap.NewNop()),
		Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(), Now: time.Now}))
	servers := httptest.NewServer(mux)
	t.Cleanup(servers.Close)
	gateway := httptest.NewServer(newGateway(servers.URL, servers.URL))
	t.Cleanup(gateway.Close)
	return gateway.URL
}

func notApplied(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"code":"NOT_APPLIED"}`)
}

func issued(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "id: 7-ISSUED\ndata: {\"status\":\"ISSUED\",\"couponId\":1,\"userId\":7}\n\n")
}

// The button opens when the server's clock says so. No answer says OPEN, and the device's clock is an hour behind.
func TestPage_OpensByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	opens := time.Now().Add(time.Hour + 5*time.Second)
	page := open(t, fake{me: notApplied, apply: notApplied, ahead: time.Hour, opens: opens}.serve(t), 1, 7)
	require.GreaterOrEqual(t, awaitOpening(page), float64(opens.UnixMicro())/1000)
	ahead := time.Duration(browser.Read[float64](page, element+".ahead") * float64(time.Millisecond))
	require.InDelta(t, time.Hour, ahead, float64(clockPrecision(page)))
}

// An early press waits for the opening that the answer names, and applies again.
func TestPage_AppliesAgainWhenTheWindowOpens(t *testing.T) {
	t.Parallel()
	var pressed atomic.Int32
	page := open(t, fake{me: notApplied, apply: func(w http.ResponseWriter, _ *http.Request) {
		if pressed.Add(1) == 1 {
			now := time.Now()
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"code":"NOT_OPEN","status":409,"serverTime":%q,"opensAt":%q}`,
				now.Format(time.RFC3339Nano), now.Add(time.Second).Format(time.RFC3339Nano))
			return
		}
		accept(w)
	}}.serve(t), 1, 7)
	apply(page)
	awaitText(page, "쿠폰이 발급되었습니다.")
	require.EqualValues(t, 2, pressed.Load())
}

func accept(w http.ResponseWriter) {
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprint(w, `{"status":"ACCEPTED","couponId":1,"userId":7,"position":5,"seats":100,"withinSeats":true}`)
}

// The page shows each state in both languages, and axe-core finds no barrier in it. It never says "not applied" to a
// user who may have applied. The button is off without a sign-in, and during an application.
func TestPage_ShowsEveryState(t *testing.T) {
	t.Parallel()
	type answer struct {
		http         int
		body, coupon string // coupon: its status
	}
	mine := func(status string) answer { return answer{200, `{"status":"` + status + `","userId":7}`, "OPEN"} }
	lost := `{"code":"NOT_APPLIED","mayBeLost":true,"detail":"detail"}`
	states := []struct {
		answer
		state, korean, english string
		pressable              bool
	}{
		{answer{404, `{"code":"NOT_APPLIED"}`, "OPEN"}, "OPEN", "지금 신청하실 수 있습니다.", "Apply now.", true},
		{answer{404, `{"code":"NOT_APPLIED"}`, "PAUSED"}, "PAUSED", "신청이 일시 중단되었습니다.", "Applications are paused.",
			false},
		{answer{404, `{"code":"NOT_APPLIED"}`, "SOLD_OUT"}, "SOLD_OUT", "쿠폰이 모두 소진되었습니다.", "Sold out.", false},
		{answer{404, `{"code":"NOT_APPLIED"}`, "CLOSED"}, "CLOSED", "신청이 마감되었습니다.", "Applications are closed.", false},
		{answer{401, "<html>", "OPEN"}, "UNAUTHENTICATED", "로그인하시면 신청하실 수 있습니다.", "Sign in to apply.", false},
		{answer{503, `{"code":"RESTORING"}`, "OPEN"}, "UNKNOWN", "신청 상태를 확인하고 있습니다.", "One moment, please.", true},
		{answer{502, "<html>{", "OPEN"}, "UNKNOWN", "신청 상태를 확인하고 있습니다.", "One moment, please.", true},
		{answer{200, "<html>", "OPEN"}, "UNKNOWN", "신청 상태를 확인하고 있습니다.", "One moment, please.", true},
		{answer{404, lost, "OPEN"}, "NOT_APPLIED", "detail in ko", "detail in en", true},
		{answer{404, `{"code":"COUPON_NOT_FOUND","detail":"detail"}`, "OPEN"}, "COUPON_NOT_FOUND", "detail in ko",
			"detail in en", true},
		{answer{200, `{"status":"PENDING","userId":7,"position":1234,"delayed":true}`, "OPEN"}, "PENDING",
			"대기 순번 1,234번 신청이 접수되었습니다. 결과는 이 화면에 표시됩니다. 확인이 지연되고 있습니다.",
			"Number 1,234 in line You have applied. The outcome will appear here. This takes longer than usual.",
			false},
		{mine("UNDER_REVIEW"), "UNDER_REVIEW", "신청 내용을 확인하고 있습니다.", "Checking your application.", false},
		{mine("HELD"), "HELD", "신청 상태를 확인하고 있습니다.", "One moment, please.", false}, // of a later version
		{mine("ISSUED"), "ISSUED", "쿠폰이 발급되었습니다.", "You got the coupon.", false},
		{mine("NOT_SELECTED"), "NOT_SELECTED", "이번에는 쿠폰을 받지 못하셨습니다.", "You did not get the coupon.", false},
		{mine("REJECTED"), "REJECTED", "쿠폰을 발급해 드릴 수 없습니다. 고객센터에 문의해 주세요.",
			"You cannot get the coupon. Please contact us.", false},
	}
	var now atomic.Pointer[answer]
	now.Store(&states[0].answer)
	page := open(t, fake{status: func() string { return now.Load().coupon },
		live: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		me: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(now.Load().http)
			fmt.Fprint(w, strings.Replace(now.Load().body, `"detail"}`,
				`"detail in `+r.Header.Get("Accept-Language")+`"}`, 1))
		}, apply: notApplied}.serve(t), 1, 7)
	axe := testenv.Content(t, "../../internal/console/testdata/axe.min.js")
	browser.Read[bool](page, string(axe)+"; true")
	for language, sentence := range map[string]func(int) string{"ko": func(i int) string { return states[i].korean },
		"en-GB": func(i int) string { return states[i].english }} {
		browser.Read[int](page, "document.documentElement.lang = '"+language+"', 0")
		for i, one := range states {
			now.Store(&one.answer)
			browser.Read[int](page, element+".refresh(), 0")
			testenv.Eventually(t, "the page shows "+one.state+": "+sentence(i), func() bool {
				return browser.Read[string](page, element+".getAttribute('state')") == one.state &&
					strings.HasSuffix(shows(page), sentence(i)) &&
					browser.Read[bool](page, "!!"+element+".ready") == one.pressable
			})
			require.Equal(t, one.pressable, browser.Read[string](page, button+".ariaDisabled") == "false")
			require.Empty(t, browser.Read[[]string](page, "axe.run().then(found => found.violations.map(v => v.help))"),
				one.state)
		}
	}
	browser.Read[int](page, element+".setAttribute('data-REJECTED', 'words of the shop'), "+element+".draw(), 0")
	require.Contains(t, shows(page), "words of the shop")
}

// shows returns what a person reads in the element.
func shows(page browser.Page) string {
	return strings.Join(strings.Fields(browser.Read[string](page, element+".innerText")), " ")
}

// A press is repeated as answers ask, and what the servers refuse is shown in the page's language, whatever that of the
// browser is.
func TestPage_RepeatsAsAnswersAsk(t *testing.T) {
	t.Parallel()
	type answer struct {
		status     int
		retryAfter string
		code       string
		said       any // as "status"
	}
	// A gateway sends the third one, and means another status.
	answers := []answer{{503, "", "UNAVAILABLE", 503}, {429, "60", "TOO_MANY_REQUESTS", 429},
		{503, "Wed, 21 Oct 2015 07:28:00 GMT", "", `"UNAVAILABLE"`},
		{409, "1", "LINE_FULL", 409}, {409, "3600", "LINE_FULL", 409}, {409, "", "SOLD_OUT", 409}}
	var pressed atomic.Int32
	page := openHasty(t, fake{me: notApplied, apply: func(w http.ResponseWriter, r *http.Request) {
		n := pressed.Add(1)
		one := answers[n-1]
		if one.retryAfter != "" {
			w.Header().Set("Retry-After", one.retryAfter)
		}
		w.WriteHeader(one.status)
		fmt.Fprintf(w, `{"code":%q,"status":%v,"detail":"answer %d in %s"}`, one.code, one.said, n,
			r.Header.Get("Accept-Language"))
	}}.serve(t), 1, 7)
	apply(page)
	awaitSaid(page, "answer 5 in ko")
	require.Greater(t, slices.Max(browser.Read[[]float64](page, "pauses")), 60_000.0, "no other pause is as long")
	apply(page)
	awaitSaid(page, "쿠폰이 모두 소진되었습니다.")
	require.EqualValues(t, len(answers), pressed.Load())
}

// A second press waits for the answer to the first.
func TestPage_SendsOneApplicationAtATime(t *testing.T) {
	t.Parallel()
	received, answer := make(chan struct{}, 10), make(chan struct{})
	var accepted atomic.Bool
	page := open(t, fake{me: func(w http.ResponseWriter, r *http.Request) {
		if accepted.Load() { // the answer may come before the page is shown again, which asks then
			fmt.Fprint(w, `{"status":"PENDING","userId":7,"position":5}`)
			return
		}
		notApplied(w, r)
	}, apply: func(w http.ResponseWriter, r *http.Request) {
		received <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		accepted.Store(true)
		accept(w)
	}}.serve(t), 1, 7)
	apply(page)
	testenv.Receive(t, "the application comes", received)
	browser.Read[int](page, button+".click(), "+button+".click(), 0")
	hide(page, true)                                                     // does not interrupt an application
	browser.Read[int](page, "fetch('/v1/coupons/1/time').then(() => 0)") // a second application would have come before
	require.Empty(t, received)
	close(answer)
	hide(page, false)
	awaitText(page, "쿠폰이 발급되었습니다.")
}

// A page sends what its callback says with every request.
func TestPage_SendsHeadersOfTheShop(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	said := map[string]bool{}
	note := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			said[r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")] = true
			mu.Unlock()
			then(w, r)
		}
	}
	page := open(t, fake{me: note(notApplied), apply: note(func(w http.ResponseWriter, _ *http.Request) { accept(w) }),
		live: note(issued)}.serve(t), 1, 7)
	browser.Read[int](page,
		element+".headers = async () => ({ Authorization: 'Bearer token' }), "+element+".refresh(), 0")
	apply(page)
	awaitText(page, "쿠폰이 발급되었습니다.")
	mu.Lock()
	defer mu.Unlock()
	for _, call := range []string{"GET /v1/coupons/1/applications/me", "POST /v1/coupons/1/applications",
		"GET /v1/live/coupons/1/me"} {
		require.True(t, said[call+" Bearer token"], "%s: %v", call, said)
	}
}
