package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// roles are the groups of behindProxy, in the order of the tables.
var roles = []string{"all", "team-marketing", "team-cs", "team-finance", "team-ops"}

// world is a coupon of which user 1 has one, user 2 is under review and user 3 was not selected, and a coupon that
// waits.
func world(t *testing.T) (d *jajeongtest.Deployment, settled, waiting coupon.CouponID) {
	t.Helper()
	d = jajeongtest.New(t)
	settled = d.AddQueue(1, 2, 1, 3)
	d.MoveToReview(settled, "2", coupon.Failure{Cause: coupon.CauseBadRow})
	d.SettleNow(settled)
	waiting = d.AddQueue(5, 11, 12)
	return d, settled, waiting
}

// pages are those of a console that has an approval to decide.
type pages struct {
	*jajeongtest.Deployment
	id   coupon.CouponID
	site string
}

func TestPages(t *testing.T) {
	t.Parallel()
	d, id, _ := world(t)
	site := "http://" + behindProxy(d).Console
	d.Exec("INSERT INTO approval (action, coupon_id, plan, digest, reason, maker, maker_sign_in, maker_account, "+
		"created_at, expires_at) VALUES ('add-seats', ?, '{\"action\":\"add-seats\"}', 'sha256:x', 'r', 'somebody', "+
		"'somebody', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 DAY)", id)
	for _, one := range []struct {
		name string
		test func(*testing.T, pages)
	}{
		{"AreForTheirRoles", pagesAreForTheirRoles}, {"FormsAreForTheirRoles", formsAreForTheirRoles},
		{"FormsMakeNoFlags", formsMakeNoFlags},
		{"HideRequests", requestsAreHidden}, {"OfWhatDoesNotExist", missingThingsAreNotFound},
		{"HaveTheHeaders", pagesHaveTheHeaders}, {"AreInBothLanguages", pagesAreInBothLanguages},
		{"EscapeWhatOthersWrote", pagesEscapeWhatOthersWrote}, // changes what the others see
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, pages{d.For(t), id, site}) })
	}
}

