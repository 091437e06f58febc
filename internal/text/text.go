// Package text holds every sentence that people read, in Korean and in English. A message is a package-level variable, in
// the file of its subject; its Go name is its id. The Korean text comes first, the English one on a line of its own if both
// do not fit in one. What programs read (JSON, logs, the English columns of CSV) is not translated.
package text

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Language is the language of a session.
type Language string

// The languages.
const (
	Korean  Language = "ko"
	English Language = "en"
)

// LanguageOf is the language that a command asks for with --lang; otherwise that of the session's locale: Korean, or else
// English. The command need not be valid.
func LanguageOf(args []string, getenv func(string) string) Language {
	asked := ""
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--lang="); ok {
			asked = value
		} else if arg == "--lang" && i+1 < len(args) {
			asked = args[i+1]
		}
	}
	if l := Language(asked); slices.Contains([]Language{Korean, English}, l) {
		return l
	}
	if strings.HasPrefix(cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG")), string(Korean)) {
		return Korean
	}
	return English
}

// Message is a text in both languages, with the same verbs of fmt.
type Message struct{ ko, en string }

// In returns the text in a language, its verbs as they are.
func (m Message) In(l Language) string {
	if l == Korean {
		return m.ko
	}
	return m.en
}

// Sprintf formats a message, its plurals as plurals says. Arguments that are messages or errors appear in the same language.
func (l Language) Sprintf(m Message, args ...any) string {
	localized := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case Message:
			localized[i] = arg.In(l)
		case error:
			localized[i] = In(l, arg)
		default:
			localized[i] = arg
		}
	}
	return fmt.Sprintf(plurals(m.In(l), args...), localized...)
}

// verbOrPlural is a verb of fmt, or a singular and a plural.
var verbOrPlural = regexp.MustCompile(`%(?:\[(\d+)\])?[a-z]|\{([^{}|]*)\|([^{}|]*)\}`)

// plurals chooses between the singular and the plural in a format, such as "%d event{|s} {is|are} new". Each agrees with
// the argument of the verb before it.
func plurals(format string, args ...any) string {
	count, next := "", 0
	return verbOrPlural.ReplaceAllStringFunc(format, func(found string) string {
		m := verbOrPlural.FindStringSubmatch(found)
		switch {
		case found[0] == '{' && count == "1":
			return m[2]
		case found[0] == '{':
			return m[3]
		case m[1] != "":
			next, _ = strconv.Atoi(m[1])
			next--
		}
		if next < len(args) {
			count = fmt.Sprint(args[next])
		}
		next++
		return found
	})
}

// Nth is a place in an order. Korean has a word of its own for the first.
func (l Language) Nth(n int64) string {
	if n == 1 {
		return l.Sprintf(First)
	}
	return l.Sprintf(Nth, n)
}

// Localized is an error that was made for people. Its Error method returns the English text.
type Localized interface {
	error
	In(l Language) string
}

// Error is an error made for people.
type Error struct{ content }

// UsageError is an Error about wrong use or setup: repeating cannot help.
type UsageError struct{ content }

// RetryableError is an Error about infrastructure: running again may help.
type RetryableError struct{ content }

type content struct {
	Message Message
	Args    []any
}

// Errorf makes an Error of a message.
func Errorf(m Message, args ...any) error { return &Error{content{m, args}} }

// UsageErrorf makes a UsageError of a message.
func UsageErrorf(m Message, args ...any) error { return &UsageError{content{m, args}} }

// RetryableErrorf makes a RetryableError of a message.
func RetryableErrorf(m Message, args ...any) error { return &RetryableError{content{m, args}} }

func (c content) Error() string { return c.In(English) }

func (c content) message() Message { return c.Message }

// In implements Localized.
func (c content) In(l Language) string { return l.Sprintf(c.Message, c.Args...) }

// Unwrap returns the errors among the arguments.
func (c content) Unwrap() (causes []error) {
	for _, arg := range c.Args {
		if cause, ok := arg.(error); ok {
			causes = append(causes, cause)
		}
	}
	return causes
}

// Setup reports that the error is about use or setup.
func (*UsageError) Setup() bool { return true }

// Infrastructure reports that the error is about infrastructure.
func (*RetryableError) Infrastructure() bool { return true }

// Is reports whether a message is the first one in the tree of an error.
func Is(err error, m Message) bool {
	var made interface{ message() Message }
	return errors.As(err, &made) && made.message() == m
}

// In renders an error in a language, as far as it was made for people. Texts of servers and libraries stay in English.
func In(l Language, err error) string {
	if l == English {
		return err.Error()
	}
	if localized, ok := err.(Localized); ok {
		return localized.In(l)
	}
	if all := Split(err); len(all) > 1 || all[0] != err {
		var lines []string
		for _, one := range all {
			if line := In(l, one); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	var localized Localized
	if !errors.As(err, &localized) {
		return err.Error()
	}
	if cause := errors.Unwrap(err); cause != nil {
		return In(l, cause)
	}
	return localized.In(l)
}

// Split returns the errors that errors.Join has joined, or the error itself; none for nil.
func Split(err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		if joined := errors.Join(all.Unwrap()...); joined != nil && joined.Error() == err.Error() {
			var split []error
			for _, one := range all.Unwrap() {
				split = append(split, Split(one)...)
			}
			return split
		}
	}
	return []error{err}
}
