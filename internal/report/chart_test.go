package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/output"
)

func TestLevelsOfAChart(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]string{
		1: "0 1", 4: "0 1 2 3 4", 5: "0 1 2 3 4 5", 6: "0 2 4 6", 7: "0 2 4 6 8", 11: "0 5 10 15", 26: "0 10 20 30",
		99:  "0 20 40 60 80 100",
		101: "0 50 100 150", 12_345: "0 5,000 10,000 15,000", 1_000_000: "0 200,000 400,000 600,000 800,000 1,000,000",
	} {
		var got []string
		for _, tick := range levelsUpTo(most) {
			got = append(got, tick.Label)
		}
		require.Equal(t, want, strings.Join(got, " "), most)
	}
}

func TestTicksOfAChart(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	labels := func(bucket time.Duration, buckets int) (labels []string) {
		e := Edition{Report: &Report{Timeline: make([]int64, buckets)}, Period: Period{From: from, Bucket: bucket},
			Locale: output.Locale{Zone: time.UTC}}
		for _, tick := range e.ticks() {
			labels = append(labels, tick.Label)
		}
		return labels
	}
	require.Equal(t, strings.Fields("00:00 03:00 06:00 09:00 12:00 15:00 18:00 21:00 00:00"),
		labels(time.Minute, 24*60))
	require.Equal(t, strings.Fields("11-01 11-03 11-05"), labels(time.Hour, 5*24))
	require.Equal(t,
		strings.Fields("11-01 11-04 11-07 11-10 11-13 11-16 11-19 11-22 11-25 11-28 12-01 12-04 12-07 12-10"),
		labels(24*time.Hour, 40))
	require.LessOrEqual(t, len(labels(24*time.Hour, 366)), 21)
}
