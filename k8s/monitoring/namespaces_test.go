package monitoring_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
)

// ruleTests is a file for `promtool test rules`.
type ruleTests struct {
	RuleFiles          []string   `yaml:"rule_files"`
	EvaluationInterval string     `yaml:"evaluation_interval"`
	GroupEvalOrder     []string   `yaml:"group_eval_order,omitempty"`
	Tests              []ruleTest `yaml:"tests"`
}

type ruleTest struct {
	Name     string      `yaml:"name"`
	Interval string      `yaml:"interval"`
	Series   []series    `yaml:"input_series"`
	Alerts   []alertTest `yaml:"alert_rule_test"`
}

type series struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertTest struct {
	EvalTime string     `yaml:"eval_time"`
	Name     string     `yaml:"alertname"`
	Expected []expected `yaml:"exp_alerts,omitempty"`
}

type expected struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// well are the metrics of a deployment in which no alert fires: the value at the start, and what is added in each
// second.
var well = map[string]struct{ start, eachSecond float64 }{
	`jajeong_settlement_due_timestamp_seconds{instance="w"}`:                         {3600, 1},
	`jajeong_run_last_success_timestamp_seconds{trigger="CRON"}`:                     {0, 1},
	`jajeong_run_gap_applications{trigger="CRON"}`:                                   {0, 0},
	`jajeong_promises_missing{instance="w",coupon_id="42"}`:                          {0, 0},
	`jajeong_dlq_length{instance="w",coupon_id="42"}`:                                {0, 0},
	`jajeong_dlq_oldest_timestamp_seconds{instance="w",coupon_id="42"}`:              {0, 1},
	`jajeong_queue_least_ttl_seconds{instance="w"}`:                                  {1e6, 0},
	`jajeong_redis_eviction_policy_wrong{job="apply-api",instance="w"}`:              {0, 0},
	`jajeong_redis_memory_used_ratio{instance="w"}`:                                  {0.1, 0},
	`jajeong_redis_not_saving{instance="w",file="snapshot"}`:                         {0, 0},
	`jajeong_redis_not_saving{instance="w",file="append_only"}`:                      {0, 0},
	`jajeong_locked_coupons{instance="w",task="issue"}`:                              {0, 0},
	`jajeong_mysql_durability_findings{instance="w",code="DURABILITY_WEAK"}`:         {0, 0},
	`jajeong_locked_coupons{instance="w",task="restore"}`:                            {0, 0},
	`jajeong_promises_unknown{instance="w",coupon_id="42"}`:                          {0, 0},
	`jajeong_promises_handed_over_total{instance="w"}`:                               {0, 0},
	`jajeong_journal_age_seconds{job="apply-api",instance="w"}`:                      {0, 0},
	`jajeong_promises_not_remembered_total{instance="w"}`:                            {0, 0},
	`jajeong_verify_findings{job="settle-verify"}`:                                   {0, 0},
	`jajeong_verify_last_success_timestamp_seconds{job="settle-verify"}`:             {0, 1},
	`jajeong_coupon_kept_open_timestamp_seconds{job="settle-tables",coupon_id="42"}`: {0, 1},
	`jajeong_purge_last_success_timestamp_seconds{job="settle-purge"}`:               {0, 1},
	`jajeong_purge_left_coupons{job="settle-purge",why="IN_REDIS"}`:                  {0, 0},
	`jajeong_table_oldest_timestamp_seconds{job="settle-tables",table="coupon_log"}`: {0, 1},
	`jajeong_apply_in_flight{job="apply-api",instance="w"}`:                          {0, 0},
	`jajeong_apply_in_flight_limit{job="apply-api",instance="w"}`:                    {1000, 0},
	`jajeong_coupons_open{instance="w",cadence="IMMEDIATE"}`:                         {1, 0},
	`jajeong_issue_interval_seconds{instance="w"}`:                                   {3600, 0},
	`jajeong_issue_lag_seconds{instance="w",coupon_id="42"}`:                         {0, 0},
	`jajeong_issue_looked_at_timestamp_seconds{instance="w"}`:                        {0, 1},
	`jajeong_issue_runs_total{instance="w",status="HELD"}`:                           {0, 0},
	`jajeong_issue_runs_total{instance="w",status="FAILED"}`:                         {0, 0},
	`jajeong_apply_requests_total{instance="w",result="ACCEPTED"}`:                   {0, 1000},
	`jajeong_apply_requests_total{instance="w",result="UNAVAILABLE"}`:                {0, 0},
	`jajeong_apply_duration_seconds_bucket{instance="w",le="0.256"}`:                 {0, 1000},
	`jajeong_apply_duration_seconds_count{instance="w"}`:                             {0, 1000},
	`jajeong_live_streams{instance="w"}`:                                             {1, 0},
	`jajeong_live_streams_limit{instance="w"}`:                                       {1000, 0},
	`jajeong_live_refused_total{instance="w",reason="streams"}`:                      {0, 0},
	`jajeong_live_looks_total{instance="w",result="failed"}`:                         {0, 0},
	`jajeong_live_looks_total{instance="w",result="answered"}`:                       {0, 1000},
	`jajeong_pool_wait_seconds_total{instance="w",server="redis"}`:                   {0, 0},
	`jajeong_catalog_age_seconds{instance="w"}`:                                      {5, 0},
	`jajeong_apply_refused_total{instance="w",reason="crowded"}`:                     {0, 0},
	`jajeong_wallet_requests_total{instance="w",call="reserve",result="DONE"}`:       {0, 1000},
	`jajeong_wallet_requests_total{instance="w",call="reserve",result="INTERNAL"}`:   {0, 0},
	`jajeong_wallet_duration_seconds_bucket{instance="w",call="reserve",le="0.256"}`: {0, 1000},
	`jajeong_wallet_duration_seconds_count{instance="w",call="reserve"}`:             {0, 1000},
	`jajeong_wallet_service_keys_stale{instance="w"}`:                                {0, 0},
	`jajeong_wallet_in_flight{instance="w"}`:                                         {0, 0},
	`jajeong_events_lag_seconds{instance="w"}`:                                       {0, 0},
	`jajeong_events_may_be_lost{instance="w"}`:                                       {0, 0},
	`jajeong_events_published_total{instance="w"}`:                                   {0, 1},
	`jajeong_events_rounds_total{instance="w",result="failed"}`:                      {0, 0},
	`jajeong_events_rounds_total{instance="w",result="idle"}`:                        {0, 1},
	`jajeong_journal_lag_seconds{instance="w"}`:                                      {0, 0},
	`jajeong_admin_api_keys_stale{job="console",instance="w"}`:                       {0, 0},
}

