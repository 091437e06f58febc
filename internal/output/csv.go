package output

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// CSV writes rows as Excel reads them: UTF-8 with the mark that says so, lines that end as those of Windows. Cells that
// are strings are somebody's text, and made harmless; all others are numbers, and stay what they are.
func CSV(w io.Writer, rows func(row func(cells ...any))) error {
	buffered := bufio.NewWriter(unchecked(w))
	_, _ = buffered.WriteString("\uFEFF") // Flush tells what went wrong
	c := csv.NewWriter(buffered)
	c.UseCRLF = true
	rows(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			if given, ok := cell.(string); ok {
				texts[i] = harmless(given)
			} else {
				texts[i] = fmt.Sprint(cell)
			}
		}
		_ = c.Write(texts) // the same
	})
	c.Flush()
	return c.Error()
}

// harmless is somebody's text as a cell of CSV. A spreadsheet takes what begins with one of these for a formula, which may
// run programs or send data away; with an apostrophe before it, it is text. So are the wide forms of an Asian keyboard.
// Numbers are no text: a minus stays what it is. Of control characters those that part words become spaces, and the others,
// which a terminal might obey, U+FFFD.
func harmless(given string) string {
	given = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		default:
			return r // what is no UTF-8 comes as U+FFFD
		}
	}, given)
	start := strings.TrimLeft(given, " \u3000\u00A0\uFEFF\u200B")
	if start != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(start)[0]) {
		return "'" + given
	}
	return given
}
