package output

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
)

// CSV writes rows in the form that Excel reads: UTF-8 with a byte order mark, and CRLF at the end of a line. Cells whose kind
// is string are made harmless; all others are numbers.
func CSV(w io.Writer, rows func(row func(cells ...any))) error {
	buffered := bufio.NewWriter(unchecked(w))
	_, _ = buffered.WriteString("\uFEFF") // Flush returns the error
	c := csv.NewWriter(buffered)
	c.UseCRLF = true
	rows(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = fmt.Sprint(cell)
			if reflect.ValueOf(cell).Kind() == reflect.String {
				texts[i] = harmless(texts[i])
			}
		}
		_ = c.Write(texts) // likewise
	})
	c.Flush()
	return c.Error()
}

// harmless makes a text safe as a cell of CSV. A spreadsheet takes a text that begins with one of these characters, or with
// its wide form, for a formula, which may run programs or send data away; an apostrophe before it makes it text. Control
// characters that separate words become spaces. The others, which a terminal might obey, become U+FFFD.
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
