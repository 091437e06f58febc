package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Table writes the report for a terminal.
func (e Edition) Table(w io.Writer) {
	fmt.Fprintln(w, e.title())
	fmt.Fprintln(w, e.generated())
	for _, line := range e.missing() {
		fmt.Fprintln(w, output.Bad(w, line))
	}
	if len(e.Coupons) == 0 {
		if len(e.Unread) == 0 {
			e.Fprintln(w, text.ReportEmpty)
		}
		return
	}
	t := output.Table(w)
	header := e.header()
	columns := []table.ColumnConfig{rightAligned(1)}
	for i, c := range header {
		if c.Number {
			columns = append(columns, rightAligned(i+1))
		}
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(tableRow(header))
	for _, c := range e.Coupons {
		t.AppendRow(tableRow(e.row(c)))
	}
	t.AppendFooter(tableRow(e.total()))
	t.Render()
	if actions := e.actions(); len(actions) > 0 {
		e.Fprintln(w, text.ReportActions)
		t := output.Table(w)
		t.AppendHeader(e.Cells(actionColumns...))
		for _, row := range actions {
			t.AppendRow(row)
		}
		t.Render()
	}
	for _, line := range slices.Concat(e.leftOut(), e.meaning(), e.chains()) {
		fmt.Fprintln(w, line)
	}
}

func rightAligned(column int) table.ColumnConfig {
	return table.ColumnConfig{Number: column, Align: pretty.AlignRight, AlignHeader: pretty.AlignRight, AlignFooter: pretty.AlignRight}
}

func tableRow(cells []cell) (row table.Row) {
	for _, c := range cells {
		row = append(row, c.Text)
	}
	return row
}
