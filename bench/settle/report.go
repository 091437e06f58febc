package main

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/chart"
	"github.com/jajeong/jajeong/bench/process"
)

const yardstick = "LOAD DATA"

// renderTable renders rows per second, the ratio to the yardstick at the same size, and memory as Markdown.
func renderTable(s *stage, all []measured) string {
	base := map[int]float64{}
	for _, m := range all {
		if m.contender == yardstick {
			base[m.seats] = m.rowsPerSecond()
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, Redis %s, %d cores, %s.\n\n", s.Version, s.redisVersion, runtime.NumCPU(), time.Now().Format(time.DateOnly))
	if len(all) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "| seats | contender | time | rows/s | ratio to %s | peak memory |\n| ---: | --- | ---: | ---: | ---: | ---: |\n", yardstick)
	for _, m := range all {
		fmt.Fprintf(&b, "| %d | %s | %s | %.0f | %.2f | %s |\n", m.seats, m.contender, m.took.Round(time.Millisecond), m.rowsPerSecond(), m.rowsPerSecond()/base[m.seats], process.MiB(m.peak))
	}
	return b.String()
}

// drawChart draws rows per second over seats, as the table has them.
func drawChart(title string, all []measured) string {
	lines := make([]chart.Line, len(contenders))
	for i, c := range contenders {
		lines[i].Name = c.name
		for _, m := range all {
			if m.contender == c.name {
				lines[i].Points = append(lines[i].Points, chart.Point{X: float64(m.seats), Y: math.Round(m.rowsPerSecond())})
			}
		}
	}
	return chart.Lines("Rows per second over seats, "+title, "seats", "rows/s", lines)
}
