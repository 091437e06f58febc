package output

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
)

// CSV writes rows as Excel reads them: UTF-8 with a byte order mark and CRLF. Texts pass through the function harmless.
// Cells with a semicolon are quoted, too, which encoding/csv does not: in many countries it separates the cells of a
// spreadsheet.
func CSV(w io.Writer, rows func(row func(cells ...any))) error {
	buffered := bufio.NewWriter(unchecked(w))
	_, _ = buffered.WriteString("\uFEFF") // Flush returns the error
	rows(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = fmt.Sprint(cell)
			if reflect.ValueOf(cell).Kind() == reflect.String {
				texts[i] = harmless(texts[i])
			}
			texts[i] = quoted(texts[i])
		}
		_, _ = buffered.WriteString(strings.Join(texts, ",") + "\r\n") // Flush returns the error
	})
	return buffered.Flush()
}

func quoted(cell string) string {
	if !strings.ContainsAny(cell, ",;\"\r\n") && strings.TrimSpace(cell) == cell {
		return cell
	}
	return `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
}

// harmless puts an apostrophe before a text that a spreadsheet would take for a formula, which could run programs or
// send data away. Tabs and line breaks become spaces. Controls of the direction of text, which make a cell look like
// another, are left out. Control characters, which terminals may obey, become U+FFFD.
func harmless(given string) string {
	given = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		default:
			return r // strings.Map gives U+FFFD for invalid UTF-8
		}
	}, given)
	start := strings.TrimLeft(given, " \u3000\u00A0\uFEFF\u200B")
	if start != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(start)[0]) {
		return "'" + given
	}
	return given
}