// Each page is seen by the roles of the table alone: + in the order of roles.
func pagesAreForTheirRoles(t *testing.T, d pages) {
	id, site := d.id, d.site
	for path, want := range map[string]string{
		"/": "+++++", "/coupons": "+++++", "/coupons?status=open": "+++++", fmt.Sprint("/coupons/", id): "+++++",
		"/runs": "+++++", "/runs/1": "+++++",
		"/search?q=zzz": "--+++", "/people/1": "--+++", fmt.Sprint("/people/3/coupons/", id): "--+++",
		"/report": "---++", "/report?month=2026-11": "---++", "/dlq": "---++", fmt.Sprint("/dlq/", id): "---++",
		fmt.Sprintf("/dlq/%d?cause=BAD_ROW", id): "---++",
		fmt.Sprintf("/coupons/%d/winners", id):   "---++", "/approvals": "-++++", "/approvals/1": "-404404++",
		"/approvals/99": "-404404404404", "/policy": "---++",
		"/report.csv?month=2026-11": "---++", "/report.html?month=2026-11": "---++", "/runs.csv": "---++",
		"/dlq.csv": "---++", fmt.Sprint("/dlq?coupon=", id): "---++",
		fmt.Sprintf("/coupons/%d/winners.csv", id): "---++",
		fmt.Sprint("/do/pause?coupon=", id):        "-+--+", fmt.Sprint("/do/close?coupon=", id): "-+--+",
		fmt.Sprint("/do/freeze?coupon=", id):               "----+",
		fmt.Sprintf("/do/add-seats?coupon=%d&seats=1", id): "-+--+", fmt.Sprint("/do/restore?coupon=", id): "----+",
		"/do/policy": "----+", "/do/create": "-+--+", fmt.Sprint("/do/cadence?coupon=", id): "-+--+",
		"/do/run": "---++", fmt.Sprintf("/do/drop?coupon=%d&cause=BAD_ROW", id): "---++",
		fmt.Sprintf("/do/retry?coupon=%d&cause=BAD_ROW", id):        "---++",
		fmt.Sprintf("/do/drop?coupon=%d&user=2,3", id):              "---++",
		fmt.Sprintf("/do/retry?coupon=%d&user=2&cutoff=now", id):    "---++",
		fmt.Sprintf("/do/drop?coupon=%d&user=x", id):                "---++",
		fmt.Sprintf("/do/retry?coupon=%d&user=2", id):               "--+++",
		fmt.Sprintf("/do/drop?coupon=%d&user=2", id):                "--+++",
		fmt.Sprintf("/do/retry?coupon=%d&user=2&cause=BAD_ROW", id): "---422422",
		fmt.Sprintf("/do/grant?coupon=%d&user=3", id):               "--+-+",
		fmt.Sprintf("/do/revoke?coupon=%d&user=1", id):              "--+-+",
		fmt.Sprintf("/do/unuse?coupon=%d&user=1", id):               "--+-+",
		fmt.Sprintf("/do/extend-user?coupon=%d&user=1", id):         "--+-+", "/do/honour": "--+-+",
	} {
		got := ""
		for _, group := range roles {
			status, page, _ := visitor{t, site, "p-" + group, group}.ask(http.MethodGet, path, nil)
			switch status {
			case http.StatusOK:
				got += "+"
			case http.StatusForbidden:
				got += "-"
			default:
				got += fmt.Sprint(status)
			}
			require.NotContains(t, page, "%!", path)
		}
		require.Equal(t, want, got, path)
	}
	// Of two ways to give a coupon, people see the one that they may use.
	for group, of := range map[string]struct {
		user string
		ways []bool
	}{"team-cs": {"3", []bool{true, false}}, "team-finance": {"", []bool{false, true}},
		"team-ops": {"", []bool{true, true}}} {
		_, page, _ := visitor{t, site, "p-" + group, group}.ask(http.MethodGet,
			fmt.Sprintf("/do/grant?coupon=%d&user=%s", id, of.user), nil)
		ways := []bool{strings.Contains(page, `id="f-user"`), strings.Contains(page, `type="file"`)}
		require.Equal(t, of.ways, ways, group)
	}
	_, page, _ := visitor{t, site, "p-ops", "team-ops"}.ask(http.MethodGet,
		fmt.Sprintf("/do/add-seats?coupon=%d&seats=1,000", id), nil)
	require.Contains(t, page, "sha256:", "a number as people write it")
	status, _, _ := visitor{t, site, "nobody", "x"}.ask(http.MethodGet, "/", nil)
	require.Equal(t, http.StatusForbidden, status, "a group without a role")
}

// A form is refused to those who may not see it, whatever they send.
func formsAreForTheirRoles(t *testing.T, d pages) {
	id, site := d.id, d.site
	before := d.Snapshot()
	n := 0
	for change, want := range map[string]string{"pause": "-+--+", "add-seats": "-+--+",
		"create": "-+--+", "freeze": "----+", "recount": "----+", "grant": "--+-+", "revoke": "--+-+", "run": "---++",
		"drop": "---++", "policy": "----+", "restore": "----+", "honour": "--+-+"} {
		for i, group := range roles {
			if want[i] == '+' {
				continue
			}
			n++
			form := url.Values{"coupon": {id.String()}, "seats": {"1"}, "user": {"3"}, "date": {"2026-11-20"},
				"actions": {"none"}, "reason": {"r"}, "job": {fmt.Sprintf("%026d", n)}, "receipt": {"x"}}
			if change == "drop" {
				form.Del("user")
				form.Set("cause", "BAD_ROW")
			}
			status, _, _ := visitor{t, site, "p", group}.ask(http.MethodPost, "/do/"+change, form)
			require.Equal(t, http.StatusForbidden, status, "%s %s", change, group)
		}
	}
	for _, form := range []url.Values{{"user": {"2,3"}}, {"user": {"2"}, "cutoff": {"now"}},
		{"user": {"2"}, "cause": {"BAD_ROW"}}} {
		for _, change := range []string{"drop", "retry"} {
			if n++; change == "drop" && form.Has("cutoff") {
				continue
			}
			form.Set("coupon", id.String())
			form.Set("reason", "r")
			form.Set("job", fmt.Sprintf("%026d", n))
			status, _, _ := visitor{t, site, "p", "team-cs"}.ask(http.MethodPost, "/do/"+change, form)
			require.Equal(t, http.StatusForbidden, status, "customer service changes one person at a time: %s %v",
				change, form)
		}
	}
	require.Equal(t, before, d.Snapshot())
}

