package output

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Document collects what a verb prints, as lines and tables, for a page. It is an io.Writer, and safe for concurrent
// use.
type Document struct {
	mu     sync.Mutex
	blocks []Block
	line   []byte // the beginning of a line
	count  int

	notFound bool
}

// Block is a line of text, a table, or the digest of a preview.
type Block struct {
	Text    string
	Sheet   *Sheet // nil: a line or a digest
	Digest  string // empty: a line or a table
	CostWon int64  // of the plan that has the digest; 0: nothing, or not known
}

// Digest prints the digest of a preview. A document has it as a block of its own.
func Digest(w io.Writer, digest string) { Plan(w, digest, 0) }

// Plan is Digest for a plan with a cost.
func Plan(w io.Writer, digest string, costWon int64) {
	d := documentOf(w)
	if d == nil {
		fmt.Fprintf(w, "  %s\n", digest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(Block{Digest: digest, CostWon: costWon})
}

// SetNotFound says that what the verb was asked about does not exist. Only a document keeps it: people read the error.
func SetNotFound(w io.Writer) {
	if d := documentOf(w); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.notFound = true
	}
}

// NotFound reports whether what the verb was asked about does not exist.
func (d *Document) NotFound() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notFound
}

// Sheet is a table. Its cells have their types, so that a page can make links of ids.
type Sheet struct {
	Header []any // may be nil
	Rows   [][]any
	Footer []any // may be nil
	Left   int   // rows that were left out at the end
}

// maxSheetRows bounds the memory of a table. A file has all rows.
const maxSheetRows = 1000

// maxBlocks bounds the memory of a document; what comes after is left out.
const maxBlocks = 20_000

func (d *Document) add(b Block) {
	if len(d.blocks) < maxBlocks {
		d.blocks = append(d.blocks, b)
	}
}

func (d *Document) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line = append(d.line, p...)
	for {
		line, rest, complete := bytes.Cut(d.line, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		if len(line) > 0 {
			d.add(Block{Text: string(line)})
		}
		d.line = bytes.Clone(rest)
	}
}

// Blocks returns what was printed so far.
func (d *Document) Blocks() []Block {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.blocks)
	if len(d.line) > 0 {
		all = append(all, Block{Text: string(d.line)})
	}
	return all
}

// Count is the progress of the verb, such as applications.
func (d *Document) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

func (d *Document) addCount(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count += n
}

// documentOf returns the document that a writer writes to; nil if it writes to none.
func documentOf(w io.Writer) *Document {
	if s, ok := w.(*Stream); ok {
		w = s.to
	}
	d, _ := w.(*Document)
	return d
}

// sheetWriter is a table.Writer that renders into a document.
type sheetWriter struct {
	table.Writer
	to    *Document
	sheet Sheet
}

func (s *sheetWriter) AppendHeader(row table.Row, _ ...table.RowConfig) { s.sheet.Header = row }
func (s *sheetWriter) AppendFooter(row table.Row, _ ...table.RowConfig) { s.sheet.Footer = row }
func (s *sheetWriter) AppendRow(row table.Row, _ ...table.RowConfig) {
	if len(s.sheet.Rows) == maxSheetRows {
		s.sheet.Left++
		return
	}
	s.sheet.Rows = append(s.sheet.Rows, row)
}

func (s *sheetWriter) Render() string {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.add(Block{Sheet: &s.sheet})
	return ""
}
