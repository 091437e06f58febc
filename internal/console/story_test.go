package console_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func body(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

var digestOnPage = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// lastNight is a coupon whose applications of yesterday wait, and the business date to settle them.
func lastNight(d *jajeongtest.Deployment, seats, users int) (id coupon.CouponID, date string) {
	zone := time.FixedZone("KST", 9*3600)
	now := d.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, zone)
	id = d.AddCouponBetween(seats, midnight.Add(-20*time.Hour), now.Add(time.Hour))
	for user := range users {
		d.AddUsers(coupon.UserID(user + 1))
		d.ApplyAt(id, fmt.Sprint(user+1), midnight.Add(-time.Hour+time.Duration(user)*time.Second))
	}
	return id, midnight.Add(-time.Hour).Format(time.DateOnly)
}

// Finance settles a missed night with the approval of a second person. Both see the digest that the audit trail has.
// Then everybody else tries to use, repeat or forge it.
func TestStory_OfAMissedNight(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id, date := lastNight(d, 2, 4)
	site := "http://" + behindProxy(d).Console
	kim, lee := visitor{t, site, "kim@example.com", "team-finance"}, visitor{t, site, "lee@example.com", "team-finance"}
	park, choi := visitor{t, site, "park@example.com", "team-cs"}, visitor{t, site, "choi@example.com", "team-ops"}
	_, policy, _ := choi.ask(http.MethodGet, "/do/policy?actions=run&shared-accounts="+consoleAccount(d), nil)
	_, done, _ := choi.ask(http.MethodPost, "/do/policy", fill(policy, "SEC-4"))
	require.Contains(t, done, "수동 실행")

	_, preview, _ := kim.ask(http.MethodGet, fmt.Sprintf("/do/run?coupon=%d&date=%s", id, date), nil)
	require.Contains(t, preview, "승인 요청")
	seen := digestOnPage.FindString(preview)
	require.NotEmpty(t, seen)
	form := fill(preview, "FIN-5")
	_, asked, _ := kim.ask(http.MethodPost, "/do/run", form)
	require.Contains(t, asked, "승인 요청 1번")
	_, again, _ := kim.ask(http.MethodPost, "/do/run", form)
	require.Equal(t, asked, again, "a form that is sent twice asks once")
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM approval WHERE action = 'run'"))
	require.Empty(t, d.Issued(id))

	own := func(v visitor, decision, digest string) int {
		form := url.Values{"reason": {"FIN-6"}, "digest": {digest},
			"job": {fmt.Sprintf("%026d", time.Now().UnixNano())}}
		status, _, _ := v.ask(http.MethodPost, "/approvals/"+number(d)+"/"+decision, form)
		return status
	}
	_, shown, _ := kim.ask(http.MethodGet, "/approvals/"+number(d), nil)
	require.NotContains(t, shown, "/approve\"", "one's own request has no button to approve it")
	require.Equal(t, http.StatusConflict, own(lee, "approve", "sha256:"+strings.Repeat("0", 64)), "another digest")
	require.Equal(t, http.StatusForbidden, own(lee, "use", seen))
	own(kim, "approve", seen)
	require.Zero(t, d.Number("SELECT COUNT(*) FROM approval WHERE approved"), "kim cannot approve for herself")
	own(kim, "use", seen)
	require.Empty(t, d.Issued(id), "it is not approved yet")

	_, shown, _ = lee.ask(http.MethodGet, "/approvals/"+number(d), nil)
	require.Contains(t, shown, seen, "the checker sees what the maker saw")
	_, approved := lee.decides(number(d), "approve")
	require.Contains(t, approved, "승인됨")

	_, ready, _ := kim.ask(http.MethodGet, "/approvals/"+number(d), nil)
	use := onlyForm(ready, "use", "")
	_, ran, _ := kim.ask(http.MethodPost, "/approvals/"+number(d)+"/use", use)
	require.Contains(t, ran, "끝났습니다")
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	_, repeated, _ := kim.ask(http.MethodPost, "/approvals/"+number(d)+"/use", use)
	require.Equal(t, ran, repeated)
	use.Set("job", fmt.Sprintf("%026d", 77))
	_, refused, _ := kim.ask(http.MethodPost, "/approvals/"+number(d)+"/use", use)
	require.Contains(t, refused, "UNCHANGED", "running again is safe, and finds everything done")
	require.NotContains(t, refused, "level", "the log is no part of a page")
	used := d.Payloads(id, audit.ApprovalUsed)[0].(audit.UsedApproval)
	require.Equal(t, number(d), fmt.Sprint(used.Approval))
	require.Equal(t, audit.UsedApproval{Approval: used.Approval, Action: "run", Digest: seen, Maker: "kim@example.com",
		Checker: "lee@example.com"}, used)
	requireSignIn(d, "kim@example.com")
	for _, v := range []visitor{park, {t, site, "jung@example.com", "all"}} {
		_, page, _ := v.ask(http.MethodGet, fmt.Sprint("/coupons/", id), nil)
		require.Contains(t, page, "kim@example.com", "who settled it is no secret")
		require.NotContains(t, page, "lee@example.com", "which request was approved is")
	}
	_, page, _ := lee.ask(http.MethodGet, fmt.Sprint("/coupons/", id), nil)
	require.Contains(t, page, "lee@example.com")
	d.Verify(id)
}

