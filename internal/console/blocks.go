package console

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
)

// block is a line or a table of a page.
type block struct {
	Text  string
	Table *tableOf
}

type tableOf struct {
	Caption      string
	Header       []cell
	Rows, Footer [][]cell
	Plain        bool // it has no header: the first column has the names
}

type cell struct {
	Text, Href string
	Number     bool
}

// blocks turns what a verb has printed into parts of a page. Ids become links that the person may follow.
func (p *page) blocks(printed []output.Block) (all []block) {
	for _, b := range printed {
		if b.Sheet == nil {
			all = append(all, block{Text: strings.TrimSpace(output.Printable(b.Text + b.Digest))})
			continue
		}
		t := &tableOf{Header: p.cells(b.Sheet.Header), Plain: b.Sheet.Header == nil}
		for _, row := range b.Sheet.Rows {
			if slices.ContainsFunc(row, isOfRequest) && !p.Person.May(signin.SeeLists) {
				continue
			}
			t.Rows = append(t.Rows, p.cells(row))
		}
		if len(t.Rows) > 0 && len(t.Header) <= len(t.Rows[0]) {
			for i := range t.Header {
				t.Header[i].Number = t.Rows[0][i].Number
			}
		}
		if b.Sheet.Footer != nil {
			t.Footer = [][]cell{p.cells(b.Sheet.Footer)}
		}
		all = append(all, block{Table: t})
	}
	return all
}

func isOfRequest(value any) bool {
	_, is := value.(output.OfRequest)
	return is
}

func (p *page) cells(row []any) []cell {
	all := make([]cell, len(row))
	for i, value := range row {
		all[i] = p.cell(value)
	}
	return all
}

func (p *page) cell(value any) cell {
	c := cell{Text: strings.TrimSpace(fmt.Sprint(value))}
	switch id := value.(type) {
	case coupon.CouponID:
		if id != 0 {
			c.Href = fmt.Sprintf("/coupons/%d", id)
		}
	case coupon.RunID:
		if id != 0 {
			c.Href = fmt.Sprintf("/runs/%d", id)
		}
	case coupon.UserID:
		if p.Person.May(signin.SeePerson) {
			c.Href = fmt.Sprintf("/people/%d", id)
		}
	case approval.ID:
		c.Href = fmt.Sprintf("/approvals/%d", id)
	default:
		switch reflect.ValueOf(value).Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Uint32, reflect.Int32:
			c.Number, c.Text = true, output.Grouped(c.Text)
		default:
		}
	}
	if p.leads != nil {
		c.Href = cmp.Or(p.leads(value), c.Href)
	}
	c.Text = output.Printable(c.Text)
	return c
}

// lines returns the lines that a verb has printed.
func lines(printed []output.Block) (all []string) {
	for _, b := range printed {
		line := strings.TrimSpace(output.Printable(strings.TrimPrefix(b.Text, "settle: ")))
		if b.Sheet == nil && line != "" {
			all = append(all, line)
		}
	}
	return all
}
