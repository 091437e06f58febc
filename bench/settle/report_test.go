package main

import (
	"flag"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "draw the charts in docs again from the tables there")

func TestChartsInDocsShowTheirTables(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \| [^|]+ \| (\d+) \| [\d.]+ \| [^|]+ \|$`)
	for _, family := range []string{"mariadb", "mysql"} {
		name := "../../docs/bench-settle-" + family
		table, err := os.ReadFile(name + ".md")
		require.NoError(t, err)
		version, rest, _ := strings.Cut(string(table), ", Redis ")
		rest, _, _ = strings.Cut(rest, "Many small coupons")
		var all []measured
		for _, cells := range row.FindAllStringSubmatch(rest, -1) {
			seats, err := strconv.Atoi(cells[1])
			require.NoError(t, err)
			rate, err := strconv.ParseFloat(cells[3], 64)
			require.NoError(t, err)
			all = append(all, measured{contender: cells[2], seats: seats, took: time.Duration(float64(seats) / rate * float64(time.Second))})
		}
		require.NotEmpty(t, all)
		drawn := drawChart(version, all)
		if *update {
			require.NoError(t, os.WriteFile(name+".svg", []byte(drawn), 0o644))
		}
		kept, err := os.ReadFile(name + ".svg")
		require.NoError(t, err)
		require.Equal(t, string(kept), drawn, "draw it with -update")
	}
}
