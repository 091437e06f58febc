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

// CSV writes rows as Excel reads them: UTF-8 with a byte order mark and CRLF. Cells whose kind is string are made harmless.
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

// harmless puts an apostrophe before a text that a spreadsheet would read as a formula: a formula may run programs or send data
// away. Tabs and line breaks become spaces. Other control characters, which a terminal might obey, become U+FFFD.
func harmless(given string) string {
	given = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		default:
			return r // U+FFFD for invalid UTF-8
		}
	}, given)
	start := strings.TrimLeft(given, " \u3000\u00A0\uFEFF\u200B")
	if start != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(start)[0]) {
		return "'" + given
	}
	return given
}
