package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

type Locale struct {
	Language text.Language
	Zone     *time.Location
}

// Sprintf formats a message. It shows instants among the arguments in l.Zone.
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

func (l Locale) Cells(messages ...text.Message) (cells []any) {
	for _, m := range messages {
		cells = append(cells, m.In(l.Language))
	}
	return cells
}

func (l Locale) Instant(t time.Time) string {
	return t.In(l.Zone).Format("2006-01-02 15:04:05.999999 MST")
}

// WithOffset formats an instant that somebody has given as a local time, which may come twice.
func (l Locale) WithOffset(t time.Time) string {
	return t.In(l.Zone).Format("2006-01-02 15:04:05.999999-07:00")
}

// SheetTime formats an instant without its zone, because spreadsheets recognise only that as a time. nil gives "".
func (l Locale) SheetTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.In(l.Zone).Format(time.DateTime)
}

func Known(n *int64, unknown string) any {
	if n == nil {
		return unknown
	}
	return *n
}

// Took formats a duration in milliseconds; nil means that it is unknown.
func Took(n *int64) string {
	if n == nil {
		return "–"
	}
	return Millis(*n)
}

// Word returns the word for a status, trigger, cause or action. An unknown code is returned as it is.
func Word[C ~string](l text.Language, code C) string {
	return cmp.Or(text.Word(l, code), Printable(string(code)))
}
