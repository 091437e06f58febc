package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	maxColumns   = 100
	progressStep = 1_000
)

// screen is a terminal, or a pipe that gets plain lines.
type screen struct {
	out      io.Writer
	printer  *message.Printer // writes 50000 as 50,000
	terminal bool
	chapter  int
}

func newScreen(w io.Writer) *screen {
	file, ok := w.(*os.File)
	return &screen{out: w, printer: message.NewPrinter(language.English), terminal: ok && term.IsTerminal(int(file.Fd()))}
}

func (s *screen) heading(english, korean string) {
	s.chapter++
	line := s.printer.Sprintf("%d. %s · %s", s.chapter, english, korean)
	if s.terminal && os.Getenv("NO_COLOR") == "" {
		line = "\x1b[1;36m" + line + "\x1b[0m"
	}
	s.say("\n%s", line)
}

// say prints a text in lines of at most maxColumns.
func (s *screen) say(format string, args ...any) {
	for line := range strings.Lines(text.WrapSoft(s.printer.Sprintf(format, args...), maxColumns)) {
		_, _ = fmt.Fprintln(s.out, strings.TrimRight(line, " \n"))
	}
}

// sayJSON prints JSON behind a prefix, and breaks long lines after commas.
func (s *screen) sayJSON(prefix, body string) {
	line := prefix
	for part := range strings.SplitAfterSeq(body, ",") {
		if text.StringWidthWithoutEscSequences(line+part) > maxColumns {
			_, _ = fmt.Fprintln(s.out, line)
			line = strings.Repeat(" ", text.StringWidthWithoutEscSequences(prefix))
		}
		line += part
	}
	_, _ = fmt.Fprintln(s.out, line)
}

// table prints rows below a header. An int gets thousands separators, an id (uint64) does not.
func (s *screen) table(header []any, rows ...[]any) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	t.SetStyle(style)
	t.AppendHeader(header)
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
		t.AppendRow(row)
	}
	for line := range strings.Lines(t.Render()) {
		_, _ = fmt.Fprintln(s.out, "  "+strings.TrimRight(line, " \n"))
	}
}

// progress overwrites one line of a terminal. A pipe gets nothing.
func (s *screen) progress(done, total int) {
	if s.terminal && (done%progressStep == 0 || done == total) {
		_, _ = s.printer.Fprintf(s.out, "\r%d of %d applications\x1b[K\r", done, total)
	}
}

// clear empties the line that progress has written.
func (s *screen) clear() {
	if s.terminal {
		_, _ = io.WriteString(s.out, "\r\x1b[K")
	}
}

// count puts a number before its noun.
func (s *screen) count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return s.printer.Sprintf("%d %s", n, noun)
}
