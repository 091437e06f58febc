package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A page has the tables of a run between two comments: the command that made them, and the end.
const endMark = "<!-- end -->\n"

func mark(command string) string { return "<!-- " + command + " -->\n" }

// Keep writes the tables of a command into a page that has a place for them, and draws the charts of the page again.
func Keep(page, command, tables string, charts Charts) error {
	content, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(content), mark(command))
	_, after, ends := strings.Cut(rest, endMark)
	if !found || !ends {
		return fmt.Errorf("%s has no place for the tables: no line %q with a line %q after it", page, mark(command),
			endMark)
	}
	text := before + mark(command) + "\n" + tables + "\n" + endMark + after
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil || charts == nil {
		return err
	}
	for name, chart := range charts(Read(text)) {
		err = errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(page), name), []byte(chart), 0o644))
	}
	return err
}

// Charts draws the charts of a page from its tables, by file name. nil: the page has none.
type Charts func(tables []Printed) map[string]string

// Printed is a table of a page.
type Printed struct {
	head []string
	rows [][]string
}

// Read returns the tables of a page.
func Read(page string) (all []Printed) {
	var last *Printed
	for text := range strings.Lines(page) {
		if !strings.HasPrefix(text, "| ") {
			last = nil
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "| "), " |"), " | ")
		switch {
		case last == nil:
			all = append(all, Printed{head: cells})
			last = &all[len(all)-1]
		case !strings.HasPrefix(cells[0], "---"):
			last.rows = append(last.rows, cells)
		}
	}
	return all
}

// With returns the tables with a column.
func With(all []Printed, column string) []Printed {
	return slices.DeleteFunc(slices.Clone(all), func(t Printed) bool { return !slices.Contains(t.head, column) })
}

// number is the first number of a cell, such as 12.5 of "≥ 12.5 ms"; 0 if there is none.
func (t Printed) number(row []string, column string) float64 {
	text := t.text(row, column)
	for word := range strings.FieldsSeq(text) {
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			if strings.HasSuffix(text, " s") {
				n *= 1000 // charts have times in ms
			}
			return n
		}
	}
	return 0
}

func (t Printed) text(row []string, column string) string {
	if at := slices.Index(t.head, column); at >= 0 && at < len(row) {
		return row[at]
	}
	return ""
}
