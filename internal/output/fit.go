package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// fitting is a table for a terminal. If it is wider than that, each row becomes lines of a name and a value.
type fitting struct {
	table.Writer
	to             io.Writer
	width          int // of the terminal, in columns
	header, footer table.Row
	rows           []table.Row
}

func (f *fitting) AppendHeader(row table.Row, of ...table.RowConfig) {
	f.header = row
	f.Writer.AppendHeader(row, of...)
}

func (f *fitting) AppendFooter(row table.Row, of ...table.RowConfig) {
	f.footer = row
	f.Writer.AppendFooter(row, of...)
}

func (f *fitting) AppendRow(row table.Row, of ...table.RowConfig) {
	f.rows = append(f.rows, row)
	f.Writer.AppendRow(row, of...)
}

func (f *fitting) Render() string {
	whole := f.Writer.Render()
	line, _, _ := strings.Cut(whole, "\n")
	if pretty.StringWidthWithoutEscSequences(line) > f.width {
		whole = f.upright() + "\n"
	}
	fmt.Fprintln(f.to, whole)
	return whole
}

// upright has a line for each value, and an empty line after each row. Values that are empty are left out.
func (f *fitting) upright() string {
	rows := f.rows
	if f.footer != nil {
		rows = append(rows, f.footer)
	}
	var lines []string
	for i, row := range rows {
		if i > 0 && f.header != nil {
			lines = append(lines, "")
		}
		names, values := f.header, row
		if f.header == nil { // the first column has the names
			names, values = row[:1], row[1:]
		}
		for at, value := range values {
			name, shown := "", strings.TrimSpace(fmt.Sprint(value))
			if at < len(names) {
				name = fmt.Sprint(names[at])
			}
			if shown != "" {
				lines = append(lines, pretty.Pad(name, f.nameWidth(), ' ')+"  "+shown)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// nameWidth is the width of the longest name.
func (f *fitting) nameWidth() (width int) {
	names := f.header
	if f.header == nil {
		for _, row := range f.rows {
			names = append(names, row[0])
		}
	}
	for _, name := range names {
		width = max(width, pretty.StringWidthWithoutEscSequences(fmt.Sprint(name)))
	}
	return width
}

// widthOf returns the width of a terminal; 0 if w is none, or does not say it.
func widthOf(w any) int {
	if s, ok := w.(*Stream); ok {
		w = s.to
	}
	if file, ok := w.(*os.File); ok && IsTerminal(file) {
		width, _, err := term.GetSize(int(file.Fd()))
		if err == nil {
			return width
		}
	}
	return 0
}
