package output

import (
	"bytes"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"

	pretty "github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Stream is standard output or error. It keeps control characters from the terminal: names, reasons and members of Redis were
// written by others. It remembers the first write that failed, because printing code rarely checks.
type Stream struct {
	to io.Writer

	mu      sync.Mutex
	partial []byte // of a character that the next write completes
	failed  error
}

// NewStream wraps a writer.
func NewStream(to io.Writer) *Stream { return &Stream{to: to} }

// Write takes everything, so that printing goes on; Failure returns what went wrong.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.clean(p))
	return len(p), nil
}

func (s *Stream) write(p []byte) {
	if len(p) == 0 || s.failed != nil {
		return
	}
	_, s.failed = s.to.Write(p)
}

// verbatim is for output that is clean already and needs its control characters: CSV, and what moves a cursor.
type verbatim struct{ *Stream }

func (s verbatim) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(p)
	return len(p), s.failed
}

// Failure is the error of the first write that failed.
func (s *Stream) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// colours are the only sequences that the program itself sends to a terminal.
var colours = [][]byte{[]byte(pretty.FgRed.EscapeSeq()), []byte(pretty.Reset.EscapeSeq())}

// clean puts U+FFFD in place of control characters and of what is no UTF-8, but for what ends a line, and colours where there
// are any.
func (s *Stream) clean(p []byte) []byte {
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
	case *Stream:
		return s.to
	case verbatim:
		return s.to
	default:
		return w
	}
}

// IsTerminal reports whether a reader, a writer or a Stream is a terminal.
func IsTerminal(w any) bool {
	file, ok := underneath(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func hasColours(w any) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// unchecked is a stream for output that is clean already.
func unchecked(w io.Writer) io.Writer {
	if s, ok := w.(*Stream); ok {
		return verbatim{s}
	}
	return w
}