// consoleAccount is the account of the console. The policy calls it shared, so that who signs in there is a person.
func consoleAccount(d *jajeongtest.Deployment) string {
	d.T.Helper()
	account, err := mysql.ParseDSN(d.Operator.MySQLDSN)
	require.NoError(d.T, err)
	return account.User
}

// requireSignIn demands that the audit events of a person have the sign-in, which is the name behind a proxy.
func requireSignIn(d *jajeongtest.Deployment, name string) {
	d.T.Helper()
	require.Equal(d.T, []string{name}, jajeongtest.Column[string](d,
		"SELECT DISTINCT sign_in FROM audit_event WHERE actor = ?", name))
}

// onlyForm returns the hidden inputs of one of the forms of an approval's page.
func onlyForm(page, decision, reason string) url.Values {
	_, form, _ := strings.Cut(page, "/"+decision+`">`)
	form, _, _ = strings.Cut(form, "</form>")
	return fill(form, reason)
}

// A retry that takes long goes on when its page is left, and its page shows how far it came.
func TestJobs_GoOnWithoutTheirPage(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(60)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 50)...)
	d.ApplyLine(id, jajeongtest.Between[coupon.UserID](1, 50)...)
	for user := range 50 {
		d.MoveToReview(id, fmt.Sprint(user+1), coupon.Failure{Cause: coupon.CauseBadRow})
	}
	release := d.Lock(id) // the settlement waits for the coupon's row
	kim := visitor{t, "http://" + behindProxy(d).Console, "kim", "team-finance"}
	_, preview, _ := kim.ask(http.MethodGet, fmt.Sprintf("/do/retry?coupon=%d&cause=BAD_ROW&cutoff=now", id), nil)
	_, working, at := kim.askOnce(http.MethodPost, "/do/retry", fill(preview, "INC-9"))
	require.Contains(t, working, "이 화면을 떠나도 계속됩니다")
	require.Contains(t, working, `http-equiv="refresh"`)
	_, tonight, _ := kim.ask(http.MethodGet, "/", nil)
	require.Contains(t, tonight, at, "the first page lists the job")
	status, _, _ := visitor{t, kim.site, "lee", "team-finance"}.ask(http.MethodGet, at, nil)
	require.Equal(t, http.StatusNotFound, status, "a job is its person's")
	release()
	_, done, _ := kim.ask(http.MethodGet, at, nil)
	require.Contains(t, done, "끝났습니다")
	require.Len(t, d.Issued(id), 50)
	requireSignIn(d, "kim")
}

// number is that of the last request.
func number(d *jajeongtest.Deployment) string {
	return fmt.Sprint(d.Number("SELECT MAX(id) FROM approval"))
}

// asks fills in a form and asks for its approval. It returns the page that answers.
func (v visitor) asks(form, reason string) string {
	v.t.Helper()
	_, preview, _ := v.ask(http.MethodGet, form, nil)
	path, _, _ := strings.Cut(form, "?")
	_, asked, _ := v.ask(http.MethodPost, path, fill(preview, reason))
	return asked
}

