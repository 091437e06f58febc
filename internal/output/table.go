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

// Table starts a table that is written to w.
func Table(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Format.Header, style.Format.Footer = pretty.FormatDefault, pretty.FormatDefault
	t.SetStyle(style)
	return t
}

// Bad marks a word that needs attention: in red on a terminal, unless NO_COLOR is set.
func Bad(w io.Writer, word any) string {
	if hasColours(w) {
		return pretty.FgRed.EscapeSeq() + fmt.Sprint(word) + pretty.Reset.EscapeSeq()
	}
	return fmt.Sprint(word)
}

// maxPrinted bounds a text in letters. MySQL keeps no longer ones; Redis keeps whatever was written there by hand.
const maxPrinted = 2000

// Printable keeps control characters of a name from reaching the terminal, and a megabyte from making a table as wide.
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

// InZone writes an instant as people in a zone read it, with the zone.
func InZone(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05.999999 MST")
}

// Millis writes milliseconds as a duration.
func Millis(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// Progress shows on one line of a terminal how far long work is. It is nil anywhere else. It is safe for concurrent use, and
// keeps log lines in between.
type Progress struct {
	to    io.Writer
	every *time.Ticker
	mu    sync.Mutex
	count int
}

const (
	progressEvery = 100 * time.Millisecond
	eraseLine     = "\r\x1b[K"
)

// NewProgress starts the progress of a kind of work.
func NewProgress(w io.Writer, what string) *Progress {
	if !IsTerminal(w) {
		return nil
	}
	p := &Progress{to: unchecked(w), every: time.NewTicker(progressEvery)}
	p.draw(what)
	return p
}

// Add reports that n more are done, of the thing that is named.
func (p *Progress) Add(what string, n int) {
	if p == nil {
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

// End removes the progress from the terminal.
func (p *Progress) End() {
	if p != nil {
		p.every.Stop()
		fmt.Fprint(p.to, eraseLine)
	}
}

// JSON writes indented JSON with every control character escaped: encoding/json leaves those behind 0x7E, and terminals obey
// some of them.
func JSON(w io.Writer, what any) error {
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(what); err != nil {
		return err
	}
	_, err := w.Write(escapeControl(written.Bytes()))
	return err
}

func escapeControl(encoded []byte) []byte {
	if !bytes.ContainsFunc(encoded, isHighControl) {
		return encoded
	}
	escaped := make([]byte, 0, len(encoded)+64)
	for _, r := range string(encoded) {
		if isHighControl(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

func isHighControl(r rune) bool { return r >= 0x7F && unicode.IsControl(r) }

// Grouped writes a whole number with a comma every three digits.
func Grouped(number string) string {
	digits := strings.TrimPrefix(number, "-")
	sign := number[:len(number)-len(digits)]
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