// Who may not see a request cannot tell whether it exists.
func requestsAreHidden(t *testing.T, d pages) {
	form := url.Values{"reason": {"r"}, "job": {strings.Repeat("j", 26)}, "digest": {"sha256:x"}}
	for group, want := range map[string]int{"all": http.StatusForbidden, "team-cs": http.StatusNotFound,
		"team-marketing": http.StatusNotFound} {
		v := visitor{t, d.site, "p", group}
		for _, decision := range []string{"", "/approve", "/refuse", "/use", "/nothing"} {
			method := http.MethodPost
			if decision == "" {
				method = http.MethodGet
			}
			status, page, _ := v.ask(method, "/approvals/1"+decision, form)
			require.Equal(t, want, status, "%s %s", group, decision)
			status, other, _ := v.ask(method, "/approvals/99"+decision, form)
			require.Equal(t, want, status, "%s %s", group, decision)
			require.Equal(t, strings.ReplaceAll(page, "1", "99"),
				strings.ReplaceAll(strings.ReplaceAll(other, "99", "1"), "1", "99"), "%s %s", group, decision)
		}
	}
}

// ownAddress is that of a page, in its link to the other language.
var ownAddress = regexp.MustCompile(`&amp;back=[^"]*`)

// What does not exist is 404, with a page that says what is missing and leads nowhere. Who may not see it cannot tell
// whether it exists.
func missingThingsAreNotFound(t *testing.T, d pages) {
	ops, all := visitor{t, d.site, "choi", "team-ops"}, visitor{t, d.site, "choi", "all"}
	for path, viewer := range map[string]int{
		"/coupons/%s": http.StatusNotFound, "/runs/%s": http.StatusNotFound,
		"/coupons/%s/winners": http.StatusForbidden, "/coupons/%s/winners.csv": http.StatusForbidden,
		"/dlq/%s": http.StatusForbidden, "/dlq/%s?cause=BAD_ROW": http.StatusForbidden,
		"/dlq?coupon=%s": http.StatusForbidden, "/dlq.csv?coupon=%s": http.StatusForbidden,
		"/people/1/coupons/%s": http.StatusForbidden, "/approvals/%s": http.StatusForbidden,
		"/do/pause?coupon=%s": http.StatusForbidden, "/do/run?date=2026-11-20&coupon=%s": http.StatusForbidden,
	} {
		for _, missing := range []string{"999", "18446744073709551615"} {
			at := fmt.Sprintf(path, missing)
			status, page, _ := ops.ask(http.MethodGet, at, nil)
			require.Equal(t, http.StatusNotFound, status, "%s: %s", at, page)
			require.Regexp(t, missing+"(번이 없습니다|: 기록이 없습니다|번 쿠폰은 존재하지 않습니다)", page, "%s says what is missing", at)
			_, main, _ := strings.Cut(page, "<main")
			require.NotRegexp(t, `<a href="/(do|coupons/`+missing+`/|runs.coupon|dlq.csv)`, main, at)
			status, page, _ = all.ask(http.MethodGet, at, nil)
			require.Equal(t, viewer, status, at)
			if viewer == http.StatusForbidden {
				status, existing, _ := all.ask(http.MethodGet, fmt.Sprintf(path, d.id), nil)
				require.Equal(t, viewer, status, at)
				require.Equal(t, ownAddress.ReplaceAllString(existing, ""), ownAddress.ReplaceAllString(page, ""), at)
			}
		}
		if strings.Contains(path, "=%s") { // what is typed into a form is not an address
			continue
		}
		for _, malformed := range []string{"0", "007", "abc", "-1", "1.0", "１", "18446744073709551616"} {
			status, page, _ := ops.ask(http.MethodGet, fmt.Sprintf(path, url.PathEscape(malformed)), nil)
			require.Equal(t, http.StatusNotFound, status, "%s: %s", path, malformed)
			require.Contains(t, page, "주소에 해당하는 화면이 없습니다", "%s: %s", path, malformed)
		}
	}
}