// decides presses one of the buttons of an approval's page.
func (v visitor) decides(id, decision string) (status int, page string) {
	v.t.Helper()
	_, shown, _ := v.ask(http.MethodGet, "/approvals/"+id, nil)
	status, page, _ = v.ask(http.MethodPost, "/approvals/"+id+"/"+decision, onlyForm(shown, decision, "CS-9"))
	return status, page
}

// Changes of one person are asked for, approved and carried out from pages alone, exactly as approved.
func TestStory_OfOnePerson(t *testing.T) {
	t.Parallel()
	d, id, line := world(t)
	d.AddUsers(91)
	reviewed := d.Waiting(line)[0]
	d.MoveToReview(line, reviewed, coupon.Failure{Cause: coupon.CauseBadRow})
	d.Exec("UPDATE policy SET actions = '[\"drop\",\"grant\",\"revoke\"]', shared_accounts = JSON_ARRAY(?)",
		consoleAccount(d))
	site := "http://" + behindProxy(d).Console
	park, jung, lee := visitor{t, site, "park@example.com", "team-cs"}, visitor{t, site, "jung@example.com", "team-cs"},
		visitor{t, site, "lee@example.com", "team-finance"}
	holder := d.Issued(id)[0]
	seats := d.Number("SELECT total_quantity FROM coupon WHERE id = ?", id)
	for _, c := range []struct {
		form    string
		sees    []string // what the checker reads
		carried func() bool
	}{
		{fmt.Sprintf("/do/revoke?coupon=%d&user=%d&free-seat=true", id, holder),
			[]string{fmt.Sprintf("고객번호: %d<", holder), "수량 돌려놓기: 예"}, func() bool {
				return d.Number(
					"SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND user_id = ? AND status = 'REVOKED'", id,
					holder) == 1 &&
					d.Number("SELECT total_quantity FROM coupon WHERE id = ?", id) == seats+1
			}},
		{fmt.Sprintf("/do/drop?coupon=%d&user=%s", line, reviewed), []string{"고객번호: " + reviewed + "<"},
			func() bool { return len(d.Outcome(line, "REJECTED")) == 1 }},
		{fmt.Sprintf("/do/grant?coupon=%d&user=91", id), []string{"고객번호: 91<"}, func() bool {
			return len(d.Issued(id)) > 0 && d.Number("SELECT COUNT(*) FROM user_coupon WHERE user_id = 91") == 1
		}},
	} {
		asked := park.asks(c.form, "CS-8")
		require.Contains(t, asked, fmt.Sprintf(`<a href="/approvals/%s">`, number(d)),
			"the page leads to the request: %s", c.form)
		require.NotContains(t, asked, "--approval")
		_, list, _ := park.ask(http.MethodGet, "/approvals", nil)
		require.Contains(t, list, "/approvals/"+number(d), "customer service finds its requests again")
		_, list, _ = jung.ask(http.MethodGet, "/approvals", nil)
		require.NotContains(t, list, "/approvals/"+number(d), "and those of nobody else")
		for _, decision := range []string{"approve", "refuse", "use"} {
			status, _, _ := jung.ask(http.MethodPost, "/approvals/"+number(d)+"/"+decision,
				url.Values{"reason": {"x"}, "job": {strings.Repeat("j", 26)}})
			require.Equal(t, http.StatusNotFound, status, "%s of another's request", decision)
		}
		_, tonight, _ := lee.ask(http.MethodGet, "/", nil)
		require.Contains(t, tonight, "승인을 기다리는 요청 1건")
		_, shown, _ := lee.ask(http.MethodGet, "/approvals/"+number(d), nil)
		for _, what := range c.sees {
			require.Contains(t, shown, what, c.form)
		}
		_, approved := lee.decides(number(d), "approve")
		require.Contains(t, approved, "승인됨")
		status, _, _ := jung.ask(http.MethodPost, "/approvals/"+number(d)+"/use",
			url.Values{"job": {strings.Repeat("k", 26)}})
		require.Equal(t, http.StatusNotFound, status, "an approved request of another person")
		require.False(t, c.carried(), c.form)
		_, done := park.decides(number(d), "use")
		require.True(t, c.carried(), "%s: %s", c.form, done)
	}
	_, tonight, _ := lee.ask(http.MethodGet, "/", nil)
	require.NotContains(t, tonight, "승인을 기다리는 요청")
	requireSignIn(d, "park@example.com")
	d.Verify(id, line)
}

