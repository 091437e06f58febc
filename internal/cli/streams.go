package cli

import (
	"bytes"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// stream is standard output or error. It keeps control characters from the terminal, wherever they come from: names, reasons
// and members of Redis were written by others. It remembers when a write failed, since hardly anybody who prints looks.
type stream struct {
	to io.Writer

	mu      sync.Mutex
	partial []byte // of a character that the next write completes
	failed  error
}

// Write takes everything, so that whoever prints goes on; failure tells what went wrong.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.clean(p))
	return len(p), nil
}

func (s *stream) write(p []byte) {
	if len(p) == 0 || s.failed != nil {
		return
	}
	_, s.failed = s.to.Write(p)
}

// asIs is for what is clean already and needs its control characters: CSV, and what moves a cursor.
type asIs struct{ *stream }

func (s asIs) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(p)
	return len(p), s.failed
}

// failure is the first write that failed.
func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// colours are the only sequences that the program itself sends to a terminal.
var colours = [][]byte{[]byte(text.FgRed.EscapeSeq()), []byte(text.Reset.EscapeSeq())}

// clean puts U+FFFD in place of control characters and of what is no UTF-8, but for what ends a line, and colours where there
// are any.
func (s *stream) clean(p []byte) []byte {
	rest := p
	if len(s.partial) > 0 {
		rest = append(s.partial, p...)
		s.partial = nil
	}
	coloured := hasColours(s.to)
	cleaned := make([]byte, 0, len(rest))
next:
	for len(rest) > 0 {
		if coloured {
			for _, colour := range colours {
				if after, ok := bytes.CutPrefix(rest, colour); ok {
					cleaned, rest = append(cleaned, colour...), after
					continue next
				}
			}
		}
		if !utf8.FullRune(rest) {
			s.partial = bytes.Clone(rest)
			break
		}
		r, size := utf8.DecodeRune(rest)
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			r = unicode.ReplacementChar
		}
		cleaned, rest = utf8.AppendRune(cleaned, r), rest[size:]
	}
	return cleaned
}

// underneath is what a stream leads to.
func underneath(w any) any {
	switch s := w.(type) {
	case *stream:
		return s.to
	case asIs:
		return s.to
	default:
		return w
	}
}

func isTerminal(w any) bool {
	file, ok := underneath(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func hasColours(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// uncleaned is a stream for what is clean already.
func uncleaned(w io.Writer) io.Writer {
	if s, ok := w.(*stream); ok {
		return asIs{s}
	}
	return w
}
