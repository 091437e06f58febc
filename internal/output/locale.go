package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// Locale is the language and the time zone of a reader.
type Locale struct {
	Language text.Language
	Zone     *time.Location
}

// Sprintf formats a message. Instants among the arguments appear in the zone.
func (l Locale) Sprintf(m text.Message, args ...any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if at, ok := arg.(time.Time); ok {
			args[i] = l.Instant(at)
		}
	}
	return l.Language.Sprintf(m, args...)
}

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

func (l Locale) Instant(t time.Time) string {
	return t.In(l.Zone).Format("2006-01-02 15:04:05.999999 MST")
}

// SheetTime is an instant as spreadsheets recognise it, without its zone; empty for nil.
func (l Locale) SheetTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.In(l.Zone).Format(time.DateTime)
}

// Known is a number, or a text in place of an unknown one.
func Known(n *int64, unknown string) any {
	if n == nil {
		return unknown
	}
	return *n
}

// Took is a duration of milliseconds; nil is an unknown one.
func Took(n *int64) string {
	if n == nil {
		return "–"
	}
	return Millis(*n)
}

// Word is the word for a status, a trigger, a cause or an action. A code of another version of the program stays as it is.
func Word[C ~string](l text.Language, code C) string {
	return cmp.Or(text.Word(l, code), Printable(string(code)))
}
