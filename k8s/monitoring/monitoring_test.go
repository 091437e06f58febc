// Package monitoring_test tests the dashboards, rules and playbooks with the built programs, a real Prometheus and a
// real Pushgateway.
package monitoring_test

import (
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
)

var rulesTests = []string{"rules_test.yaml", "rules_days_test.yaml"}

// Without a label `namespace`, all metrics are of one deployment. TestRules_KnowDeploymentsApart has the tests of days
// as well, which take long.
func TestRules(t *testing.T) {
	t.Parallel()
	output, err := prometheus.Promtool(t, "check", "rules", "rules.yaml").CombinedOutput()
	require.NoError(t, err, "%s", output)
	readRuleTests(t, "rules_test.yaml").run(t)
}

// In the tests of the rules every alert fires at one time and does not fire at another.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	rules := testenv.Content(t, "rules.yaml")
	var tests string
	for _, file := range rulesTests {
		text := testenv.Content(t, file)
		tests += string(text)
	}
	for _, alert := range distinct(`(?m)^ *- alert: (\w+)$`, string(rules)) {
		require.Regexp(t, `alertname: `+alert+`\n +exp_alerts:`, tests, "never fires")
		require.Regexp(t, `alertname: `+alert+`\n( +- eval_time|\n|$)`, tests, "always fires")
	}
}

func TestKustomization_HasAllRulesAndDashboards(t *testing.T) {
	t.Parallel()
	kustomization := testenv.Content(t, "kustomization.yaml")
	dashboards, err := filepath.Glob("dashboards/*.json")
	require.NoError(t, err)
	var named []string
	for _, list := range matches(`(?m)^    files: \[(.*)\]$`, string(kustomization)) {
		named = append(named, strings.Split(list, ", ")...)
	}
	require.ElementsMatch(t, append(dashboards, "rules.yaml"), named)
}

// The coupons of the test applications. Nobody can issue lockedID.
const couponID, immediateID, lockedID coupon.CouponID = 42, 43, 44

// Queries name existing metrics and labels only, and all metrics are documented.
func TestMetricsAndQueries(t *testing.T) {
	t.Parallel()
	d := deploy(t, couponID, immediateID, lockedID)
	d.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id IN (?, ?)", immediateID, lockedID)
	d.AddUsers(1, 2)
	for user := range coupon.UserID(3) {
		d.apply(couponID, user+1) // user 3 is unknown and goes to the DLQ
	}
	require.Equal(t, http.StatusOK, d.ask(http.MethodGet, couponID, 1, "/me"))
	d.shell("settle run --cutoff now --operator kim --reason test --push-gateway http://" + d.gateway)
	d.shell("settle run --push-gateway http://" + d.gateway)
	d.apply(couponID, 4)
	d.apply(immediateID, 1)
	testenv.Eventually(t, "an immediate coupon is issued", func() bool { return len(d.Issued(immediateID)) == 1 })
	d.redeem(http.MethodPut, "A-1", "")
	d.redeem(http.MethodPost, "A-1", "/confirm")
	d.redeem(http.MethodPost, "A-1", "/refund")
	d.redeem(http.MethodPut, "A-2", "")
	d.redeem(http.MethodDelete, "A-2", "")
	d.Exec(`INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at) VALUES (45, 'forgotten', 1,
		UTC_TIMESTAMP(6) - INTERVAL 41 DAY, UTC_TIMESTAMP(6) - INTERVAL 40 DAY)`)
	d.shell("settle verify --push-gateway http://" + d.gateway)
	d.shell("settle purge --after-days 31 --yes --push-gateway http://" + d.gateway)
	d.Lock(lockedID)
	d.apply(lockedID, 1)       // has a lag from now on
	d.AddPromises(lockedID, 1) // nobody can restore it
	d.Exec("INSERT INTO journal (coupon_id, unfound) VALUES (?, 1) ON DUPLICATE KEY UPDATE unfound = 1", couponID)

	t.Run("Metrics", d.testMetrics)
	t.Run("Queries", d.testQueries)
}

// testMetrics compares docs/metrics.md with the metrics of each program.
func (d *deployment) testMetrics(t *testing.T) {
	text := testenv.Content(t, "../../docs/metrics.md")
	sections := strings.Split(string(text), "\n## ")
	require.Len(t, sections, 12)
	documented := func(which ...int) (names []string) {
		for _, i := range which {
			names = append(names, distinct("(?m)^\\| `(jajeong_\\w+)`", sections[i])...)
		}
		slices.Sort(names)
		return names
	}
	ofWallet := slices.DeleteFunc(documented(1, 3, 8), func(name string) bool {
		return !strings.HasPrefix(name, "jajeong_wallet_") &&
			!slices.Contains([]string{"jajeong_connections_open", "jajeong_identity_refused_total",
				"jajeong_mysql_durability_findings",
				"jajeong_pool_connections", "jajeong_pool_waits_total", "jajeong_pool_wait_seconds_total"}, name)
	})
	ofConsole := append(documented(11), slices.DeleteFunc(documented(3), func(name string) bool {
		return !strings.HasPrefix(name, "jajeong_pool_") && !strings.HasPrefix(name, "jajeong_redis_")
	})...)
	slices.Sort(ofConsole)
	for addr, want := range map[string][]string{
		d.api.Admin: documented(1, 2, 3), d.wallet.Admin: ofWallet, d.serve.Admin: documented(3, 4, 5, 9, 10),
		d.gateway: documented(5, 6, 7), d.console.Admin: ofConsole,
	} {
		testenv.Eventually(t, "all documented metrics exist", func() bool { // the first nightly run may not have ended
			got := distinct(`(?m)^# TYPE (jajeong_\w+) `, d.exposed(addr))
			return len(got) >= len(want)
		})
		require.Equal(t, want, distinct(`(?m)^# TYPE (jajeong_\w+) `, d.exposed(addr)), addr)
	}
}

