package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/browser"
)

// fake stands in for apply-api where a test needs answers that real servers give only by chance.
type fake struct {
	me, apply http.HandlerFunc
	ahead     time.Duration // of the server's clock
	opens     time.Time     // on that clock; zero: the coupon is open
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
		status, opens := "SCHEDULED", f.opens // it is for ever
		if opens.IsZero() {
			status, opens = "OPEN", time.Now().Add(f.ahead-time.Hour)
		}
		fmt.Fprintf(w, `{"name":"A coupon","status":%q,"opensAt":%q,"closesAt":%q,"seats":1}`, status, at(opens), at(opens.Add(24*time.Hour)))
	})
	mux.HandleFunc("GET /v1/coupons/1/applications/me", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-User-ID") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.me(w, r)
	})
	mux.HandleFunc("POST /v1/coupons/1/applications", f.apply)
	mux.HandleFunc("GET /v1/live/coupons/1/me", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 7-ISSUED\ndata: {\"status\":\"ISSUED\",\"couponId\":1,\"userId\":7}\n\n")
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	gateway := httptest.NewServer(newGateway(api.URL, api.URL))
	t.Cleanup(gateway.Close)
	return gateway.URL
}

func notApplied(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// The button opens when the server's clock says so. No answer says OPEN, and the device's clock is an hour behind.
func TestPage_OpensByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	opens := time.Now().Add(time.Hour + 5*time.Second)
	page := open(t, fake{me: notApplied, apply: notApplied, ahead: time.Hour, opens: opens}.serve(t), 1, 7)
	page.Run(chromedp.WaitEnabled("#apply"))
	require.GreaterOrEqual(t, browser.Read[float64](page, "+document.getElementById('apply').dataset.openedAt"), float64(opens.UnixMicro())/1000)
	ahead := time.Duration(browser.Read[float64](page, "serverNow() - performance.timeOrigin - performance.now()") * float64(time.Millisecond))
	require.InDelta(t, time.Hour, ahead, float64(clockPrecision(page)))
}

// Who may have applied is never told the contrary.
func TestPage_ShowsThatApplicationsAreRestored(t *testing.T) {
	t.Parallel()
	var restored atomic.Bool
	page := open(t, fake{me: func(w http.ResponseWriter, _ *http.Request) {
		if restored.Load() {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"NOT_APPLIED","mayBeLost":true}`)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"code":"RESTORING"}`)
	}, apply: notApplied}.serve(t), 1, 7)
	awaitText(page, "신청 상태를 확인하고 있습니다")
	restored.Store(true)
	awaitText(page, "신청 내역을 찾을 수 없습니다")
	require.NotContains(t, sees(page), "신청 상태를 확인하고 있습니다")
}

// The button rests as long as an answer asks for, and never for good. What the page shows of an answer is Korean, whatever the
// language of the browser.
func TestPage_RestsAsAnswersAsk(t *testing.T) {
	t.Parallel()
	answers := []string{"", "Wed, 21 Oct 2015 07:28:00 GMT", "30"} // the second one by a gateway
	var pressed atomic.Int32
	page := open(t, fake{me: notApplied, apply: func(w http.ResponseWriter, r *http.Request) {
		n := pressed.Add(1)
		if retryAfter := answers[n-1]; retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"code":"UNAVAILABLE","detail":"answer %d in %s"}`, n, r.Header.Get("Accept-Language"))
	}}.serve(t), 1, 7)
	for n := range answers {
		page.Run(chromedp.WaitEnabled("#apply"), chromedp.Click("#apply"))
		awaitText(page, fmt.Sprintf("answer %d in ko", n+1))
	}
	testenv.Eventually(t, "the button rests for more than a second", func() bool {
		return regexp.MustCompile(`([2-9]|\d\d)초 후 다시 누르실 수 있습니다`).MatchString(sees(page))
	})
	require.True(t, browser.Read[bool](page, "document.getElementById('apply').disabled"))
}

// A second press waits for the answer to the first, also if that takes longer than a second.
func TestPage_SendsOneApplicationAtATime(t *testing.T) {
	t.Parallel()
	received, answer := make(chan struct{}, 10), make(chan struct{})
	page := open(t, fake{me: notApplied, apply: func(w http.ResponseWriter, r *http.Request) {
		received <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"status":"ACCEPTED","couponId":1,"userId":7,"position":5,"seats":100,"withinSeats":true}`)
	}}.serve(t), 1, 7)
	page.Run(chromedp.WaitEnabled("#apply"), chromedp.Click("#apply"))
	<-received
	pressed := "(async () => { for (const until = performance.now() + 2500; performance.now() < until;) " +
		"{ document.getElementById('apply').click(); await new Promise(done => setTimeout(done, 100)) } window.pressed = true })(), 0"
	browser.Read[int](page, pressed)
	testenv.Eventually(t, "the user has pressed for a while", func() bool { return browser.Read[bool](page, "window.pressed === true") })
	require.Empty(t, received)
	close(answer)
	awaitText(page, "쿠폰이 발급되었습니다")
}
