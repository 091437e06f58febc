package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// The first page has the figures of coupons that are not finalised, and says what is wrong.
func TestTonight_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	kim := visitor{t, "http://" + behindProxy(d).Console, "kim", "all"}
	status, page, _ := kim.ask(http.MethodGet, "/", nil)
	require.Equal(t, http.StatusOK, status)
	require.NotRegexp(t, "Redis|Error", page, "without a coupon, nothing is wrong")
	good, held := d.AddQueue(5, 1, 2, 3), d.AddQueue(5, 4)
	d.Exec("UPDATE coupon SET name = '잘되는 쿠폰' WHERE id = ?", good)
	d.MoveToReview(good, "3", coupon.Failure{Cause: coupon.CauseBadRow})
	d.AddPromises(held, 2) // lost
	d.Exec("UPDATE coupon SET apply_opens_at = apply_opens_at - INTERVAL 2 DAY, version = version + 1 WHERE id = ?",
		held)
	d.SettleAs(jajeongtest.Manual(held), coupon.Invariant)
	_, page, _ = kim.ask(http.MethodGet, "/", nil)
	require.Contains(t, page,
		fmt.Sprintf(
			`<tr><td><a href="/coupons/%d">%d</a></td><td>잘되는 쿠폰</td><td>신청 중</td><td class="n">5</td>`+
				`<td class="n">2</td><td class="n">1</td><td class="n">0</td>`, good, good))
	require.Contains(t, page, "접수한 신청 2건을 찾을 수 없습니다")
	require.NotContains(t, page, "/people/", "a viewer sees figures without persons")
	require.NotContains(t, page, "마감된 지")
	for _, days := range []int{29, 31} {
		ended := d.Now().AddDate(0, 0, -days)
		d.AddCouponBetween(5, ended.Add(-time.Hour), ended)
	}
	_, page, _ = kim.ask(http.MethodGet, "/", nil)
	require.Contains(t, page, "마감된 지 31일이 지났는데 종결되지 않았습니다")
	require.NotContains(t, page, "마감된 지 29일")

	for range 6 { // many others
		d.Exec("INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) SELECT name, 1, " +
			"apply_opens_at, apply_closes_at FROM coupon")
	}
	late := d.AddQueue(5, 5)
	d.AddPromises(late, 3) // lost
	_, page, _ = kim.ask(http.MethodGet, "/", nil)
	require.Contains(t, page, "접수한 신청 3건을 찾을 수 없습니다", "a coupon that misses applications comes first")
	require.Contains(t, page, fmt.Sprintf(`href="/coupons/%d"`, late))
}

// The next page keeps what was chosen.
func TestLists_KeepTheirFilters(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1)
	d.SettleNow(id)
	for range 6 { // 64 runs
		d.Exec(`INSERT INTO settlement_run (trigger_kind, cutoff, status, started_at, heartbeat_at, finished_at, nonce)
SELECT trigger_kind, cutoff, status, started_at, heartbeat_at, finished_at, HEX(UUID_SHORT()) FROM settlement_run`)
	}
	d.Exec("INSERT IGNORE INTO settlement (run_id, coupon_id, settled_at, cleaned_at) SELECT id, ?, finished_at, "+
		"finished_at FROM settlement_run", id)
	kim := visitor{t, "http://" + behindProxy(d).Console, "kim", "team-finance"}
	_, page, _ := kim.ask(http.MethodGet, fmt.Sprintf("/runs?coupon=%d&status=SUCCEEDED", id), nil)
	require.Regexp(t, fmt.Sprintf(`/runs\?before=\d+&amp;coupon=%d&amp;status=SUCCEEDED`, id), page)
}

