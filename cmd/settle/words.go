package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/connect"
)

// language is what people are spoken to in. What programs read, JSON and logs, has none. CSV is opened by both: in English its
// headers are names that do not change, in Korean they are for people.
type language string

const (
	korean  language = "ko"
	english language = "en"
)

// systemLanguage is that of the session's locale: Korean, or else English.
func systemLanguage() language {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	if strings.HasPrefix(locale, string(korean)) {
		return korean
	}
	return english
}

// words are a text in both languages, with the same verbs of fmt in the same order.
type words struct{ ko, en string }

func (w words) in(l language) string {
	if l == korean {
		return w.ko
	}
	return w.en
}

// say is a text in the language of whoever runs the program.
func (p *program) say(w words, args ...any) string { return fmt.Sprintf(w.in(p.language), args...) }

// header are the columns of a table.
func (p *program) header(columns ...words) (row table.Row) {
	for _, c := range columns {
		row = append(row, c.in(p.language))
	}
	return row
}

// wrongUse is what is wrong with a command, for whoever gave it: exit code 2. As an error among others it is in English.
type wrongUse struct {
	words
	args []any
}

func wrong(w words, args ...any) error { return &wrongUse{w, args} }

func (w *wrongUse) Error() string { return fmt.Sprintf(w.en, w.args...) }

// wrongDate is the only thing that can be wrong with a date.
func wrongDate(flag, date string) error {
	return wrong(words{"%s: %q은(는) 날짜가 아닙니다. 2026-11-20처럼 써 주세요", "%s: %q is not a date: want YYYY-MM-DD, such as 2026-11-20"}, flag, date)
}

// tell is an error in that language, as far as it was made for people; what servers and libraries say is in English.
func (l language) tell(err error) string {
	var settings *connect.SettingError
	if use, ok := err.(*wrongUse); ok {
		return fmt.Sprintf(use.in(l), use.args...)
	}
	if !errors.As(err, &settings) || l == english {
		return err.Error()
	}
	var lines []string
	for _, problem := range settings.Unwrap() {
		line := l.tell(problem)
		if unread := new(kong.ParseError); errors.As(problem, &unread) {
			line = "명령을 읽을 수 없습니다. --help를 보세요: " + unread.Error()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// languageOf is the language that a command asks for, which must be known also where the command cannot be read.
func languageOf(args []string) language {
	asked := "auto"
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--lang="); ok {
			asked = value
		} else if arg == "--lang" && i+1 < len(args) {
			asked = args[i+1]
		}
	}
	if l := language(asked); slices.Contains([]language{korean, english}, l) {
		return l
	}
	return systemLanguage()
}
