package cli

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// printCSV writes rows as Excel reads them: UTF-8 with the mark that says so, lines that end as those of Windows. Cells that
// are strings are somebody's text, and made harmless; all others are numbers, and stay what they are.
func printCSV(w io.Writer, rows func(row func(cells ...any))) error {
	buffered := bufio.NewWriter(uncleaned(w))
	_, _ = buffered.WriteString("\uFEFF") // Flush tells what went wrong
	c := csv.NewWriter(buffered)
	c.UseCRLF = true
	rows(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			if text, ok := cell.(string); ok {
				texts[i] = harmless(text)
			} else {
				texts[i] = fmt.Sprint(cell)
			}
		}
		_ = c.Write(texts) // the same
	})
	c.Flush()
	return c.Error()
}

// headerCells are the columns' names: in English what programs go by.
func (p *program) headerCells(columns ...words) (cells []any) {
	for _, c := range columns {
		cells = append(cells, c.in(p.language))
	}
	return cells
}

// harmless is somebody's text as a cell of CSV. A spreadsheet takes what begins with one of these for a formula, which may
// run programs or send data away; with an apostrophe before it, it is text. So are the wide forms of an Asian keyboard.
// Numbers are no text: a minus stays what it is. Of control characters those that part words become spaces, and the others,
// which a terminal might obey, U+FFFD.
func harmless(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		default:
			return r // what is no UTF-8 comes as U+FFFD
		}
	}, text)
	start := strings.TrimLeft(text, " \u3000\u00A0\uFEFF\u200B")
	if start != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(start)[0]) {
		return "'" + text
	}
	return text
}