// What Redis has lost is not known, whatever the journal has.
func TestTonight_AfterALossOfRedis(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	none, whole, lost, early := d.AddQueue(5, 1), d.AddQueue(5, 2), d.AddQueue(5, 3), d.AddQueue(5, 4)
	nobody := d.AddCoupon(5)
	d.Journal(whole, lost)
	d.LoseRedis(lost, early)
	ahead := d.AddCouponBetween(5, d.Now().Add(time.Hour), d.Now().Add(2*time.Hour))
	d.Exec("UPDATE coupon SET status = 'PAUSED' WHERE id = ?", ahead) // SCHEDULED coupons are not shown
	d.LoseRedis(ahead)
	_, page, _ := visitor{t, "http://" + behindProxy(d).Console, "kim", "all"}.ask(http.MethodGet, "/", nil)
	for id, want := range map[coupon.CouponID]string{none: "아직 없음", whole: "모두 있음", lost: "[?]", early: "[?]",
		nobody: "모두 있음", ahead: "모두 있음"} {
		require.Regexp(t, fmt.Sprintf(`<a href="/coupons/%d">.*<td>%s</td></tr>`, id, want), page)
	}
}

// unknown are the pages of a console without Redis, and how often each has a figure that is not known.
func unknown(settled, waiting coupon.CouponID) map[string]int {
	return map[string]int{
		// And its status.
		"/": 2 * 4, "/coupons": 2 * 2, fmt.Sprint("/coupons/", settled): 3, fmt.Sprint("/coupons/", waiting): 3,
		"/people/1": 0, "/people/11": 0, "/people/99": 0, fmt.Sprint("/people/11/coupons/", waiting): 0,
		fmt.Sprint("/people/99/coupons/", waiting): 0,
	}
}

// Without Redis every figure of it is "?", and nothing is said to be empty. Where nothing else is shown, the page is
// 503.
func TestPages_WithoutRedis(t *testing.T) {
	t.Parallel()
	d, settled, waiting := world(t)
	d.Journal(waiting)
	site := "http://" + d.Start(d.Environment(), "./cmd/settle", "console", "--listen=127.0.0.1:0",
		"--console-dev-user=kim", "--mysql-dsn="+d.Operator.MySQLDSN, "--redis-addrs=127.0.0.1:1").Console
	wrong := map[string][]string{
		"ko": {"아직 없음", "모두 있음", "뒤처짐</td>", "검토 중인 신청이 없습니다", ">고객 11의 기록이 없습니다", "신청하신 기록이 없습니다",
			"<th scope=\"row\">접수</th><td class=\"n\">"},
		"en": {"none yet</td>", ">complete<", " behind</td>", "no application is under review", "Nothing is stored",
			"has not applied", "<th scope=\"row\">accepted</th><td class=\"n\">"},
	}
	for lang, claims := range wrong {
		check := func(path string, want int) string {
			status, page := body(t, request(t, site+path, &http.Cookie{Name: "__Host-jajeong-language", Value: lang}))
			require.Equal(t, want, status, "%s: %s", path, page)
			require.Contains(t, page, "127.0.0.1:1", "%s names what is away", path)
			for _, claim := range claims {
				require.NotContains(t, page, claim, path)
			}
			return page
		}
		for path, figures := range unknown(settled, waiting) {
			require.Equal(t, figures, strings.Count(check(path, http.StatusOK), "<td>?</td>"), path)
		}
		require.Regexp(t, `SOLD_OUT (응답 여부|or not): [?]<`, check(fmt.Sprint("/coupons/", waiting), http.StatusOK), lang)
		month := d.Now().In(jajeongtest.Zone).Format("2006-01") // that of the coupons
		for _, path := range []string{"/dlq", fmt.Sprint("/dlq/", settled), "/dlq.csv", "/report?month=" + month,
			"/report.csv?month=" + month, fmt.Sprint("/do/retry?coupon=", settled),
			fmt.Sprintf("/do/run?date=2026-11-20&coupon=%d", waiting), fmt.Sprint("/do/restore?coupon=", waiting)} {
			page := check(path, http.StatusServiceUnavailable)
			if strings.Contains(path, ".csv") {
				require.Regexp(t, "서버에 연결할 수 없어|A server does not answer", page, path)
			}
		}
	}
}

