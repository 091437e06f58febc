package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/browser"
)

// haste makes every pause of a page short. pauses are those that it wanted, in milliseconds. said is every text that it
// showed: with such pauses, a text is gone before a test looks.
const haste = `{
	const later = setTimeout
	window.pauses = []
	window.said = []
	window.setTimeout = (done, ms) => { pauses.push(ms); return later(done, Math.min(ms, 20)) }
	addEventListener('jajeong', e => said.push(e.target.innerText), true)
}`

// openHasty is open for a page that has no patience.
func openHasty(t *testing.T, gateway string, couponID coupon.CouponID, user coupon.UserID) browser.Page {
	t.Helper()
	p := browser.Open(t)
	p.Run(command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: haste}))
	signIn(p, gateway, couponID, user)
	return p
}

// awaitSaid waits until a page without patience has shown a text.
func awaitSaid(p browser.Page, text string) {
	p.T.Helper()
	testenv.Eventually(p.T, "the page said: "+text,
		func() bool { return strings.Contains(strings.Join(browser.Read[[]string](p, "said"), "\n"), text) })
}

// command returns the action that sends a command to the browser and ignores its result.
func command[P, R any](what cdp.Command[P, R], with P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, what, with)
		return err
	})
}

// hide hides a page, or shows it again.
func hide(p browser.Page, hidden bool) {
	p.T.Helper()
	browser.Read[int](p,
		fmt.Sprintf(
			"Object.defineProperty(document, 'hidden', { configurable: true, value: %v }), "+
				"document.dispatchEvent(new Event('visibilitychange', { bubbles: true })), 0", hidden))
}

// offline takes the network away from a page, or gives it back.
func offline(p browser.Page, off bool) {
	p.T.Helper()
	conditions := network.Conditions{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}
	p.Run(command(network.Enable, network.EnableParams{}),
		command(network.EmulateNetworkConditionsByRule,
			network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{&conditions}}),
		command(network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1,
			UploadThroughput: -1}))
}

// troubled is the gateway of the example, with troubles.
type troubled struct {
	*httptest.Server
	next http.Handler

	mu     sync.Mutex
	asked  int                // requests but those for the script
	broken map[string]int     // by method, so many of the next ones are answered with 502
	silent bool               // the next stream says nothing
	ended  []<-chan struct{}  // closed at the end of each stream
	cut    context.CancelFunc // ends the last one
}

