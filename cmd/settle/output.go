package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
)

func newTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Format.Header, style.Format.Footer = text.FormatDefault, text.FormatDefault
	t.SetStyle(style)
	return t
}

// bad marks what somebody should look at: in red on a terminal, unless NO_COLOR is set.
func (p *program) bad(word any) string {
	if isTerminal(p.stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		return text.FgRed.EscapeSeq() + fmt.Sprint(word) + text.Reset.EscapeSeq()
	}
	return fmt.Sprint(word)
}

// printable keeps control characters of a name from reaching the terminal.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, name)
}

// inZone writes an instant as people in that zone read it, with the zone.
func inZone(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05.999999 MST")
}

func millis(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// progress shows long work on a terminal, and nothing anywhere else. It may be told from several goroutines.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, what string) progress {
	if !isTerminal(w) {
		return progress{}
	}
	return progress{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())}
}

func (p progress) add(what string, n int) {
	if p.bar != nil {
		p.bar.Describe(printable(what))
		_ = p.bar.Add(n)
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
	}
}

func printJSON(w io.Writer, what any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(what)
}

// grouped writes a whole number with a comma every three digits.
func grouped(number string) string {
	digits := strings.TrimPrefix(number, "-")
	sign := number[:len(number)-len(digits)]
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
