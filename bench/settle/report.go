package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wcharczuk/go-chart/v2"

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

// writeChart draws rows per second over seats, both logarithmic.
func writeChart(path, title string, all []measured) error {
	graph := chart.Chart{
		Title: "Rows per second over seats, " + title, Width: 900, Height: 480,
		Background: chart.Style{Padding: chart.Box{Top: 60, Left: 20, Right: 20, Bottom: 20}},
		XAxis:      chart.XAxis{Name: "seats", ValueFormatter: power, Ticks: powers(3, 6)},
		YAxis:      chart.YAxis{Name: "rows/s", ValueFormatter: power, Ticks: powers(3, 6)},
	}
	for i, c := range contenders {
		series := chart.ContinuousSeries{Name: c.name, Style: chart.Style{StrokeColor: chart.GetDefaultColor(i), StrokeWidth: 2, DotWidth: 3}}
		for _, m := range all {
			if m.contender == c.name {
				series.XValues = append(series.XValues, math.Log10(float64(m.seats)))
				series.YValues = append(series.YValues, math.Log10(m.rowsPerSecond()))
			}
		}
		if len(series.XValues) > 1 {
			graph.Series = append(graph.Series, series)
		}
	}
	graph.Elements = []chart.Renderable{chart.LegendThin(&graph)}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := graph.Render(chart.SVG, file); err != nil {
		_ = file.Close()
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return file.Close()
}

func power(v any) string { return fmt.Sprintf("%.0f", math.Pow(10, v.(float64))) }

func powers(from, to int) (ticks []chart.Tick) {
	for exponent := from; exponent <= to; exponent++ {
		ticks = append(ticks, chart.Tick{Value: float64(exponent), Label: power(float64(exponent))})
	}
	return ticks
}
