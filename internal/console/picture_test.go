package console_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

var update = flag.Bool("update", false, "draw docs/console.svg anew")

// behindProxy starts the console behind a sign-in proxy, whose headers the caller sends.
func behindProxy(d *jajeongtest.Deployment, flags ...string) *testenv.Program {
	flags = append(flags, "--listen=127.0.0.1:0", "--console-trusted-proxies=127.0.0.0/8",
		"--console-roles=team-finance=finance,team-cs=cs,team-ops=operator,team-marketing=marketing,all=viewer")
	return d.Start(d.Environment(), "./cmd/settle",
		append(append([]string{"console"}, flags...), d.Flags(d.Operator)...)...)
}

// visitor is a person behind the proxy.
type visitor struct {
	t                 *testing.T
	site, name, group string
}

// ask sends a request and returns the page, and where it was found. It waits until the page no longer refreshes itself.
func (v visitor) ask(method, path string, form url.Values) (status int, page, at string) {
	v.t.Helper()
	testenv.Eventually(v.t, "the job of "+path+" is done", func() bool {
		status, page, at = v.askOnce(method, path, form)
		method, path, form = http.MethodGet, at, nil
		return !strings.Contains(page, `http-equiv="refresh"`)
	})
	return status, page, at
}

// askOnce is ask for a page that may still refresh itself.
func (v visitor) askOnce(method, path string, form url.Values) (status int, page, at string) {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), method, v.site+path, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	request.Header.Set("X-Forwarded-User", v.name)
	request.Header.Set("X-Forwarded-Groups", v.group)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(v.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)
	return response.StatusCode, string(text), response.Request.URL.Path
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// fill returns the hidden inputs of the form on a page, and the reason.
func fill(page, reason string) url.Values {
	form := url.Values{"reason": {reason}}
	for _, found := range hiddenInput.FindAllStringSubmatch(page, -1) {
		form.Set(found[1], html.UnescapeString(found[2]))
	}
	return form
}

// The picture in the README and the handbook shows the pages as they are. Times differ.
func TestPicture_ShowsThePages(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 9)...)
	id := d.AddCouponBetween(5, d.Now().Add(-time.Hour), d.Now().Add(time.Hour))
	d.Apply(id, jajeongtest.Between[coupon.UserID](1, 9)...)
	d.Exec("UPDATE coupon SET name = '블랙프라이데이 5천원' WHERE id = ?", id)
	d.Exec("INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, "+
		"runs_after, events_after) VALUES (JSON_ARRAY('add-seats'), JSON_ARRAY(?), '[]', 'Asia/Seoul', "+
		"UTC_TIMESTAMP(6), 'park', '', 'SEC-4', 0, 0)", consoleAccount(d))
	site := "http://" + behindProxy(d).Console
	kim, lee := visitor{t, site, "kim", "team-ops"}, visitor{t, site, "lee", "team-finance"}
	_, tonight, _ := kim.ask(http.MethodGet, "/", nil)
	change := fmt.Sprintf("/do/add-seats?coupon=%d&seats=100", id)
	_, preview, _ := kim.ask(http.MethodGet, change, nil)
	status, asked, _ := kim.ask(http.MethodPost, "/do/add-seats", fill(preview, "MKT-2"))
	require.Equal(t, http.StatusOK, status, asked)
	_, approval, _ := lee.ask(http.MethodGet, "/approvals/1", nil)

	requirePicture(t, "console.svg", tonight, preview, approval)
}