// A change is made as its page showed it, or not at all: what has changed since is shown first.
func TestChanges_ArePinnedToTheirPages(t *testing.T) {
	t.Parallel()
	d, settled, waiting := world(t)
	d.AddUsers(13, 14)
	d.Apply(waiting, 13, 14)
	review := func(users ...string) {
		for _, user := range users {
			d.MoveToReview(waiting, user, coupon.Failure{Cause: coupon.CauseBadRow})
		}
	}
	review("11")
	lost := d.AddQueue(5, 21, 22)
	d.Journal(lost)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(lost), "21").Err())
	ops := visitor{t, "http://" + behindProxy(d).Console, "choi", "team-ops"}
	for form, c := range map[string]struct {
		meanwhile func()
		unchanged func() bool
	}{
		fmt.Sprintf("/do/drop?coupon=%d&cause=BAD_ROW", waiting): {func() { review("12") },
			func() bool { return len(d.Outcome(waiting, "REJECTED")) == 0 }},
		fmt.Sprintf("/do/retry?coupon=%d&cause=BAD_ROW&cutoff=now", waiting): {func() { review("13") },
			func() bool { return len(d.Issued(waiting)) == 0 }},
		fmt.Sprintf("/do/retry?coupon=%d&cutoff=now", waiting): {func() { review("14") },
			func() bool { return len(d.Issued(waiting)) == 0 }},
		fmt.Sprintf("/do/add-seats?coupon=%d&seats=3", settled): {func() { d.SetSeats(settled, 2) },
			func() bool { return d.Number("SELECT total_quantity FROM coupon WHERE id = ?", settled) == 2 }},
		fmt.Sprintf("/do/restore?coupon=%d", lost): {
			func() { require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(lost), "22").Err()) },
			func() bool { return len(d.Waiting(lost)) == 0 }},
		"/do/policy?actions=run": {func() { d.Exec("UPDATE policy SET shared_accounts = JSON_ARRAY('settle')") },
			func() bool { return d.Number("SELECT MAX(id) FROM policy") == 1 }},
	} {
		path, _, _ := strings.Cut(form, "?")
		_, preview, _ := ops.ask(http.MethodGet, form, nil)
		sent := fill(preview, "OPS-1")
		require.Equal(t, digestOnPage.FindString(preview), sent.Get("digest"), form)
		require.Contains(t, preview, "--expect-digest="+sent.Get("digest"), "the command is that of the page")
		c.meanwhile()
		_, done, _ := ops.ask(http.MethodPost, path, sent)
		require.Contains(t, done, "미리 보기 후에 대상이 달라져", form)
		require.True(t, c.unchanged(), form)
		sent.Del("digest")
		sent.Set("job", strings.Repeat("j", 26))
		status, page, _ := ops.ask(http.MethodPost, path, sent)
		require.Equal(t, http.StatusBadRequest, status, form)
		require.Contains(t, page, "미리 보기를 먼저", form)
	}
	ofOne := fmt.Sprintf("/do/drop?coupon=%d&user=11", waiting)
	_, preview, _ := ops.ask(http.MethodGet, ofOne, nil)
	_, done, _ := ops.ask(http.MethodPost, "/do/drop", fill(preview, "OPS-2"))
	require.Contains(t, done, "끝났습니다")
	require.Equal(t, []coupon.UserID{11}, d.Outcome(waiting, "REJECTED"))
}

