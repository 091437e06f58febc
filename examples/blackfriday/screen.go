package main

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// How many steps lie between two notes of progress.
const (
	plainStep    = 10_000 // to a pipe
	terminalStep = 250    // on a terminal, where one line is written again and again
)

// screen is where the story is told: a terminal, or a pipe that gets plain lines.
type screen struct {
	io.Writer
	words    *message.Printer // writes 50000 as 50,000
	terminal bool
	chapter  int
}

func newScreen(w io.Writer) *screen {
	file, ok := w.(*os.File)
	return &screen{Writer: w, words: message.NewPrinter(language.English), terminal: ok && term.IsTerminal(int(file.Fd()))}
}

func (s *screen) heading(english, korean string) {
	s.chapter++
	line := s.words.Sprintf("%d. %s · %s", s.chapter, english, korean)
	if s.terminal && os.Getenv("NO_COLOR") == "" {
		line = "\x1b[1;36m" + line + "\x1b[0m"
	}
	s.say("\n%s", line)
}

func (s *screen) say(format string, args ...any) { _, _ = s.words.Fprintf(s, format+"\n", args...) }

// show prints text as it is: the words of a program.
func (s *screen) show(words string) { _, _ = io.WriteString(s, words+"\n") }

func (s *screen) table(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(s)
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	return t
}

// rightAligned is for numbers in columns that also hold something else.
func rightAligned(columns ...string) (configs []table.ColumnConfig) {
	for _, name := range columns {
		configs = append(configs, table.ColumnConfig{Name: name, Align: text.AlignRight})
	}
	return configs
}

// progress counts up to total. Its add may be called in parallel.
type progress struct {
	screen *screen
	total  int
	what   string
	done   atomic.Int64
}

func (s *screen) progress(total int, what string) *progress {
	return &progress{screen: s, total: total, what: what}
}

func (p *progress) add() {
	done := p.done.Add(1)
	switch {
	case p.screen.terminal && done%terminalStep == 0:
		p.write(int(done), "")
	case !p.screen.terminal && done%plainStep == 0:
		p.screen.say("  %d of %d", done, p.total)
	}
}

// end leaves the line to what comes next.
func (p *progress) end() {
	if p.screen.terminal {
		p.write(int(p.done.Load()), "\n")
	}
}

func (p *progress) write(done int, end string) {
	_, _ = p.screen.words.Fprintf(p.screen, "\r  %s: %d of %d%s", p.what, done, p.total, end)
}