// The picture of the marketers' page has a new coupon from its form to its own page.
func TestPicture_ShowsACampaign(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.Exec("INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, "+
		"runs_after, events_after) VALUES (JSON_ARRAY('create:1000000'), JSON_ARRAY(?), '[]', 'Asia/Seoul', "+
		"UTC_TIMESTAMP(6), 'park', '', 'SEC-4', 0, 0)", consoleAccount(d))
	site := "http://" + behindProxy(d).Console
	han, lee := visitor{t, site, "han", "team-marketing"}, visitor{t, site, "lee", "team-finance"}
	opens := d.Now().Add(48 * time.Hour).In(time.FixedZone("KST", 9*3600)).Truncate(time.Hour)
	values := url.Values{"name": {"블랙프라이데이 1만 원"}, "discount-won": {"10000"}, "cadence": {"immediate"},
		"opens": {opens.Format("2006-01-02T15:04")}, "closes": {opens.Add(10 * time.Hour).Format("2006-01-02T15:04")}}
	_, form, _ := han.ask(http.MethodGet, "/do/create?"+values.Encode(), nil)
	values.Set("seats", "1000")
	_, preview, _ := han.ask(http.MethodGet, "/do/create?"+values.Encode(), nil)
	_, asked, _ := han.ask(http.MethodPost, "/do/create", fill(preview, "MKT-7"))
	require.Contains(t, asked, "승인 요청 1번")
	_, approval := lee.decides("1", "approve")
	require.Contains(t, approval, "승인됨")
	_, ready, _ := han.ask(http.MethodGet, "/approvals/1", nil)
	_, done, _ := han.ask(http.MethodPost, "/approvals/1/use", onlyForm(ready, "use", ""))
	require.Contains(t, done, "끝났습니다")
	_, made, _ := han.ask(http.MethodGet, "/coupons/1", nil)
	requirePicture(t, "campaigns.svg", form, preview, ready, made)
}

// requirePicture demands that a picture of the documents shows the pages as they are.
func requirePicture(t *testing.T, name string, pages ...string) {
	t.Helper()
	path, picture := "../../docs/"+name, draw(t, pages...)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(picture), 0o644))
	}
	committed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(committed), picture, "the pages have changed: run `go test ./internal/console -update`")
}

// Sizes of the picture, in pixels.
const (
	pictureWidth = 1000
	heightOfPage = 460
)

// draw puts the main parts of pages below each other, with the style sheet of the console.
func draw(t *testing.T, pages ...string) string {
	t.Helper()
	style, err := os.ReadFile("pages/style.css")
	require.NoError(t, err)
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`+"\n<style>%s</style>\n",
		pictureWidth, len(pages)*heightOfPage,
		pictureWidth, len(pages)*heightOfPage, html.EscapeString(string(style)))
	b.WriteString(
		"<style>div.page { background: var(--back); color: var(--text); height: 100%; overflow: hidden; " +
			"border-bottom: 1px solid var(--line); }</style>\n")
	for i, page := range pages {
		fmt.Fprintf(&b,
			`<foreignObject x="0" y="%d" width="%d" height="%d">`+
				`<div xmlns="http://www.w3.org/1999/xhtml" class="page">`,
			i*heightOfPage, pictureWidth, heightOfPage)
		b.WriteString(steady(mainOf(t, page)))
		b.WriteString("</div></foreignObject>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// mainOf returns the main element of a page as XML.
func mainOf(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	for node := range root.Descendants() {
		if node.DataAtom == atom.Main {
			var b strings.Builder
			require.NoError(t, html.Render(&b, node))
			return b.String()
		}
	}
	require.Fail(t, "no main element", page)
	return ""
}

var (
	anInstant = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?`)
	aTime     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d(:|%3[Aa])\d\d((:|%3[Aa])\d\d)?`)
	aDigest   = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	aJob      = regexp.MustCompile(`name="job" value="[^"]*"`)
)

// steady replaces what differs from run to run.
func steady(page string) string {
	page = anInstant.ReplaceAllString(page, "2026-11-27 00:00:00")
	page = aTime.ReplaceAllString(page, "2026-11-27T14:00")
	page = aJob.ReplaceAllString(page, `name="job" value=""`)
	return aDigest.ReplaceAllString(page, "sha256:5f3c…")
}