// What is typed into a form cannot become another flag, nor another verb.
func formsMakeNoFlags(t *testing.T, d pages) {
	id, ops := d.id, visitor{t, d.site, "choi", "team-ops"}
	before := d.Snapshot()
	wrongNumbers := []string{"--help", "1 2", "1 --total=9", "-1", "010", "0x1F", "1_0", "+1", "0", "１",
		"99999999999999999999"}
	var forms []url.Values
	for _, wrong := range wrongNumbers {
		forms = append(forms, url.Values{"coupon": {wrong}, "seats": {"1"}},
			url.Values{"coupon": {id.String()}, "seats": {wrong}})
	}
	for i, form := range append(forms, url.Values{"coupon": {id.String()}, "seats": {"1"}, "reason": {""}},
		url.Values{"coupon": {id.String()}, "seats": {"1"}, "reason": {"r"}, "job": {"short"}}) {
		for name, value := range map[string]string{"reason": "r", "job": fmt.Sprintf("%026d", i),
			"digest": "sha256:" + strings.Repeat("0", 64)} {
			if !form.Has(name) {
				form.Set(name, value)
			}
		}
		status, page, _ := ops.ask(http.MethodPost, "/do/add-seats", form)
		if i >= len(forms) {
			require.Equal(t, http.StatusBadRequest, status, page)
			continue
		}
		require.Equal(t, http.StatusOK, status, page)
		require.Contains(t, html.UnescapeString(page), wrongNumbers[i/2], "the value is named")
		require.Contains(t, page, "종료 코드 2")
	}
	for _, path := range []string{"/do/run?date=--yes", "/do/policy?actions=--help",
		"/do/drop?coupon=1&cause=%3Cscript%3E", "/do/extend?coupon=1&closes=--x"} {
		status, _, _ := ops.ask(http.MethodGet, path, nil)
		require.Equal(t, http.StatusUnprocessableEntity, status, path)
	}
	for _, path := range []string{"/search?user=0777&coupon=1", "/search?user=1&coupon=0777", "/runs?coupon=0777",
		"/approvals?coupon=0777", "/report?campaign=0777", "/do/retry?coupon=1&canary=0777"} {
		status, page, _ := ops.ask(http.MethodGet, path, nil)
		require.Equal(t, http.StatusUnprocessableEntity, status, path)
		require.Contains(t, page, "0777", path)
	}
	status, page, _ := ops.ask(http.MethodGet, fmt.Sprintf("/do/extend?coupon=%s&closes=1988-05-08T02:30", id), nil)
	require.Equal(t, http.StatusUnprocessableEntity, status, "the clocks of Seoul skipped this time")
	require.Contains(t, page, "1988-05-08T02:30")
	for _, path := range []string{"/coupons?status=--help", "/runs?date=--yes&coupon=x", "/report?month=%00",
		"/dlq/1?cause=--help", "/search?q=--help"} {
		status, page, _ := ops.ask(http.MethodGet, path, nil)
		require.Less(t, status, http.StatusInternalServerError, "%s: %s", path, page)
		require.NotContains(t, page, "Usage:", path)
	}
	status, page, _ = ops.ask(http.MethodGet, fmt.Sprintf("/do/grant?coupon=%s&file=/etc/passwd", id), nil)
	require.Equal(t, http.StatusUnprocessableEntity, status, "no file of the server is read")
	require.NotContains(t, page, "root")
	for _, path := range []string{"/people/0", "/nothing", "/jobs/x", "/do/nothing"} {
		status, _, _ := ops.ask(http.MethodGet, path, nil)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	require.Equal(t, before, d.Snapshot(), "looking and failing change nothing")
}

// Names and reasons are texts, whatever is in them.
func pagesEscapeWhatOthersWrote(t *testing.T, d pages) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	id := d.id
	d.Exec("UPDATE coupon SET name = ? WHERE id = ?", hostile, id)
	d.Exec("UPDATE settlement_run SET operator = ?, reason = ?", hostile, hostile)
	d.Exec("INSERT INTO approval (action, coupon_id, plan, digest, reason, maker, maker_sign_in, maker_account, "+
		"created_at, expires_at) VALUES ('add-seats', ?, ?, ?, ?, ?, 'somebody', '', UTC_TIMESTAMP(6), "+
		"UTC_TIMESTAMP(6) + INTERVAL 1 DAY)",
		id, `{"action":"add-seats","changes":[{"what":"\"><script>","to":"<script>"}]}`, hostile, hostile, hostile)
	d.ApplyAt(id, hostile, d.Now())
	d.MoveToReview(id, hostile, coupon.Failure{Cause: coupon.CauseUnknownUser, Note: hostile})
	ops := visitor{t, d.site, hostile[:40], "team-ops"}
	for _, path := range []string{"/", "/coupons", fmt.Sprint("/coupons/", id), "/runs", "/runs/1",
		fmt.Sprint("/dlq/", id), fmt.Sprintf("/dlq/%d?cause=UNKNOWN_USER", id), "/approvals", "/approvals/2",
		"/people/1", fmt.Sprint("/people/1/coupons/", id), "/search?q=" + url.QueryEscape(hostile),
		"/report?month=2026-11", fmt.Sprintf("/do/add-seats?coupon=%d&seats=1", id),
		fmt.Sprintf("/do/run?coupon=%d&date=2026-11-20", id)} {
		_, page, _ := ops.ask(http.MethodGet, path, nil)
		require.NotContains(t, page, "<script", path)
		require.NotContains(t, page, "<img", path)
		require.NotContains(t, page, "javascript:", path)
	}
}