// A run of all coupons leads to runs of single ones, each with its own digest. It is made only with the digest of its
// page.
func TestRun_IsOfOneCouponAndPinnedToItsPage(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id, date := lastNight(d, 2, 4)
	kim := visitor{t, "http://" + behindProxy(d).Console, "kim@example.com", "team-finance"}
	_, preview, _ := kim.ask(http.MethodGet, "/do/run?date="+date, nil)
	require.Contains(t, preview, "정산은 쿠폰마다 따로 실행합니다")
	require.Contains(t, preview, fmt.Sprintf(`href="/do/run?coupon=%d&amp;date=%s"`, id, date))
	require.NotContains(t, preview, `method="post" action="/do/run"`)
	for _, digest := range []string{"", digestOnPage.FindString(preview)} {
		_, _, _ = kim.ask(http.MethodPost, "/do/run",
			url.Values{"date": {date}, "reason": {"FIN-5"}, "digest": {digest}, "job": {strings.Repeat("j", 26)}})
		require.Empty(t, d.Issued(id))
	}
	_, preview, _ = kim.ask(http.MethodGet, fmt.Sprintf("/do/run?coupon=%d&date=%s", id, date), nil)
	d.SetStatus("BLOCKED", 1)
	_, done, _ := kim.ask(http.MethodPost, "/do/run", fill(preview, "FIN-5"))
	require.Contains(t, done, "HELD")
	require.Empty(t, d.Issued(id), "another winner than the page showed")
}

