package cli

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
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/jajeong/jajeong/internal/settle"
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
	if hasColours(p.stdout) {
		return text.FgRed.EscapeSeq() + fmt.Sprint(word) + text.Reset.EscapeSeq()
	}
	return fmt.Sprint(word)
}

// mostPrinted bounds a text in letters: as long as the longest that MySQL keeps. Redis keeps what anybody wrote there.
const mostPrinted = 2000

// printable keeps control characters of a name from reaching the terminal, and a megabyte from making a table as wide.
func printable(name string) string {
	cut := ""
	if letters := []rune(name[:min(len(name), utf8.UTFMax*(mostPrinted+1))]); len(letters) > mostPrinted {
		name, cut = string(letters[:mostPrinted]), "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, name) + cut
}

// member is a member of a line in a table: a user id, or what somebody wrote there by hand.
func member(name string) string { return printable(settle.Shown(name)) }

// inZone writes an instant as people in that zone read it, with the zone.
func inZone(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05.999999 MST")
}

func millis(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// progress shows on one line of a terminal how far long work is. It is nil anywhere else, and may be used from several
// goroutines. Log lines that come meanwhile stay.
type progress struct {
	to    io.Writer
	every *time.Ticker
	mu    sync.Mutex
	count int
}

const (
	progressEvery = 100 * time.Millisecond
	eraseLine     = "\r\x1b[K"
)

func newProgress(w io.Writer, what string) *progress {
	if !isTerminal(w) {
		return nil
	}
	p := &progress{to: uncleaned(w), every: time.NewTicker(progressEvery)}
	p.draw(what)
	return p
}

func (p *progress) add(what string, n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += n
	select {
	case <-p.every.C:
		p.draw(printable(what))
	default:
	}
}

func (p *progress) draw(what string) {
	fmt.Fprintf(p.to, "%s⠿ %s [%d] ", eraseLine, what, p.count)
}

func (p *progress) end() {
	if p != nil {
		p.every.Stop()
		fmt.Fprint(p.to, eraseLine)
	}
}

// printJSON escapes all control characters: the package leaves those behind 0x7E as they are, and terminals know some.
func printJSON(w io.Writer, what any) error {
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

// grouped writes a whole number with a comma every three digits.
func grouped(number string) string {
	digits := strings.TrimPrefix(number, "-")
	sign := number[:len(number)-len(digits)]
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