// Beside a deployment that is well, each case of the tests of the rules has the same alerts, with the namespace of the
// deployment that fails.
func TestRules_KnowDeploymentsApart(t *testing.T) {
	t.Parallel()
	for _, file := range rulesTests {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			tests := readRuleTests(t, file)
			var doubled []ruleTest
			for _, test := range tests.Tests {
				if len(test.Series) > 0 { // else no deployment fails
					doubled = append(doubled, test.besideAnother(t))
				}
			}
			require.NotEmpty(t, doubled)
			tests.Tests = doubled
			tests.run(t)
		})
	}
}

// The deployment that is well has all metrics of the rules, and no alerts.
func TestRules_LeaveAHealthyDeploymentAlone(t *testing.T) {
	t.Parallel()
	var names string
	for selector := range well {
		names += selector + "\n"
	}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			for _, name := range reads(rule) {
				if !strings.HasPrefix(name, "jajeong:") {
					require.Contains(t, names, name+"{")
				}
			}
		}
	}
	tests := readRuleTests(t, "rules_days_test.yaml")
	healthy := ruleTest{Name: "all is well", Interval: "1m"}
	for _, alert := range alerts(t) {
		healthy.Alerts = append(healthy.Alerts, alertTest{EvalTime: "1h", Name: alert.Name},
			alertTest{EvalTime: "49h", Name: alert.Name})
	}
	tests.Tests = []ruleTest{healthy.besideAnother(t)}
	tests.run(t)
}

