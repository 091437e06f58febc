package monitoring_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// query is a query of a dashboard or a rule.
type query struct {
	where, expr string
	labels      []string // required in the result
	shown       bool     // the panel must show a value in this test
}

// dashboardQueries returns the queries of all panels, with values for the variables of Grafana.
func dashboardQueries(t *testing.T, namespace string) (all []query) {
	t.Helper()
	files, err := filepath.Glob("dashboards/*.json")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		text := testenv.Content(t, file)
		var dashboard struct {
			Title      string
			Templating struct {
				List []struct{ Name, Query string }
			}
			Panels []struct {
				Title, Type, Description string
				Targets                  []struct{ Expr, LegendFormat string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &dashboard))
		variables := dashboard.Templating.List
		require.Len(t, variables, 2)
		require.Equal(t, "datasource", variables[0].Name)
		require.Equal(t, "namespace", variables[1].Name)
		require.Regexp(t, `^label_values\(jajeong_\w+_in_flight, namespace\)$`, variables[1].Query, "every deployment")
		fill := strings.NewReplacer("$__rate_interval", "1m", "$namespace", namespace)
		for _, panel := range dashboard.Panels {
			require.Equal(t, panel.Type != "row", len(panel.Targets) > 0 && panel.Description != "", "%s: %s", file,
				panel.Title)
			for _, target := range panel.Targets {
				q := query{where: dashboard.Title + ", " + panel.Title, expr: fill.Replace(target.Expr), shown: true}
				for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat,
					-1) {
					q.labels = append(q.labels, label[1])
				}
				all = append(all, q)
			}
		}
	}
	return all
}

// selection has the metrics and matchers of a query, and the labels by which it groups or joins.
type selection struct {
	selectors []string // such as jajeong_run_status{status="HELD"}
	labels    []string
}

var (
	groupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selectors = regexp.MustCompile(`([a-zA-Z_:][\w:]*)(\{[^}]*\})?(\s*\()?`)
	durations = regexp.MustCompile(`\[[^]]*\]|\boffset\s+\w+`)
	keywords  = []string{"and", "or", "unless", "bool", "by"}
	choices   = regexp.MustCompile(`(\w+)=~"([\w|]+)"`)
)

// selects parses a query that Prometheus has accepted. It returns a selector for each value of a matcher.
func selects(expr string) (s selection) {
	for _, grouping := range groupings.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(grouping[1], ",") {
			if label = strings.TrimSpace(label); label != "" { // on ()
				s.labels = append(s.labels, label)
			}
		}
	}
	expr = durations.ReplaceAllString(groupings.ReplaceAllString(expr, " "), " ")
	for _, found := range selectors.FindAllStringSubmatch(expr, -1) {
		name, matchers, call := found[1], found[2], found[3]
		if call != "" || slices.Contains(keywords, name) {
			continue
		}
		choice := choices.FindStringSubmatch(matchers)
		if choice == nil {
			s.selectors = append(s.selectors, name+matchers)
			continue
		}
		for value := range strings.SplitSeq(choice[2], "|") {
			s.selectors = append(s.selectors, name+strings.Replace(matchers, choice[0], choice[1]+`="`+value+`"`, 1))
		}
	}
	return s
}

// Each metric of each panel is that of the chosen deployment.
func TestDashboards_ShowOneDeployment(t *testing.T) {
	t.Parallel()
	for _, q := range dashboardQueries(t, "shop") {
		for _, selector := range selects(q.expr).selectors {
			require.Contains(t, selector, `{namespace="shop"`, "%s: %s", q.where, q.expr)
		}
	}
}

func TestSelects(t *testing.T) {
	t.Parallel()
	s := selects(
		`time() - min by (coupon_id, instance) (jajeong_x{a="1"}) > 24 * 60 * 60 and on (le) sum(rate(jajeong:y_total{r=~"A|B"}[5m] offset 1h)) or vector(0)`)
	require.Equal(t, selection{
		selectors: []string{`jajeong_x{a="1"}`, `jajeong:y_total{r="A"}`, `jajeong:y_total{r="B"}`},
		labels:    []string{"coupon_id", "instance", "le"},
	}, s)
}

// problem returns the error of a query on this deployment, or nil.
func (d *deployment) problem(q query) error {
	var answer struct{ Result []json.RawMessage }
	if err := d.promAPI("/api/v1/query", url.Values{"query": {q.expr}}, &answer); err != nil {
		return err
	}
	if q.shown && len(answer.Result) == 0 {
		return fmt.Errorf("%q shows nothing", q.expr)
	}
	s := selects(q.expr)
	if len(s.selectors) == 0 {
		return fmt.Errorf("%q reads no metric", q.expr)
	}
	have := map[string]bool{}
	for _, selector := range s.selectors {
		var series []map[string]string
		if err := d.promAPI("/api/v1/series", url.Values{"match[]": {selector}}, &series); err != nil {
			return err
		}
		if len(series) == 0 {
			return fmt.Errorf("%q reads %s, which does not exist", q.expr, selector)
		}
		for _, labels := range series {
			for label := range labels {
				have[label] = true
			}
		}
	}
	for _, label := range append(s.labels, q.labels...) {
		if !have[label] {
			return fmt.Errorf("%q wants the label %s, which none of its metrics has", q.expr, label)
		}
	}
	return nil
}