func newTroubled(t *testing.T, pod *testenv.Program) *troubled {
	g := &troubled{next: newGateway("http://"+pod.Apply, "http://"+pod.Live), broken: map[string]int{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasSuffix(r.URL.Path, ".js") {
		g.next.ServeHTTP(w, r)
		return
	}
	r, broken, silent := g.note(r)
	switch {
	case broken:
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html><style>p {}</style>\n502 Bad Gateway")
	case silent:
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		g.next.ServeHTTP(w, r)
	}
}

func (g *troubled) note(r *http.Request) (_ *http.Request, broken, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	if g.broken[r.Method] > 0 {
		g.broken[r.Method]--
		return r, true, false
	}
	if !strings.HasPrefix(r.URL.Path, "/v1/live/") {
		return r, false, false
	}
	ctx, cut := context.WithCancel(r.Context())
	g.ended, g.cut = append(g.ended, ctx.Done()), cut
	silent, g.silent = g.silent, false
	return r.WithContext(ctx), false, silent
}

// set changes the troubles.
func (g *troubled) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// streams returns how many streams there were.
func (g *troubled) streams() (n int) {
	g.set(func() { n = len(g.ended) })
	return n
}

// awaitStream waits until there were more than some streams.
func (g *troubled) awaitStream(t *testing.T, more int) {
	t.Helper()
	testenv.Eventually(t, "the page listens again", func() bool { return g.streams() > more })
}

// requireRest demands that a page asks nothing, even if the network comes back and all its pauses end.
func (g *troubled) requireRest(p browser.Page) {
	p.T.Helper()
	var before, after int
	g.set(func() { before = g.asked })
	browser.Read[int](p,
		"dispatchEvent(new Event('online')), new Promise(done => setTimeout(done, 1e6)).then(() => "+
			"fetch('/v1/coupons/1/time')).then(() => 0)")
	g.set(func() { after = g.asked })
	require.Equal(p.T, before+1, after)
}

// The script works through gateways, networks and devices as they are. The servers are real.
func TestScript_SurvivesWhatComesBetween(t *testing.T) {
	t.Parallel()
	guide := blocksOf(t, "integrate.md")
	require.Equal(t, guide, blocksOf(t, "integrate.ko.md"))
	shop := newShop(t, guide)
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4, 5) // a user has two streams on a server
	pod := d.Start(append(d.Environment(), "CORS_ORIGINS="+shop.URL), "./cmd/apply-api", d.Flags(d.API)...)

	t.Run("BadGateways", func(t *testing.T) {
		t.Parallel()
		id, g := d.AddCoupon(1), newTroubled(t, pod)
		p := openHasty(t, g.URL, id, 1)
		p.Run(chromedp.WaitVisible(theButton + "[aria-disabled=false]"))
		g.set(func() { g.broken[http.MethodPost] = 4 }) // looks of the page before the press use up none
		press(p)
		awaitText(p, "대기 순번 1번 신청이 접수되었습니다.")
		pauses := browser.Read[[]float64](p, "pauses")
		for n := range 4 { // they grow, and differ by chance
			shortest := float64(int(1000) << n)
			require.True(t, slices.ContainsFunc(pauses,
				func(pause float64) bool {
					return shortest <= pause && pause < 2*shortest &&
						pause != math.Trunc(pause)
				}), "%v", pauses)
		}
		g.awaitStream(t, 0)
		g.set(func() { g.broken[http.MethodGet] = 12; g.cut() })
		g.awaitStream(t, 1)
		require.LessOrEqual(t, slices.Max(browser.Read[[]float64](p, "pauses")), 60_000.0)
		d.SettleNow(id)
		awaitText(p, "쿠폰이 발급되었습니다.")
		hide(p, true)
		hide(p, false)
		g.requireRest(p)
	})
	t.Run("LostConnections", func(t *testing.T) {
		t.Parallel()
		id, g := d.AddCoupon(1), newTroubled(t, pod)
		d.Apply(id, 5)
		p := openHasty(t, g.URL, id, 2)
		apply(p)
		awaitText(p, "대기 순번 2번")
		g.awaitStream(t, 0)
		g.set(func() { g.cut() })
		g.awaitStream(t, 1)
		browser.Read[int](p, "window.setInterval = (often => (done, ms) => often(done, ms / 100))(setInterval), 0")
		g.set(func() { g.silent = true; g.cut() })
		g.awaitStream(t, 3) // the silent one was given up
		d.SettleNow(id)
		awaitText(p, "이번에는 쿠폰을 받지 못하셨습니다.")
		hide(p, true)
		hide(p, false)
		g.requireRest(p)
	})
	t.Run("SleepAndDeadZones", func(t *testing.T) {
		t.Parallel()
		id, g := d.AddCoupon(1), newTroubled(t, pod)
		p := openHasty(t, g.URL, id, 3)
		apply(p)
		g.awaitStream(t, 0)
		hide(p, true)
		testenv.Receive(t, "the stream of the hidden page ends", g.ended[0])
		g.requireRest(p)
		browser.Read[int](p, "window.setTimeout = () => 0, 0") // from now on only events wake the page
		hide(p, false)
		g.awaitStream(t, 1)
		offline(p, true) // the stream ends without an event
		offline(p, false)
		g.awaitStream(t, 2)
		d.SettleNow(id)
		awaitText(p, "쿠폰이 발급되었습니다.")
	})
	t.Run("AnotherOrigin", func(t *testing.T) {
		t.Parallel()
		id, g := d.AddCoupon(1), newTroubled(t, pod)
		p := open(t, g.URL, id, 4)
		p.Run(command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: "violations = []; addEventListener('securitypolicyviolation', e => " +
				"violations.push(e.violatedDirective))"}),
			chromedp.Navigate(fmt.Sprintf("%s/?api=%s&coupon=%d", shop.URL, g.URL, id)))
		p.Run(chromedp.WaitVisible(theButton+"[aria-disabled=false]"), chromedp.Focus(theButton),
			chromedp.KeyEvent("\r"))
		testenv.Eventually(t, "the page shows the place",
			func() bool { return strings.Contains(shows(p), "Number 1 in line") })
		d.SettleNow(id)
		testenv.Eventually(t, "the page shows the outcome",
			func() bool { return strings.Contains(shows(p), "You got the coupon.") })
		require.Empty(t, browser.Read[[]string](p, "violations"))
	})
}

// blocksOf returns the code that a guide begins with, in HTML and in JavaScript.
func blocksOf(t *testing.T, guide string) (blocks [2]string) {
	t.Helper()
	text := testenv.Content(t, "../../docs/"+guide)
	for i, language := range []string{"html", "js"} {
		_, after, found := strings.Cut(string(text), "```"+language+"\n")
		require.True(t, found, "%s has no %s", guide, language)
		blocks[i], _, _ = strings.Cut(after, "```")
	}
	return blocks
}

// newShop serves the page of the guide, in English, with the strictest policy that it works with.
func newShop(t *testing.T, guide [2]string) *httptest.Server {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/shop.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "const token = async () => 'token'\n"+guide[1])
			return
		}
		api := r.FormValue("api")
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self' "+api+"; connect-src "+api+"; require-trusted-types-for 'script'")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		fmt.Fprint(w, "<!doctype html><html lang=en><meta charset=utf-8>"+strings.NewReplacer("https://coupons.example",
			api, `"42"`, `"`+r.FormValue("coupon")+`"`).Replace(guide[0]))
	}))
	t.Cleanup(shop.Close)
	return shop
}
