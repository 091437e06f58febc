package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"
)

// Table returns a table that is printed to w. A Document gets its cells. On a terminal that is narrower than the table,
// it has a line for each value.
func Table(w io.Writer) table.Writer {
	t := table.NewWriter()
	if d := documentOf(w); d != nil {
		return &sheetWriter{Writer: t, to: d}
	}
	style := table.StyleLight
	style.Format.Header, style.Format.Footer = pretty.FormatDefault, pretty.FormatDefault
	t.SetStyle(style)
	if width := widthOf(w); width > 0 {
		return &fitting{Writer: t, to: w, width: width}
	}
	t.SetOutputMirror(w)
	return t
}

// Bad colours a word red if w is a terminal with colours.
func Bad(w io.Writer, word any) string {
	if hasColours(w) {
		return pretty.FgRed.EscapeSeq() + fmt.Sprint(word) + pretty.Reset.EscapeSeq()
	}
	return fmt.Sprint(word)
}

// maxPrinted is the longest printed text, in characters. Only a member written to Redis by hand can be longer.
const maxPrinted = 2000

// Printable replaces characters that cannot be printed, and cuts a long text.
func Printable(name string) string {
	cut := ""
	if letters := []rune(name[:min(len(name), utf8.UTFMax*(maxPrinted+1))]); len(letters) > maxPrinted {
		name, cut = string(letters[:maxPrinted]), "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, name) + cut
}

func Millis(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// Progress shows a count on one line of a terminal, or in a Document. A nil Progress shows nothing. It is safe for
// concurrent use.
type Progress struct {
	page  *Document // nil: a terminal
	to    io.Writer
	every *time.Ticker
	mu    sync.Mutex
	count int
}

const (
	progressEvery = 100 * time.Millisecond
	eraseLine     = "\r\x1b[K"
)

func NewProgress(w io.Writer, what string) *Progress {
	if d := documentOf(w); d != nil {
		return &Progress{page: d}
	}
	if !IsTerminal(w) {
		return nil
	}
	p := &Progress{to: unchecked(w), every: time.NewTicker(progressEvery)}
	p.draw(what)
	return p
}

// Add adds n to the count. what names the work in hand, such as a coupon.
func (p *Progress) Add(what string, n int) {
	switch {
	case p == nil:
		return
	case p.page != nil:
		p.page.addCount(n)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += n
	select {
	case <-p.every.C:
		p.draw(Printable(what))
	default:
	}
}

func (p *Progress) draw(what string) {
	fmt.Fprintf(p.to, "%s⠿ %s [%d] ", eraseLine, what, p.count)
}

func (p *Progress) End() {
	if p != nil && p.page == nil {
		p.every.Stop()
		fmt.Fprint(p.to, eraseLine)
	}
}

// JSON writes indented JSON, with the control characters from 0x7F on escaped, too: a terminal might obey them.
func JSON(w io.Writer, what any) error {
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(what); err != nil {
		return err
	}
	var escaped strings.Builder
	for _, r := range written.String() {
		if r >= 0x7F && unicode.IsControl(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	_, err := io.WriteString(w, escaped.String())
	return err
}

// Grouped returns a whole number with commas between groups of three digits.
func Grouped(number string) string {
	digits := strings.TrimPrefix(number, "-")
	sign := number[:len(number)-len(digits)]
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