// A marketer creates a coupon with the approval of finance, another one like it without, and changes it. Nobody needs a
// shell, and the marketer sees no person.
func TestStory_OfACampaign(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.Exec("INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, "+
		"runs_after, events_after) VALUES (JSON_ARRAY('create:1000000'), JSON_ARRAY(?), '[]', 'Asia/Seoul', "+
		"UTC_TIMESTAMP(6), 'park', '', 'SEC-4', 0, 0)", consoleAccount(d))
	site := "http://" + behindProxy(d).Console
	han, lee := visitor{t, site, "han", "team-marketing"}, visitor{t, site, "lee", "team-finance"}
	_, coupons, _ := han.ask(http.MethodGet, "/coupons", nil)
	require.Contains(t, coupons, `href="/do/create"`)
	opens := d.Now().Add(48 * time.Hour).In(time.FixedZone("KST", 9*3600)).Truncate(time.Minute)
	create := func(more url.Values) string {
		v := url.Values{"opens": {opens.Format("2006-01-02T15:04")}, "cadence": {"immediate"},
			"closes": {opens.Add(10 * time.Hour).Format("2006-01-02T15:04")}, "validity-days": {"30"}}
		for name, value := range more {
			v[name] = value
		}
		return "/do/create?" + v.Encode()
	}
	_, form, _ := han.ask(http.MethodGet, "/do/create", nil)
	require.Contains(t, form, `value="30"`)
	status, wrong, _ := han.ask(http.MethodGet, create(url.Values{"name": {"반값"}, "seats": {"10"},
		"discount-percent": {"50"}}), nil)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, wrong, "--discount-max-won은 함께")
	path := create(url.Values{"name": {"11월 선착순"}, "seats": {"1000"}, "discount-won": {"10000"}})
	_, preview, _ := han.ask(http.MethodGet, path, nil)
	require.Contains(t, preview, "선착순 1,000명에게 쿠폰 &#39;11월 선착순&#39;을(를) 즉시 발급합니다(할인: 10000원)")
	require.Contains(t, preview, "10,000,000원")
	require.Contains(t, preview, "승인 요청", "it costs more than a million")
	_, asked, _ := han.ask(http.MethodPost, "/do/create", fill(preview, "MKT-7"))
	require.Contains(t, asked, "승인 요청 1번")
	require.Zero(t, d.Number("SELECT COUNT(*) FROM coupon"))
	require.Contains(t, asked, "11월 선착순", "finance sees what it approves")

	_, request, _ := lee.ask(http.MethodGet, "/approvals/1", nil)
	require.Contains(t, request, "11월 선착순")
	decide := func(v visitor, decision string) string {
		_, page, _ := v.ask(http.MethodPost, "/approvals/1/"+decision, url.Values{"reason": {"FIN-7"},
			"digest": {digestOnPage.FindString(request)}, "job": {fmt.Sprintf("%026d", time.Now().UnixNano())}})
		return page
	}
	require.Contains(t, decide(lee, "approve"), "끝났습니다")
	require.Contains(t, decide(han, "use"), "끝났습니다")
	var id coupon.CouponID
	require.NoError(t, d.DB.QueryRow("SELECT id FROM coupon WHERE name = '11월 선착순' AND total_quantity = 1000 AND "+
		"discount_won = 10000 AND cadence = 'IMMEDIATE' AND apply_opens_at = ?", opens.UTC()).Scan(&id))

	d.Exec("INSERT INTO approval (action, coupon_id, user_id, plan, digest, reason, maker, maker_sign_in, maker_account, " +
		"created_at, expires_at) VALUES ('grant', 1, 7, '{\"action\":\"grant\",\"user\":7}', 'sha256:x', 'CS-9: Hong', " +
		"'han', '', 'jajeong_han@%', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 DAY)")
	_, own, _ := han.ask(http.MethodGet, "/approvals", nil)
	require.Contains(t, own, "MKT-7")
	require.NotContains(t, own, "CS-9", "somebody of the same name at a terminal is another person")
	d.Exec("DELETE FROM approval WHERE user_id = 7")
	_, page, _ := han.ask(http.MethodGet, fmt.Sprint("/coupons/", id), nil)
	another := regexp.MustCompile(`href="(/do/create[^"]*)"`).FindStringSubmatch(page)
	require.NotNil(t, another)
	_, form, _ = han.ask(http.MethodGet, html.UnescapeString(another[1]), nil)
	for _, value := range []string{"11월 선착순", "1000", "10000"} {
		require.Contains(t, form, `value="`+value+`"`)
	}
	_, preview, _ = han.ask(http.MethodGet, create(url.Values{"name": {"작은 쿠폰"}, "seats": {"10"}}), nil)
	require.NotContains(t, preview, "승인 요청")
	sent := fill(preview, "MKT-8")
	for range 2 { // the second one finds the job
		_, done, _ := han.ask(http.MethodPost, "/do/create", sent)
		require.Contains(t, done, "끝났습니다")
	}
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM coupon WHERE name = '작은 쿠폰'"))
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM coupon WHERE client_key = ?", "console-"+sent.Get("job")))
	id = coupon.CouponID(d.Number("SELECT id FROM coupon WHERE name = '작은 쿠폰'"))
	_, preview, _ = han.ask(http.MethodGet, fmt.Sprintf("/do/cadence?coupon=%d&cadence=nightly", id), nil)
	_, done, _ := han.ask(http.MethodPost, "/do/cadence", fill(preview, "MKT-9"))
	require.Contains(t, done, "끝났습니다")
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM coupon WHERE id = ? AND cadence = 'NIGHTLY'", id))

	_, page, _ = han.ask(http.MethodGet, fmt.Sprint("/coupons/", id), nil)
	change := regexp.MustCompile(`href="(/do/change[^"]*)"`).FindStringSubmatch(page)
	require.NotNil(t, change)
	address, err := url.Parse(html.UnescapeString(change[1]))
	require.NoError(t, err)
	values := address.Query()
	status, form, _ = han.ask(http.MethodGet, address.String(), nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, form, `value="`+opens.Format("2006-01-02T15:04:05")+`"`)
	require.Contains(t, form, "변경된 내용이 없습니다")
	values.Set("seats", "0")
	values.Set("closes", opens.Add(-time.Hour).Format("2006-01-02T15:04"))
	status, wrong, _ = han.ask(http.MethodGet, "/do/change?"+values.Encode(), nil)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	for _, field := range []string{"seats", "closes"} {
		require.Contains(t, wrong, `id="w-`+field+`"`, "the error stands beside its field")
		require.Contains(t, wrong, `aria-invalid="true" aria-describedby="w-`+field+`"`)
	}
	require.Equal(t, 1, strings.Count(wrong, "수량을 0장으로"), "and nowhere else")
	values.Set("seats", "20")
	values.Set("closes", opens.Add(9*time.Hour).Format("2006-01-02T15:04"))
	_, preview, _ = han.ask(http.MethodGet, "/do/change?"+values.Encode(), nil)
	_, done, _ = han.ask(http.MethodPost, "/do/change", fill(preview, "MKT-10"))
	require.Contains(t, done, "끝났습니다")
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM coupon WHERE id = ? AND total_quantity = 20 AND "+
		"apply_closes_at = ?", id, opens.Add(9*time.Hour).UTC()))
	d.Verify()
}
