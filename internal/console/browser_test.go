package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/browser"
)

// complaints are what the browser says against a page, such as a broken Content-Security-Policy. They are recorded from
// now on.
func complaints(page browser.Page) func() []string {
	page.T.Helper()
	var mu sync.Mutex
	var all []string
	require.NoError(page.T, chromedp.Listen(page, func(event any) {
		if entry, ok := event.(*log.EventEntryAdded); ok && entry.Entry.Level == log.EntryLevelError {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, entry.Entry.Text)
		}
	}))
	page.Run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return err
	}))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func media(of emulation.SetEmulatedMediaParams) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, of)
		return err
	})
}

// devConsole is the console of the development user with a role.
func devConsole(d *jajeongtest.Deployment, role string) string {
	p := d.Start(d.Environment(), "./cmd/settle",
		append([]string{"console", "--listen=127.0.0.1:0", "--console-dev-user=kim=" + role},
			d.Flags(d.Operator)...)...)
	return "http://" + p.Console
}

// violation is what axe-core found.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// Every page can be read and used by everybody, at the width of a laptop and of a phone, light and dark: axe-core finds
// nothing serious, the page does not scroll sideways, and the browser has nothing to complain about. It can be printed,
// and used by the keyboard.
func TestPages_AreAccessible(t *testing.T) {
	t.Parallel()
	d, id, waiting := world(t)
	d.Exec("UPDATE coupon SET name = '블랙프라이데이 5천원 할인 쿠폰, 아주 긴 이름을 가진 한정 수량 행사의 첫 번째 회차' WHERE id = ?", id)
	axe, err := os.ReadFile("testdata/axe.min.js")
	require.NoError(t, err)
	site := devConsole(d, "operator")
	b := browser.Open(t)
	complained := complaints(b)
	for _, path := range []string{"/", "/coupons", fmt.Sprint("/coupons/", id), fmt.Sprintf("/coupons/%d/winners", id),
		"/runs", "/runs/1", "/report?month=2026-11", "/dlq", fmt.Sprint("/dlq/", id), "/people/1",
		fmt.Sprint("/people/3/coupons/", id), "/search?q=" + url.QueryEscape("주문-1"), "/approvals", "/policy",
		fmt.Sprintf("/do/add-seats?coupon=%d", id), fmt.Sprintf("/do/add-seats?coupon=%d&seats=2", id),
		fmt.Sprintf("/do/run?coupon=%d&date=2026-11-20", waiting), fmt.Sprintf("/do/drop?coupon=%d&cause=BAD_ROW", id),
		"/nothing"} {
		b.Run(chromedp.Navigate(site + path))
		browser.Read[bool](b, string(axe)+"; true")
		// The pages have no script: only their style depends on it.
		for width, scheme := range map[int64]string{1280: "light", 390: "dark"} {
			b.Run(chromedp.EmulateViewport(width, 900),
				media(emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
					{Name: "prefers-color-scheme", Value: scheme}}}))
			require.LessOrEqual(t, browser.Read[int64](b, "document.documentElement.scrollWidth"), width,
				"%s scrolls sideways at %d pixels", path, width)
			found := browser.Read[string](b,
				"axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))")
			if path != "/nothing" { // a browser notes its status
				require.Empty(t, complained(), path)
			}
			var violations []violation
			require.NoError(t, json.Unmarshal([]byte(found), &violations))
			for _, v := range violations {
				require.NotContains(t, []string{"serious", "critical"}, v.Impact, "%s at %d pixels, %s: %s %+v", path,
					width, scheme, v.Help, v.Nodes)
			}
		}
	}

	// On paper there are no forms and no menu.
	b.Run(chromedp.Navigate(site+fmt.Sprint("/coupons/", id)), media(emulation.SetEmulatedMediaParams{Media: "print"}))
	require.False(t, browser.Read[bool](b, "document.querySelector('header').checkVisibility()"))
	require.False(t, browser.Read[bool](b, "document.querySelector('.links').checkVisibility()"))
	require.True(t, browser.Read[bool](b, "document.querySelector('table').checkVisibility()"))

	// The keyboard alone, without JavaScript, finds a customer and gives a coupon.
	d.AddUsers(77)
	b.Run(media(emulation.SetEmulatedMediaParams{}), chromedp.Navigate(site+"/"),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: true})
			return err
		}))
	keys := func(text string) { b.Run(chromedp.KeyEvent(text)) }
	tabTo := func(selector string) {
		for range 120 {
			if focused(b, selector) {
				return
			}
			keys(kb.Tab)
		}
		require.Fail(t, "the keyboard does not reach "+selector)
	}
	tabTo("#q")
	keys("77" + kb.Enter)
	awaitTitle(b, "고객 77번")
	tabTo("main input[name=coupon]")
	keys(waiting.String() + kb.Enter)
	awaitTitle(b, fmt.Sprintf("고객 77번과 쿠폰 %d번", waiting))
	tabTo("main a[href^='/do/grant']")
	keys(kb.Enter)
	awaitTitle(b, "쿠폰 지급")
	tabTo("#reason")
	keys("CS-102" + kb.Enter)
	testenv.Eventually(t, "the coupon is given", func() bool {
		return d.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND user_id = 77", waiting) == 1
	})
	require.Equal(t, []string{"kim: CS-102"},
		jajeongtest.Column[string](d,
			"SELECT CONCAT(actor, ': ', reason) FROM audit_event WHERE action = 'COUPON_GRANTED'"))
}

