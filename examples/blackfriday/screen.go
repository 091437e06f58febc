package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"mvdan.cc/sh/v3/syntax"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	maxColumns   = 100
	progressStep = 1_000
)

// screen is a terminal, or a pipe that gets plain lines. It speaks the language of the locale.
type screen struct {
	language text.Language
	printer  *message.Printer // writes 50000 as 50,000
	terminal bool
	chapter  int

	mu  sync.Mutex
	out io.Writer
}

func newScreen(w io.Writer, l text.Language) *screen {
	file, ok := w.(*os.File)
	return &screen{language: l, out: w, printer: message.NewPrinter(language.English), terminal: ok &&
		term.IsTerminal(int(file.Fd()))}
}

// write replaces the line of a terminal that passing has written.
func (s *screen) write(lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		lines = "\r\x1b[K" + lines
	}
	_, _ = io.WriteString(s.out, lines)
}

// passing writes a line of a terminal that the next text replaces. A pipe gets nothing.
func (s *screen) passing(m text.Message, args ...any) {
	if s.terminal {
		s.write(s.sprintf(m, args...) + "\r")
	}
}

// sprintf formats a message. An int gets thousands separators, an id (uint64) does not.
func (s *screen) sprintf(m text.Message, args ...any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if number, ok := arg.(int); ok {
			args[i] = s.printer.Sprint(number)
		}
	}
	return s.language.Sprintf(m, args...)
}

func (s *screen) heading(m text.Message) {
	s.chapter++
	line := fmt.Sprintf("%d. %s", s.chapter, m.In(s.language))
	if s.terminal && os.Getenv("NO_COLOR") == "" {
		line = "\x1b[1;36m" + line + "\x1b[0m"
	}
	s.write("\n" + line + "\n")
}

// say prints a message in lines of at most maxColumns.
func (s *screen) say(m text.Message, args ...any) {
	var lines strings.Builder
	for line := range strings.Lines(pretty.WrapSoft(s.sprintf(m, args...), maxColumns)) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	s.write(lines.String())
}

// sayJSON prints JSON behind a prefix, and breaks long lines after commas.
func (s *screen) sayJSON(prefix, body string) {
	line, lines := prefix, ""
	for part := range strings.SplitAfterSeq(body, ",") {
		if pretty.StringWidthWithoutEscSequences(line+part) > maxColumns {
			lines += line + "\n"
			line = strings.Repeat(" ", pretty.StringWidthWithoutEscSequences(prefix))
		}
		line += part
	}
	s.write(lines + line + "\n")
}

// command shows a command as a person would type it. A long one goes on in further lines, from flag to flag.
func (s *screen) command(words ...string) {
	line, lines := "$ "+words[0], ""
	for rest := words[1:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && !strings.HasPrefix(rest[n], "--") {
			n++
		}
		part := ""
		for _, word := range rest[:n] {
			quoted, _ := syntax.Quote(word, syntax.LangBash) // no error: the words have no zero bytes
			part += " " + quoted
		}
		if rest = rest[n:]; pretty.StringWidthWithoutEscSequences(line+part) > maxColumns-len(` \`) {
			lines, line = lines+line+" \\\n", "   "
		}
		line += part
	}
	s.write(lines + line + "\n")
}

// printed shows what a command has printed. A terminal cuts the lines of a table instead of breaking them.
func (s *screen) printed(output string) {
	if s.terminal {
		output = lineOfTable.ReplaceAllString(output, "\x1b[?7l$0\x1b[?7h")
	}
	s.write(output)
}

var lineOfTable = regexp.MustCompile("(?m)^[┌│├└].*$")

// table prints rows below a header. Messages among the cells appear in the language of the screen.
func (s *screen) table(header []any, rows ...[]any) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = pretty.FormatDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	t.SetStyle(style)
	t.AppendHeader(s.cells(header))
	columns := make([]table.ColumnConfig, len(header))
	for i := range columns {
		columns[i] = table.ColumnConfig{Number: i + 1, Transformer: func(value any) string {
			if number, ok := value.(int); ok {
				return s.printer.Sprint(number)
			}
			return fmt.Sprint(value)
		}}
	}
	t.SetColumnConfigs(columns)
	for _, row := range rows {
		t.AppendRow(s.cells(row))
	}
	var lines strings.Builder
	for line := range strings.Lines(t.Render()) {
		lines.WriteString("  " + strings.TrimRight(line, " \n") + "\n")
	}
	s.write(lines.String())
}

func (s *screen) cells(row []any) table.Row {
	row = slices.Clone(row)
	for i, cell := range row {
		if m, ok := cell.(text.Message); ok {
			row[i] = m.In(s.language)
		}
	}
	return row
}

func (s *screen) progress(done, total int) {
	if done%progressStep == 0 || done == total {
		s.passing(text.DemoApplying, done, total)
	}
}