func (d *deployment) testQueries(t *testing.T) {
	queries := dashboardQueries(t, namespace)
	for _, r := range d.rules() {
		queries = append(queries, query{where: r.Name, expr: r.Query})
	}
	require.Greater(t, len(queries), 110)
	for _, q := range queries {
		// The query may need two more scrapes and evaluations.
		var problem error
		testenv.Eventually(t, q.where, func() bool {
			d.ask(http.MethodPost, couponID, 4, "") // increases a counter
			d.redeem(http.MethodPut, "A-3", "")
			d.redeem(http.MethodDelete, "A-3", "")
			d.redeem(http.MethodPost, "A-9", "/confirm") // a refusal
			last := problem
			problem = d.problem(q)
			if problem != nil && (last == nil || problem.Error() != last.Error()) {
				t.Log(problem)
			}
			return problem == nil
		})
	}
	for _, r := range d.rules() {
		require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
	}

	// The checks find wrong queries.
	for _, q := range []query{
		{expr: "jajeong_run_gapp_applications"},
		{expr: "max(jajeong_run_gap_applications) or max(jajeong_run_gapp_applications)", shown: true},
		{expr: `jajeong_run_status{statuz="HELD"}`},
		{expr: `sum(jajeong_apply_requests_total{result=~"ACCEPTED|ACCEPTD"})`},
		{expr: "sum by (coupn_id) (jajeong_dlq_length)"},
		{expr: "jajeong_dlq_length", labels: []string{"coupon"}},
		{expr: "jajeong_dlq_length > 1e9", shown: true},
		{expr: "sum(jajeong_dlq_length"},
		{expr: "vector(1)"},
	} {
		require.Error(t, d.problem(q), q.expr)
	}
}

// Every alert has a playbook, whose title names it. A playbook may serve several alerts. The test runs each command of
// the playbooks once.
func TestPlaybooks(t *testing.T) {
	t.Parallel()
	const folder = "../../docs/playbooks/"
	files, err := filepath.Glob(folder + "*.md")
	require.NoError(t, err)
	coupons := make([]coupon.CouponID, len(files))
	for i := range coupons {
		coupons[i] = coupon.CouponID(100 + i)
	}
	d := deploySettle(t, coupons...)

	leads := map[string]string{} // from the name of an alert to the file of its playbook
	for _, a := range alerts(t) {
		page, is := strings.CutPrefix(a.Annotations["runbook_url"],
			"https://github.com/jajeong/jajeong/blob/main/docs/playbooks/")
		require.True(t, is, a.Name)
		leads[a.Name] = page
		require.NotEmpty(t, a.Annotations["summary"], a.Name)
		require.NotEmpty(t, a.Annotations["description"], a.Name)
		require.Contains(t, []string{"page", "ticket"}, a.Labels["severity"], a.Name)
	}
	titles := map[string]string{}
	for _, file := range files {
		text := testenv.Content(t, file)
		title := regexp.MustCompile(`^# (Jajeong\w+(?:, Jajeong\w+)*): `).FindSubmatch(text)
		require.NotNil(t, title, file)
		for _, name := range strings.Split(string(title[1]), ", ") {
			titles[name] = path.Base(file)
		}
	}
	require.Equal(t, titles, leads)

	// The DLQ of each coupon has user 5, who exists at the retry, and the unknown users 6 and 7.
	for _, id := range coupons {
		for _, user := range []string{"5", "6", "7"} {
			d.ApplyAt(id, user, time.Now().Add(-48*time.Hour))
		}
	}
	d.shell("settle run")
	d.AddUsers(5)
	run := fmt.Sprint(d.Number("SELECT MAX(id) FROM settlement_run"))
	today := time.Now().In(jajeongtest.Zone)

	ran := map[string]bool{}
	for i, file := range files {
		text := testenv.Content(t, file)
		require.Regexp(t, `(?m)^> .*[가-힣]`, string(text), "a paragraph in Korean")
		commands := matches(`(?m)^ {4,}(settle .*)$`, string(text))
		require.NotEmpty(t, commands, file)
		for _, command := range commands {
			command = jajeongtest.DatedFor(today, strings.NewReplacer("pushgateway:9091", d.gateway, "RUN",
				run).Replace(command))
			command = regexp.MustCompile(`\b42\b`).ReplaceAllString(command, coupons[i].String())
			if !ran[command] {
				ran[command] = true
				d.shell(command)
			}
		}
	}
	d.shell("settle verify")
}

// matches returns the first group of each match.
func matches(pattern, text string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// distinct returns them sorted and without duplicates.
func distinct(pattern, text string) []string {
	found := matches(pattern, text)
	slices.Sort(found)
	return slices.Compact(found)
}
