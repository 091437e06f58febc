package output

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// Locale is the language and the time zone of a reader.
type Locale struct {
	Language text.Language
	Zone     *time.Location
}

// Sprintf formats a message.
func (l Locale) Sprintf(m text.Message, args ...any) string { return l.Language.Sprintf(m, args...) }

// Fprintln writes a message as a line.
func (l Locale) Fprintln(w io.Writer, m text.Message, args ...any) {
	fmt.Fprintln(w, l.Sprintf(m, args...))
}

// Cells are messages as the cells of a row.
func (l Locale) Cells(messages ...text.Message) (cells []any) {
	for _, m := range messages {
		cells = append(cells, m.In(l.Language))
	}
	return cells
}

// Instant writes an instant in the zone.
func (l Locale) Instant(t time.Time) string { return InZone(t, l.Zone) }

// SheetTime is an instant in the form that spreadsheets recognise, in the zone that another column names; empty for nil.
func (l Locale) SheetTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.In(l.Zone).Format(time.DateTime)
}

// Known is a number that may be unknown, or another text in its place.
func Known(n *int64, unknown string) any {
	if n == nil {
		return unknown
	}
	return *n
}

// Took is a duration in milliseconds that may be unknown.
func Took(n *int64) string {
	if n == nil {
		return "–"
	}
	return Millis(*n)
}

// Word is the word for a status, a trigger, a cause or an action; the code itself when another version of the program wrote it.
func Word[C ~string](l text.Language, code C) string {
	return cmp.Or(text.Word(l, code), Printable(string(code)))
}