// ofOps is a request of an operator.
func ofOps(t *testing.T, at string, cookies ...*http.Cookie) *http.Request {
	r := request(t, at, cookies...)
	r.Header.Set("X-Forwarded-User", "kim")
	r.Header.Set("X-Forwarded-Groups", "team-ops")
	return r
}

func pagesHaveTheHeaders(t *testing.T, d pages) {
	for _, path := range []string{"/", "/nothing", "/coupons", "/report.csv?month=2026-11"} {
		response, err := http.DefaultClient.Do(ofOps(t, d.site+path))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		policy := response.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "style-src 'self'", "frame-ancestors 'none'",
			"form-action 'self'", "base-uri 'none'"} {
			require.Contains(t, policy, want, path)
		}
		require.False(t, strings.Contains(policy, "unsafe") || strings.Contains(policy, "script"), policy)
		require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	}
}

// Both languages say the same things: every page has its command, and no word is left out.
func pagesAreInBothLanguages(t *testing.T, d pages) {
	id, site := d.id, d.site
	for path, want := range map[string][3]string{
		"/":        {"<h1>오늘 밤</h1>", "<h1>Tonight</h1>", "settle coupon list"},
		"/coupons": {"<h1>쿠폰</h1>", "<h1>Coupons</h1>", "settle coupon list --limit=50"},
		fmt.Sprint("/coupons/", id): {fmt.Sprintf("<h1>쿠폰 %d번</h1>", id),
			fmt.Sprintf("<h1>Coupon %d</h1>", id), fmt.Sprint("settle coupon show ", id)},
		"/people/1": {"<h1>고객 1번</h1>", "<h1>Customer 1</h1>", "settle user show --user=1"},
		fmt.Sprint("/people/3/coupons/", id): {"고객 3번", "Customer 3",
			fmt.Sprintf("settle explain --coupon=%d --user=3", id)},
		"/dlq": {"검토 중인 신청", "under review", "settle dlq list"},
	} {
		for i, lang := range []string{"ko", "en"} {
			status, page := body(t, ofOps(t, site+path, &http.Cookie{Name: "__Host-jajeong-language", Value: lang}))
			require.Equal(t, http.StatusOK, status, path)
			require.Contains(t, page, want[i], path)
			require.Contains(t, page, want[2], path)
			require.Contains(t, page, `<html lang="`+lang+`">`)
		}
	}
}
