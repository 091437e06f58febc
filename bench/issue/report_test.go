package main

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "draw the chart in docs again from the table there")

func TestChartInDocsShowsItsTable(t *testing.T) {
	t.Parallel()
	const name = "../../docs/bench-issue"
	text, err := os.ReadFile(name + ".md")
	require.NoError(t, err)
	all := loadsOf(t, string(text))
	require.NotEmpty(t, all)
	drawn := drawChart(all)
	if *update {
		require.NoError(t, os.WriteFile(name+".svg", []byte(drawn), 0o644))
	}
	kept, err := os.ReadFile(name + ".svg")
	require.NoError(t, err)
	require.Equal(t, string(kept), drawn, "draw it with -update")
}

// loadsOf reads what the chart shows from the table of loads.
func loadsOf(t *testing.T, text string) (all []outcome) {
	t.Helper()
	_, table, found := strings.Cut(text, loadColumns)
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		title, every, _ := strings.Cut(cells[2], ", "+interval.String())
		i := slices.IndexFunc(contenders, func(c contender) bool { return c.title == title })
		if i < 0 {
			require.Contains(t, title, contenders[0].title+", ", "another interval of Jajeong")
			continue
		}
		require.Empty(t, every)
		o := outcome{contender: contenders[i], setup: setup{interval: interval}}
		var err error
		o.rate, err = strconv.ParseFloat(cells[0], 64)
		require.NoError(t, err)
		o.coupons, err = strconv.Atoi(cells[1])
		require.NoError(t, err)
		millis, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(cells[4], "≥ "), " ms"), 64)
		require.NoError(t, err)
		o.latency.P99 = time.Duration(millis * float64(time.Millisecond))
		all = append(all, o)
	}
	return all
}

// The figures of the table are those that were measured.
func TestRenderLoads(t *testing.T) {
	t.Parallel()
	jajeong, stream := contenders[0], contenders[1]
	at := func(c contender, p99 time.Duration, gaveUp bool) outcome {
		o := outcome{contender: c, gaveUp: gaveUp, growing: gaveUp, setup: setup{coupons: 1, interval: interval}}
		o.rate, o.latency = lowRate, quantiles{p99 / 2, p99, 2 * p99, 2 * p99}
		o.verdict = verdict{Inversions: 1, Overtaken: 2 * time.Millisecond, Oversold: 3, Twice: 4, Lost: 5}
		return o
	}
	all := []outcome{at(jajeong, 20*time.Millisecond, false), at(stream, 100*time.Millisecond, true)}
	text := renderLoads(all)
	require.Contains(t, text, "| 1000 | 1 | Jajeong, 100ms | 10 ms | 20 ms | 40 ms | 1.00 | 0 | steady | 0.0 ms | 0 | 1 | 2.0 ms | 3 | 4 | 5 |\n")
	require.Contains(t, text, "| ≥ 50 ms | ≥ 100 ms | ≥ 200 ms | ≥ 5.00 | 0 | grows: given up | 0.0 ms | 0 | 1 | 2.0 ms | 3 | 4 | – |\n")
	require.Equal(t, drawChart(all), drawChart(loadsOf(t, text)), "the table has what the chart needs")
}
