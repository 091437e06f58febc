package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "draw the chart in docs again from the tables there")

// credulous grants everything to everybody.
func credulous(context.Context, want) (answer, error) { return granted, nil }

// exact grants a coupon to the first order that asks.
func exact() step {
	var mu sync.Mutex
	owners := map[issued]string{}
	return func(_ context.Context, w want) (answer, error) {
		mu.Lock()
		defer mu.Unlock()
		key := issued{w.coupon, w.user}
		if owners[key] == "" {
			owners[key] = w.order
		}
		if owners[key] != w.order {
			return refused, nil
		}
		return granted, nil
	}
}

func TestReferee_CountsCouponsUsedTwice(t *testing.T) {
	t.Parallel()
	r := newReferee()
	for _, w := range []want{{1, 1, "A"}, {1, 1, "B"}, {1, 1, "C"}, {1, 2, "D"}, {1, 2, "D"}, {2, 1, "E"}} {
		r.note(w)
	}
	used, twice := r.count()
	require.Equal(t, 3, used)
	require.Equal(t, 1, twice)
}

func TestScenes_CountContenderThatUsesTwice(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	close(stopped)
	for _, c := range []struct {
		steps             []step
		hotTwice, stopped int
	}{{[]step{credulous, credulous}, 3, 4}, {[]step{exact(), credulous}, 0, 0}} {
		r := askDistinct(t.Context(), c.steps, 1, 50, 4)
		require.Equal(t, []int{50, 50, 0, 0}, []int{len(r.latencies), r.used, r.twice, r.errors})
		r = askHot(t.Context(), c.steps, 2, 3, 8)
		require.Equal(t, []int{24, 3, c.hotTwice, 0}, []int{len(r.latencies), r.used, r.twice, r.errors})
		r = askPaused(t.Context(), c.steps, c.steps, 3, 4, stopped)
		require.Equal(t, []int{8, 4, c.stopped, 0}, []int{len(r.latencies), r.used, r.twice, r.errors})
	}
}

func TestScenes_StepThatWasNotGrantedUsesNothing(t *testing.T) {
	t.Parallel()
	lost := func(context.Context, want) (answer, error) { return refused, nil }
	away := errors.New("away")
	fails := func(context.Context, want) (answer, error) { return granted, away }
	r := askDistinct(t.Context(), []step{credulous, lost}, 1, 5, 2)
	require.Equal(t, []int{0, 0}, []int{r.used, r.errors})
	r = askDistinct(t.Context(), []step{credulous, fails}, 1, 5, 2)
	require.Equal(t, []int{0, 5}, []int{r.used, r.errors})
	require.ErrorIs(t, r.failure, away)
}

func TestScenes_ClientTriesAgainWhenBusy(t *testing.T) {
	t.Parallel()
	calls := 0
	later := func(context.Context, want) (answer, error) {
		if calls++; calls < 3 {
			return busy, nil
		}
		return granted, nil
	}
	r := askDistinct(t.Context(), []step{later}, 1, 1, 1)
	require.Equal(t, []int{1, 2}, []int{r.used, r.busy})
}

func TestWrites(t *testing.T) {
	t.Parallel()
	const query = "\x10\x00\x00\x00\x03"
	for text, want := range map[string]bool{
		query + "UPDATE user_coupon SET": true, query + "\nINSERT INTO coupon_order": true,
		query + "SELECT 1": false, query + "START TRANSACTION": false, "\x01\x00\x00\x00\x01": false, "": false,
	} {
		require.Equal(t, want, writes([]byte(text)), text)
	}
}

func TestChartInDocsShowsItsTables(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../docs/bench-redeem.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+) \| \d+ to \d+ \|`)
	scene := distinct
	var all []measured
	for _, cells := range row.FindAllStringSubmatch(string(table), -1) {
		rate, err := strconv.ParseFloat(cells[2], 64)
		require.NoError(t, err)
		if len(all) == len(contenders) {
			scene = hot
		}
		all = append(all, measured{scene: scene, contender: cells[1], rate: rate})
	}
	require.Len(t, all, 2*len(contenders))
	drawn := drawChart(all)
	if *update {
		require.NoError(t, os.WriteFile("../../docs/bench-redeem.svg", []byte(drawn), 0o644))
	}
	kept, err := os.ReadFile("../../docs/bench-redeem.svg")
	require.NoError(t, err)
	require.Equal(t, string(kept), drawn, "draw it with -update")
}

func TestSummarise_TakesMediansAndSums(t *testing.T) {
	t.Parallel()
	of := func(took, latency time.Duration, twice int) result {
		return result{took: took, latencies: []time.Duration{latency}, expected: 1, used: 1, twice: twice}
	}
	m := summarise(hot, "x", []result{of(time.Second, 3, 1), of(2*time.Second, 1, 0), of(4*time.Second, 2, 1)})
	require.Equal(t, []float64{0.5, 0.25, 1}, []float64{m.rate, m.least, m.most})
	require.EqualValues(t, 2, m.p99)
	require.Equal(t, []int{3, 3, 2}, []int{m.expected, m.used, m.twice})
}