// ruleGroups is rules.yaml.
type ruleGroups struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string           `yaml:"name"`
	Rules []map[string]any `yaml:"rules"`
}

func readRules(t *testing.T) (g ruleGroups) {
	t.Helper()
	decode(t, "rules.yaml", &g)
	return g
}

func decode(t *testing.T, file string, to any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(testenv.Content(t, file)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(to))
}

// of returns the rules of the alerts of a test, and of the metrics that they read.
func (g ruleGroups) of(test ruleTest) (some ruleGroups) {
	wanted := map[any]bool{}
	for _, a := range test.Alerts {
		wanted[a.Name] = true
	}
	for _, group := range slices.Backward(g.Groups) { // what a group reads is recorded in it or before it
		var rules []map[string]any
		for _, rule := range slices.Backward(group.Rules) {
			if !wanted[rule["alert"]] && !wanted[rule["record"]] {
				continue
			}
			rules = append(rules, rule)
			for _, name := range reads(rule) {
				wanted[name] = true
			}
		}
		if slices.Reverse(rules); len(rules) > 0 {
			some.Groups = append(some.Groups, ruleGroup{group.Name, rules})
		}
	}
	slices.Reverse(some.Groups)
	return some
}

// reads returns the names of the metrics that a rule reads.
func reads(rule map[string]any) (names []string) {
	for _, selector := range selects(rule["expr"].(string)).selectors {
		name, _, _ := strings.Cut(selector, "{")
		names = append(names, name)
	}
	return names
}

func readRuleTests(t *testing.T, file string) (tests ruleTests) {
	t.Helper()
	decode(t, file, &tests)
	require.Equal(t, []string{"rules.yaml"}, tests.RuleFiles)
	return tests
}

// besideAnother is this test in the namespace fails, beside a deployment in the namespace well.
func (r ruleTest) besideAnother(t *testing.T) ruleTest {
	t.Helper()
	interval, err := time.ParseDuration(r.Interval)
	require.NoError(t, err)
	var last time.Duration
	alerts := r.Alerts
	r.Alerts = nil
	for _, a := range alerts {
		at, err := time.ParseDuration(a.EvalTime)
		require.NoError(t, err)
		last = max(last, at)
		for i := range a.Expected {
			a.Expected[i].Labels["namespace"] = "fails"
		}
		r.Alerts = append(r.Alerts, a)
	}
	for i := range r.Series {
		r.Series[i].Series = in("fails", r.Series[i].Series)
	}
	read := map[string]bool{}
	for _, group := range readRules(t).of(r).Groups {
		for _, rule := range group.Rules {
			for _, name := range reads(rule) {
				read[name] = true
			}
		}
	}
	for selector, value := range well {
		if name, _, _ := strings.Cut(selector, "{"); !read[name] {
			continue
		}
		values := fmt.Sprintf("%v+%vx%d", value.start, value.eachSecond*interval.Seconds(), last/interval+1)
		r.Series = append(r.Series, series{in("well", selector), values})
	}
	return r
}

// in adds the namespace to the labels of a series.
func in(namespace, selector string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(selector, "}"), "{")
	return strings.TrimSuffix(fmt.Sprintf("%s{namespace=%q,%s", name, namespace, labels), ",") + "}"
}

// run tests each case with the rules of its alerts alone, and those that record what they read. With all rules,
// promtool would evaluate each of them at every minute of every case.
func (r ruleTests) run(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content any) (path string) {
		text, err := yaml.Marshal(content)
		require.NoError(t, err)
		path = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	all, args := readRules(t), []string{"test", "rules"}
	for i, test := range r.Tests {
		one := r
		one.Tests, one.RuleFiles = []ruleTest{test}, []string{write(fmt.Sprintf("rules%d.yaml", i), all.of(test))}
		args = append(args, write(fmt.Sprintf("test%d.yaml", i), one))
	}
	output, err := prometheus.Promtool(t, args...).CombinedOutput()
	require.NoError(t, err, "%s", output)
}
