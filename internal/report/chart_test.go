package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevelsOfAChart(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]string{
		1: "0 1", 4: "0 1 2 3 4", 5: "0 1 2 3 4 5", 6: "0 2 4 6", 7: "0 2 4 6 8", 11: "0 5 10 15", 26: "0 10 20 30", 99: "0 20 40 60 80 100",
		101: "0 50 100 150", 12_345: "0 5,000 10,000 15,000", 1_000_000: "0 200,000 400,000 600,000 800,000 1,000,000",
	} {
		var got []string
		for _, tick := range levelsUpTo(most) {
			got = append(got, tick.Label)
		}
		require.Equal(t, want, strings.Join(got, " "), most)
	}
}
