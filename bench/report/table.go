// Package report makes the tables and charts of all subjects, and keeps them in the pages of docs/bench.
package report

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Row has what was measured for one row of a table, by round. A name with " | " fills several cells.
type Row[R any] struct {
	Name   string
	Rounds []R
}

// Column makes one cell of each row.
type Column[R any] struct {
	head string
	left bool // text
	cell func(all []Row[R], row Row[R]) string
}

// Unit formats a figure.
type Unit func(float64) string

// The units of figures. Durations are in seconds.
var (
	Whole Unit = func(f float64) string { return fmt.Sprintf("%.0f", f) }
	One   Unit = func(f float64) string { return fmt.Sprintf("%.1f", f) }
	Two   Unit = func(f float64) string { return fmt.Sprintf("%.2f", f) }
	// Time has three digits or so, and none for what was not measured.
	Time Unit = func(seconds float64) string {
		switch {
		case seconds == 0:
			return "–"
		case seconds < 0.01:
			return fmt.Sprintf("%.2f ms", 1000*seconds)
		case seconds < 10:
			return fmt.Sprintf("%.0f ms", 1000*seconds)
		default:
			return fmt.Sprintf("%.1f s", seconds)
		}
	}
	// CPU is processor time for one request or row.
	CPU Unit = func(seconds float64) string {
		if seconds == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f µs", 1e6*seconds)
	}
	MiB Unit = func(bytes float64) string {
		if bytes == 0 {
			return "–"
		}
		return fmt.Sprintf("%.0f MiB", bytes/(1<<20))
	}
	// Share is a share of one core, or of a whole.
	Share Unit = func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) }
)

// Text is a column of words.
func Text[R any](head string, text func(R) string) Column[R] {
	return Column[R]{head, true, func(_ []Row[R], row Row[R]) string { return text(row.Rounds[0]) }}
}

// Median is the median of a figure.
func Median[R any](head string, unit Unit, figure func(R) float64) Column[R] {
	return Column[R]{head, false, func(_ []Row[R], row Row[R]) string { return unit(median(row.figures(figure))) }}
}

// Elapsed is the median of a time.
func Elapsed[R any](head string, figure func(R) time.Duration) Column[R] {
	return Median(head, Time, func(r R) float64 { return figure(r).Seconds() })
}

// CPUTime is the median of the processor time for one request or row.
func CPUTime[R any](head string, figure func(R) time.Duration) Column[R] {
	return Median(head, CPU, func(r R) float64 { return figure(r).Seconds() })
}

// Count is the median of a count.
func Count[R any](head string, figure func(R) int) Column[R] {
	return Median(head, Whole, func(r R) float64 { return float64(figure(r)) })
}

// Spread is the lowest and the highest figure.
func Spread[R any](head string, unit Unit, figure func(R) float64) Column[R] {
	return Column[R]{head, false, func(_ []Row[R], row Row[R]) string {
		all := row.figures(figure)
		return unit(slices.Min(all)) + " to " + unit(slices.Max(all))
	}}
}

// Most is the highest figure.
func Most[R any](head string, unit Unit, figure func(R) float64) Column[R] {
	return Column[R]{head, false, func(_ []Row[R], row Row[R]) string { return unit(slices.Max(row.figures(figure))) }}
}

// Sum adds the figures of all rounds.
func Sum[R any](head string, figure func(R) int) Column[R] {
	return Column[R]{head, false, func(_ []Row[R], row Row[R]) string {
		sum := 0
		for _, r := range row.Rounds {
			sum += figure(r)
		}
		return fmt.Sprint(sum)
	}}
}

// Ratio compares a figure with that of another row: base is its name, by the name of this one. Both figures of a ratio
// are from the same round: median, lowest and highest.
func Ratio[R any](head string, base func(name string) string, figure func(R) float64) Column[R] {
	return Column[R]{head, false, func(all []Row[R], row Row[R]) string {
		i := slices.IndexFunc(all, func(other Row[R]) bool { return other.Name == base(row.Name) })
		if i < 0 || len(all[i].Rounds) != len(row.Rounds) {
			return "–"
		}
		return Ratios(row.figures(figure), all[i].figures(figure))
	}}
}

