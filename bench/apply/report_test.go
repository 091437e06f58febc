package main

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "draw the chart in docs again from the tables there")

func TestChartInDocsShowsItsTables(t *testing.T) {
	t.Parallel()
	const name = "../../docs/bench-apply"
	text, err := os.ReadFile(name + ".md")
	require.NoError(t, err)
	var peaks []measured
	for _, row := range rowsOf(t, string(text), "requests/s | ratio to nothing") {
		peaks = append(peaks, measured{row.contender, []sample{answering(row.cells[0])}})
	}
	var floods []flooded
	for _, row := range rowsOf(t, string(text), "peak/s | goodput/s") {
		floods = append(floods, flooded{contender: row.contender, rounds: []flood{{during: answering(row.cells[1])}}})
	}
	require.NotEmpty(t, peaks)
	require.Len(t, floods, len(peaks))
	drawn := drawChart(peaks, floods)
	if *update {
		require.NoError(t, os.WriteFile(name+".svg", []byte(drawn), 0o644))
	}
	kept, err := os.ReadFile(name + ".svg")
	require.NoError(t, err)
	require.Equal(t, string(kept), drawn, "draw it with -update")
}

type tableRow struct {
	contender contender
	cells     []float64 // the first two figures
}

// rowsOf reads the table with these columns behind the contender.
func rowsOf(t *testing.T, text, columns string) (rows []tableRow) {
	t.Helper()
	_, table, found := strings.Cut(text, "| contender | "+columns)
	require.True(t, found, columns)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		i := slices.IndexFunc(contenders, func(c contender) bool { return "| "+c.title == cells[0] })
		if i < 0 {
			continue // the head
		}
		row := tableRow{contender: contenders[i]}
		for _, cell := range cells[1:3] {
			figure, _ := strconv.ParseFloat(cell, 64)
			row.cells = append(row.cells, figure)
		}
		rows = append(rows, row)
	}
	return rows
}

func answering(perSecond float64) sample {
	return sample{outcome: outcome{Served: int(perSecond), Seconds: 1}}
}
