package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
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