// Without MySQL each page says that a server is away. A table that cannot be read is no outage of Redis.
func TestPages_WithoutMySQL(t *testing.T) {
	t.Parallel()
	d, id, _ := world(t)
	withoutMySQL := "http://" + d.Start(d.Environment(), "./cmd/settle", "console", "--listen=127.0.0.1:0",
		"--console-dev-user=kim",
		"--mysql-dsn=nobody:secret@tcp(127.0.0.1:1)/coupons", "--redis-addrs=127.0.0.1:1").Console
	for _, path := range []string{"/", "/coupons", fmt.Sprint("/coupons/", id), "/coupons/999",
		fmt.Sprintf("/coupons/%d/winners", id), fmt.Sprintf("/coupons/%d/winners.csv", id), "/runs", "/runs/1", "/dlq",
		"/people/1",
		"/approvals", "/approvals/1", "/policy", "/search?q=1", fmt.Sprint("/do/pause?coupon=", id)} {
		status, page := body(t, request(t, withoutMySQL+path))
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.NotContains(t, page, "secret", path)
		require.Contains(t, page, "127.0.0.1:1", "%s names the server", path)
	}
	choi := visitor{t, "http://" + behindProxy(d).Console, "choi", "team-ops"}
	d.Exec("RENAME TABLE journal TO another")
	status, page, _ := choi.ask(http.MethodGet, "/", nil)
	d.Exec("RENAME TABLE another TO journal")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotContains(t, page, "Redis")
}

// Changes of keys are on the first page of who may see lists, and changes of persons are recorded for others.
func TestTonight_HasTheJobsOfKeys(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(5)
	site := "http://" + behindProxy(d).Console
	d.Exec("INSERT INTO job (id, caller, verb, digest, state, began_at, at) VALUES " +
		"('RUNS', 'key:shop', 'coupon close', 'sha256:x', 'RUNNING', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)), " +
		"('DIED', 'key:shop', 'coupon pause', 'sha256:y', 'RUNNING', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 31 " +
		"SECOND), ('LEES', 'lee', 'coupon freeze', '', 'DONE', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))")
	for group, sees := range map[string]bool{"team-finance": true, "team-ops": true, "team-marketing": false} {
		somebody := visitor{t, site, "kim", group}
		_, page, _ := somebody.ask(http.MethodGet, "/", nil)
		require.Equal(t, sees, strings.Contains(page, "key:shop, coupon close"), group)
		require.NotContains(t, page, "coupon freeze")
		status, page, _ := somebody.ask(http.MethodGet, "/jobs/DIED", nil)
		require.Equal(t, map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[sees], status, group)
		require.Equal(t, sees, strings.Contains(page, "INTERRUPTED") && strings.Contains(page, "sha256:y"), page)
		for _, other := range []string{"NONE", "LEES"} {
			status, _, _ = somebody.ask(http.MethodGet, "/jobs/"+other, nil)
			require.Equal(t, http.StatusNotFound, status, other)
		}
	}
	lee := visitor{t, site, "lee", "team-marketing"} // whose process may have died since
	_, page, _ := lee.ask(http.MethodGet, "/", nil)
	require.Contains(t, page, "발급 동결")
	_, page, _ = lee.ask(http.MethodGet, "/jobs/LEES", nil)
	require.Contains(t, page, "coupon freeze")
	_, page, _ = visitor{t, site, "kim", "team-ops"}.askOnce(http.MethodGet, "/jobs/RUNS", nil)
	require.Contains(t, page, `http-equiv="refresh"`)

	kim := visitor{t, site, "kim", "team-ops"}
	kim.asks(fmt.Sprint("/do/pause?coupon=", id), "test")
	require.Equal(t, []string{"kim coupon pause DONE"}, jajeongtest.Column[string](d,
		"SELECT CONCAT_WS(' ', caller, verb, state) FROM job WHERE caller = 'kim'"))
}
