// Package text holds every sentence that people read, in Korean and in English. A message is a package-level variable
// in the file of its subject. What programs read (JSON, logs, the English columns of CSV) is not translated.
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

type Language string

const (
	Korean  Language = "ko"
	English Language = "en"
)

// LanguageOf returns the language that --lang asks for, or else that of the locale: English unless it is Korean. The
// other arguments need not be valid.
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

// In returns the text in a language. It replaces no verbs of fmt.
func (m Message) In(l Language) string {
	if l == Korean {
		return m.ko
	}
	return m.en
}

// Sprintf formats a message and chooses its plurals. Arguments that have words in both languages appear in the same
// one, and so do errors.
func (l Language) Sprintf(m Message, args ...any) string {
	localized := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case interface{ In(l Language) string }:
			localized[i] = arg.In(l)
		case error:
			localized[i] = In(l, arg)
		default:
			localized[i] = arg
		}
	}
	return fmt.Sprintf(plurals(m.In(l), args...), localized...)
}

// verbOrPlural matches a verb of fmt, such as %d or %[2]s, or a pair {singular|plural}.
var verbOrPlural = regexp.MustCompile(`%(?:\[(\d+)\])?[a-z]|\{([^{}|]*)\|([^{}|]*)\}`)

// plurals replaces each pair {singular|plural} in a format, such as "%d event{|s}", as the argument before it requires.
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

// Nth returns the ordinal number for n. Korean has a word of its own for the first.
func (l Language) Nth(n int64) string {
	if n == 1 {
		return l.Sprintf(First)
	}
	return l.Sprintf(Nth, n)
}

// Localized is an error with a text in both languages. Its Error method returns the English text.
type Localized interface {
	error
	In(l Language) string
}

// Error is an error whose text is a Message.
type Error struct{ content }

// UsageError is an Error about wrong use or setup: repeating cannot help.
type UsageError struct {
	content
	Missing bool // what somebody asked for does not exist, or no longer
}

// RetryableError is an Error about infrastructure: running again may help.
type RetryableError struct{ content }

type content struct {
	Message Message
	Args    []any
}

func Errorf(m Message, args ...any) error          { return &Error{content{m, args}} }
func UsageErrorf(m Message, args ...any) error     { return &UsageError{content: content{m, args}} }
func MissingErrorf(m Message, args ...any) error   { return &UsageError{content{m, args}, true} }
func RetryableErrorf(m Message, args ...any) error { return &RetryableError{content{m, args}} }

func (c content) Error() string { return c.In(English) }

func (c content) message() Message { return c.Message }

func (content) missing() bool { return false }

func (e *UsageError) missing() bool { return e.Missing }

func (c content) In(l Language) string { return l.Sprintf(c.Message, c.Args...) }

func (c content) Unwrap() (causes []error) {
	for _, arg := range c.Args {
		if cause, ok := arg.(error); ok {
			causes = append(causes, cause)
		}
	}
	return causes
}

// FieldError is an error about one value that somebody gave: of a flag, an argument or a field of a form.
type FieldError struct {
	Field string // such as until, for --until
	Err   error
}

func (e *FieldError) Error() string { return e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }

func (e *FieldError) In(l Language) string { return In(l, e.Err) }

// About names the value that an error is about. err is not nil.
func About(field string, err error) *FieldError { return &FieldError{field, err} }

// Setup and Infrastructure give an error its class: see mysqltx.ClassOf.
func (*UsageError) Setup() bool              { return true }
func (*RetryableError) Infrastructure() bool { return true }

// Is reports whether m is the first message that errors.As finds in err.
func Is(err error, m Message) bool {
	var made interface{ message() Message }
	return errors.As(err, &made) && made.message() == m
}

// Has reports whether m is one of the messages in err, also as a cause of another.
func Has(err error, m Message) bool {
	if made, ok := err.(interface{ message() Message }); ok && made.message() == m {
		return true
	}
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		return Has(wraps.Unwrap(), m)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wraps.Unwrap(), func(cause error) bool { return Has(cause, m) })
	}
	return false
}

// IsMissing reports whether the first message that errors.As finds in err says that what somebody asked for does not
// exist, or no longer.
func IsMissing(err error) bool {
	var made interface{ missing() bool }
	return errors.As(err, &made) && made.missing()
}

// In returns the text of an error in a language. Texts of servers and libraries stay in English.
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

// Split returns the errors that errors.Join has joined, otherwise err alone. For nil it returns nil.
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