// Within compares two figures of the same row and round.
func Within[R any](head string, figure, base func(R) float64) Column[R] {
	return Column[R]{head, false, func(_ []Row[R], row Row[R]) string {
		return Ratios(row.figures(figure), row.figures(base))
	}}
}

// To is one row for all.
func To(name string) func(string) string { return func(string) string { return name } }

// Ratios formats the median, the lowest and the highest ratio by round.
func Ratios(all, base []float64) string {
	found := make([]float64, len(all))
	for i := range all {
		if found[i] = all[i] / base[i]; math.IsNaN(found[i]) || math.IsInf(found[i], 0) {
			return "–"
		}
	}
	if len(found) == 1 {
		return Two(found[0])
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(found), slices.Min(found), slices.Max(found))
}

func (row Row[R]) figures(figure func(R) float64) []float64 {
	all := make([]float64, len(row.Rounds))
	for i, r := range row.Rounds {
		all[i] = figure(r)
	}
	return all
}

// MedianOf is the median of a figure of one row.
func MedianOf[R any](row Row[R], figure func(R) float64) float64 { return median(row.figures(figure)) }

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// Table renders rows that were measured. first has the heads of the cells of the names.
func Table[R any](first string, rows []Row[R], columns ...Column[R]) string {
	heads, lines := strings.Split(first, " | "), []string{}
	rules := slices.Repeat([]string{"---"}, len(heads))
	for _, c := range columns {
		heads, rules = append(heads, c.head), append(rules, map[bool]string{true: "---", false: "---:"}[c.left])
	}
	for _, row := range rows {
		if len(row.Rounds) == 0 {
			continue
		}
		cells := []string{row.Name}
		for _, c := range columns {
			cells = append(cells, c.cell(rows, row))
		}
		lines = append(lines, line(cells))
	}
	return line(heads) + line(rules) + strings.Join(lines, "")
}

// Goal is a row of a table of goals, and the head of the table if it is the first. Each goal has its own unit.
func Goal(row Row[float64], unit Unit, limit float64, first bool) string {
	own := func(f float64) float64 { return f }
	met := func(all []Row[float64], row Row[float64]) string {
		return map[bool]string{true: "met", false: "**missed**"}[median(row.Rounds) <= limit]
	}
	table := Table(" | goal", []Row[float64]{row}, Median("measured", unit, own), Spread("spread", unit, own),
		Column[float64]{"", true, met})
	if first {
		return table
	}
	return strings.SplitAfterN(table, "\n", 3)[2]
}

func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// Way is a row that is to be measured.
type Way[R any] struct {
	Name    string
	Measure func() (R, error)
}

// Measured measures every way in each round, so that other work of the machine affects all of them, and renders the
// table. Each round begins with another way. The progress is told with the columns.
func Measured[R any](first string, rounds int, ways []Way[R], columns ...Column[R]) (string, error) {
	rows, err := InTurn(rounds, ways, columns...)
	return Table(first, rows, columns...), err
}

// InTurn is the measurement of Measured.
func InTurn[R any](rounds int, ways []Way[R], told ...Column[R]) ([]Row[R], error) {
	rows := make([]Row[R], len(ways))
	for round := range rounds {
		for turn := range ways {
			i := (round + turn) % len(ways)
			name := ways[i].Name
			r, err := ways[i].Measure()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rows[i].Name, rows[i].Rounds = name, append(rows[i].Rounds, r)
			one := Row[R]{name, []R{r}}
			fmt.Fprintf(os.Stderr, "%d of %d  %s", round+1, rounds, name)
			for _, c := range told {
				fmt.Fprintf(os.Stderr, "; %s %s", c.head, c.cell([]Row[R]{one}, one))
			}
			fmt.Fprintln(os.Stderr)
		}
	}
	return rows, nil
}
