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

// Stream writes to standard output, standard error or a file. It replaces control characters, which names and reasons
// may contain. It remembers the first failed write, because code that prints does not check errors.
type Stream struct {
	to io.Writer

	mu      sync.Mutex
	partial []byte // the first bytes of a character whose other bytes come with the next write
	failed  error
}

func NewStream(to io.Writer) *Stream { return &Stream{to: to} }

// Write never returns an error; Failure returns the first one.
func (s *Stream) Write(p []byte) (int, error) {
	s.write(p, true)
	return len(p), nil
}

func (s *Stream) write(p []byte, clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if clean {
		p = s.clean(p)
	}
	if len(p) > 0 && s.failed == nil {
		_, s.failed = s.to.Write(p)
	}
}

// Failure returns the error of the first failed write; nil if none failed.
func (s *Stream) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// verbatim writes to a Stream and replaces no control characters. CSV and progress print some on purpose.
type verbatim struct{ *Stream }

func (s verbatim) Write(p []byte) (int, error) {
	s.write(p, false)
	return len(p), nil
}

// colours are the only escape sequences that the program prints through a Stream.
var colours = [][]byte{[]byte(pretty.FgRed.EscapeSeq()), []byte(pretty.Reset.EscapeSeq())}

// clean replaces control characters and invalid UTF-8 by U+FFFD. Tabs, line feeds and a terminal's colours stay.
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

// IsTerminal reports whether a reader, a writer or a Stream is a terminal.
func IsTerminal(w any) bool {
	if s, ok := w.(*Stream); ok {
		w = s.to
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func hasColours(w any) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// unchecked returns a writer that does not replace control characters. The caller has cleaned the texts.
func unchecked(w io.Writer) io.Writer {
	if s, ok := w.(*Stream); ok {
		return verbatim{s}
	}
	return w
}