// focused reports whether the element has the focus. Scripts of the page are off; those of the debugger are not.
func focused(page browser.Page, selector string) bool {
	return browser.Read[bool](page, fmt.Sprintf("document.activeElement !== null && document.activeElement.matches(%q)",
		selector))
}

func awaitTitle(page browser.Page, title string) {
	page.T.Helper()
	testenv.Eventually(page.T, "the page "+title,
		func() bool { return strings.HasPrefix(browser.Read[string](page, "document.title"), title+" ·") })
}

// openSite starts a console with a real provider.
func openSite(t *testing.T, d *jajeongtest.Deployment) (site string, provider *testenv.OIDC) {
	console := &url.URL{Scheme: "http"}
	// The provider must know an address before the console starts.
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(console)
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(front.Close)
	site = "http://localhost" + front.URL[strings.LastIndex(front.URL, ":"):]
	provider = testenv.StartOIDC(t, site+"/sign-in/callback")
	console.Host = d.Start(d.Environment(), "./cmd/settle",
		append([]string{"console", "--listen=127.0.0.1:0", "--console-url=" + site, "--oidc-issuer=" + provider.Issuer,
			"--oidc-client-id=" + provider.ClientID,
			"--oidc-client-secret-file=" + provider.SecretFile, "--console-roles=team-finance=finance,team-cs=cs"},
			d.Flags(d.Operator)...)...).Console
	return site, provider
}

// signedIn is a browser of a person.
func signedIn(t *testing.T, site, name string) browser.Page {
	b := browser.Open(t)
	b.Run(chromedp.Navigate(site+"/runs"), chromedp.WaitVisible("#username"), chromedp.SendKeys("#username", name),
		chromedp.SendKeys("#password", name+kb.Enter), chromedp.WaitVisible("h1"))
	awaitTitle(b, "실행 목록")
	require.Contains(t, browser.Read[string](b, "document.querySelector('.who').innerText"), name)
	return b
}

// Two persons sign in at a real provider with two browsers: one asks, the other approves, the first carries it out.
func TestSignIn_TwoPersonsInTwoBrowsers(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Exec("INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, "+
		"runs_after, events_after) VALUES (JSON_ARRAY('run'), JSON_ARRAY(?), '[]', 'Asia/Seoul', UTC_TIMESTAMP(6), "+
		"'park', '', 'SEC-4', 0, 0)", consoleAccount(d))
	site, provider := openSite(t, d)
	kim, lee := signedIn(t, site, "kim"), signedIn(t, site, "lee")
	today := time.Now().In(time.FixedZone("KST", 9*3600)).AddDate(0, 0, -1).Format(time.DateOnly)
	d.Exec("UPDATE coupon SET apply_opens_at = apply_opens_at - INTERVAL 2 DAY, version = version + 1 WHERE id = ?", id)
	kim.Run(chromedp.Navigate(site + fmt.Sprintf("/do/run?coupon=%d&date=%s", id, today)))
	digest := digestOnPage.FindString(browser.Read[string](kim, "document.querySelector('main').innerText"))
	require.NotEmpty(t, digest)
	kim.Run(chromedp.SendKeys("#reason", "FIN-5"), chromedp.Click("button.main"), chromedp.WaitVisible(".lead"))
	lee.Run(chromedp.Navigate(site + "/approvals/1"))
	require.Contains(t, browser.Read[string](lee, "document.querySelector('main').innerText"), digest)
	lee.Run(chromedp.SendKeys("#approve-reason", "FIN-6"), chromedp.Click("button.main"), chromedp.WaitVisible(".lead"))
	kim.Run(chromedp.Navigate(site+"/approvals/1"), chromedp.Click("button.main"))
	awaitTitle(kim, "수동 실행")
	require.Equal(t, []string{fmt.Sprintf(`{"approval":1,"action":"run","digest":%q,"maker":"kim","checker":"lee"}`,
		digest)}, jajeongtest.Column[string](d, "SELECT detail FROM audit_event WHERE action = 'APPROVAL_USED'"))
	subject := jajeongtest.Column[string](d, "SELECT DISTINCT sign_in FROM audit_event WHERE actor = 'kim'")
	require.Equal(t, []string{provider.Issuer + " kim"}, subject, "issuer and subject, not the name")
	d.Verify(coupon.CouponID(id))
}
