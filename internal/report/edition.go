package report

import (
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Edition is a report in one language and time zone. Table, HTML, CSV and JSON write it.
type Edition struct {
	*Report
	Period
	output.Locale
	Name        string // the dates or the month that the report covers
	Campaign    uint64 // the campaign that the report covers; 0: no campaign was named
	GeneratedAt time.Time
}

var figures = []struct{ column, csv text.Message }{
	{text.ColumnApplications, text.ColumnApplications},
	{text.ColumnIssued, text.ColumnIssued},
	{text.ColumnNotSelected, text.CSVNotSelected},
	{text.ColumnRejected, text.ColumnRejected},
	{text.ColumnAlreadyHeld, text.CSVAlreadyIssued},
	{text.ColumnUnderReview, text.CSVUnderReview},
	{text.ColumnWaiting, text.ColumnWaiting},
	{text.ColumnValueWon, text.CSVValue},
	{text.ColumnSeats, text.ColumnSeats},
	{text.ColumnSeatsLeft, text.CSVSeatsLeft},
	{text.ColumnGap, text.ColumnGap},
}

// figures[firstOutcome:outcomesEnd] are the outcomes, which add up to the applications.
const firstOutcome, outcomesEnd = 1, 7

func (c Counts) values() []*big.Int {
	var all []*big.Int
	for _, n := range c.numbers() {
		all = append(all, big.NewInt(*n))
	}
	return slices.Insert(all, outcomesEnd, c.ValueWon)
}

type cell struct {
	Text   string
	Number bool
	Bad    bool // the number needs attention
}

func row(id, name string, figures []cell, at, runs, took string) []cell {
	return slices.Concat([]cell{{Text: id}, {Text: name}}, figures, []cell{{Text: at}, {Text: runs}, {Text: took}})
}

func (e Edition) header() []cell {
	var cells []cell
	for _, f := range figures {
		cells = append(cells, cell{Text: f.column.In(e.Language), Number: true})
	}
	return row(e.Sprintf(text.ColumnCoupon), e.Sprintf(text.ColumnName), cells,
		e.Sprintf(text.ColumnSettledAt), e.Sprintf(text.ColumnRuns), e.Sprintf(text.ColumnTime))
}

func (e Edition) row(c Coupon) []cell {
	at := "–"
	if c.LastSettledAt != nil {
		at = e.second(*c.LastSettledAt)
	}
	return row(c.Coupon.String(), output.Printable(c.Name)+e.marks(c), figureCells(c.Counts, c.DiscountPercent > 0), at,
		runsOf(c), output.Took(c.Millis))
}

func (e Edition) total() []cell {
	percent := slices.ContainsFunc(e.Coupons, func(c Coupon) bool { return c.DiscountPercent > 0 })
	return row(e.Sprintf(text.Total), e.Sprintf(text.CouponCount, len(e.Coupons)), figureCells(e.Total, percent), "",
		"", "")
}

// figureCells shows ValueWon as a limit if it counts coupons with a percentage.
func figureCells(c Counts, percent bool) (cells []cell) {
	for i, n := range c.values() {
		cells = append(cells, cell{Text: limit(n, percent && figures[i].column == text.ColumnValueWon), Number: true,
			Bad: figures[i].column == text.ColumnGap && n.Sign() != 0})
	}
	return cells
}

// runsOf lists the runs that settled a coupon. If some are left out, it ends with … and the number of all runs.
func runsOf(c Coupon) string {
	named := strings.Trim(fmt.Sprint(c.Runs), "[]")
	if c.RunCount > len(c.Runs) {
		named += fmt.Sprintf(" … (%d)", c.RunCount)
	}
	return named
}

// marks says what is special about a coupon.
func (e Edition) marks(c Coupon) string {
	var marks []string
	if c.Cadence == coupon.Immediate {
		marks = append(marks, e.Sprintf(text.CadenceImmediate))
	}
	if c.Frozen {
		marks = append(marks, e.Sprintf(text.ColumnFrozen))
	}
	if len(marks) == 0 {
		return ""
	}
	return " (" + strings.Join(marks, ", ") + ")"
}

// frozen says who froze which coupon.
func (e Edition) frozen() (lines []string) {
	for _, c := range e.Coupons {
		switch {
		case c.Freeze != nil:
			lines = append(lines, e.Sprintf(text.ReportFrozen, c.Coupon, e.second(c.Freeze.At),
				output.Printable(c.Freeze.Actor), output.Printable(c.Freeze.Reason)))
		case c.Frozen:
			lines = append(lines, e.Sprintf(text.ReportFrozenUnknown, c.Coupon))
		}
	}
	return lines
}

// erased says how many applications were forgotten. When they arrived is not known any more.
func (e Edition) erased() (lines []string) {
	for _, c := range e.Coupons {
		if c.Erased > 0 {
			lines = append(lines, e.Sprintf(text.ReportErased, c.Coupon, c.Erased))
		}
	}
	return lines
}

func (e Edition) title() string {
	if e.Campaign > 0 {
		return e.Sprintf(text.ReportOfCampaign, e.Campaign, e.Name)
	}
	return e.Sprintf(text.ReportTitle, e.Name)
}

func (e Edition) generated() string { return e.Sprintf(text.GeneratedAt, e.second(e.GeneratedAt)) }

func (e Edition) second(at time.Time) string { return e.Instant(at.Truncate(time.Second)) }

func (e Edition) missing() (lines []string) {
	for _, u := range e.Unread {
		lines = append(lines, e.Sprintf(text.CouponNotRead, u.Coupon, output.Printable(u.Name)))
	}
	return lines
}

func (e Edition) meaning() []string {
	return []string{e.Sprintf(text.ReportMeaning, e.Instant(e.From), e.Instant(e.To)), e.Sprintf(text.ReportValue),
		e.Sprintf(text.ReportWholeCoupon), e.Sprintf(text.UserCouponsMeaning)}
}

// chains returns the ends of the audit chains. With a report at hand, anybody can tell whether events up to them were
// changed later.
func (e Edition) chains() (lines []string) {
	for _, c := range e.Coupons {
		if c.AuditHead.Seq > 0 {
			lines = append(lines, e.Sprintf(text.AuditChainEnds, c.Coupon, c.AuditHead.Seq, c.AuditHead.Hash))
		}
	}
	return lines
}

var actionColumns = []text.Message{text.ColumnCoupon, text.ColumnAt, text.ColumnActor, text.ColumnAction,
	text.ColumnReason, text.ColumnDetail}

func (e Edition) actions() (rows [][]any) {
	for _, c := range e.Coupons {
		for _, a := range c.Audit {
			detail := e.Detail(a.Action, a.Detail)
			if a.Count > 1 {
				detail = e.Sprintf(text.ApplicationCount, output.Grouped(strconv.FormatInt(a.Count, 10)))
			}
			rows = append(rows, []any{c.Coupon.String(), e.second(a.At), output.Printable(a.Actor),
				output.Word(e.Language, a.Action), output.Printable(a.Reason), detail})
		}
	}
	return rows
}

func (e Edition) leftOut() (lines []string) {
	for _, c := range e.Coupons {
		if c.AuditLeftOut > 0 {
			lines = append(lines, e.Sprintf(text.ActionsLeftOut, c.Coupon, c.AuditLeftOut))
		}
	}
	return lines
}

func (e Edition) JSON(w io.Writer) error {
	return output.JSON(w, struct {
		Period      string    `json:"period"`
		Campaign    uint64    `json:"campaign,omitempty"` // 0: no campaign was named
		From        time.Time `json:"from"`
		To          time.Time `json:"to"` // the first instant after the period
		TimeZone    string    `json:"timeZone"`
		GeneratedAt time.Time `json:"generatedAt"`
		*Report
	}{e.Name, e.Campaign, e.From, e.To, e.Zone.String(), e.GeneratedAt.UTC().Truncate(time.Second), e.Report})
}

// CSV writes one row per coupon and no sums. A spreadsheet that adds up a column then counts every application once.
// The row of a coupon that could not be read has no figures, but an error. New columns come last.
func (e Edition) CSV(w io.Writer) error {
	columns := e.Cells(text.CSVPeriod, text.CSVCouponID, text.ColumnName, text.CSVDiscount)
	for _, f := range figures {
		columns = append(columns, f.csv.In(e.Language))
	}
	columns = append(columns, e.Cells(text.CSVFirstSettledAt, text.CSVLastSettledAt, text.CSVTimeZone, text.ColumnRuns,
		text.CSVRunCount, text.CSVDuration, text.CSVAuditSeq, text.CSVAuditHash, text.CSVReadError)...)
	failed := len(columns) - 1
	columns = append(columns, e.Cells(text.CSVCampaign, text.ColumnCadence, text.ColumnFrozen, text.CSVPercent,
		text.CSVMaxWon, text.CSVAsOf)...)
	for _, f := range userCouponFigures {
		columns = append(columns, f.csv.In(e.Language))
	}
	columns = append(columns, e.Sprintf(text.CSVErased))
	return output.CSV(w, func(row func(cells ...any)) {
		row(columns...)
		for _, c := range e.Coupons {
			row(e.csvRow(c)...)
		}
		for _, u := range e.Unread {
			cells := slices.Repeat([]any{""}, len(columns))
			cells[0], cells[1], cells[2], cells[failed] = e.Name, u.Coupon, u.Name, u.Error
			row(cells...)
		}
	})
}

func (e Edition) csvRow(c Coupon) []any {
	cells := []any{e.Name, c.Coupon, c.Name, c.DiscountWon}
	for _, n := range c.values() {
		cells = append(cells, n)
	}
	var seq any = ""
	if c.AuditHead.Seq > 0 {
		seq = c.AuditHead.Seq
	}
	var campaign any = ""
	if c.CampaignID > 0 {
		campaign = c.CampaignID
	}
	cells = append(cells, e.SheetTime(c.FirstSettledAt), e.SheetTime(c.LastSettledAt), e.Zone.String(), runsOf(c),
		c.RunCount, output.Known(c.Millis, ""), seq, c.AuditHead.Hash, "", campaign, c.Cadence, c.Frozen,
		c.DiscountPercent, c.DiscountMaxWon, e.SheetTime(&e.AsOf))
	for _, n := range c.UserCoupons.values() {
		cells = append(cells, n)
	}
	return append(cells, c.Erased)
}

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
	applications := grid{Header: e.header(), Total: e.total()}
	for _, c := range e.Coupons {
		applications.Rows = append(applications.Rows, e.row(c))
	}
	applications.print(w)
	for _, g := range e.grids() {
		fmt.Fprintln(w, g.Title)
		g.print(w)
	}
	if actions := e.actions(); len(actions) > 0 {
		e.Fprintln(w, text.ReportActions)
		t := output.Table(w)
		t.AppendHeader(e.Cells(actionColumns...))
		for _, row := range actions {
			t.AppendRow(row)
		}
		t.Render()
	}
	for _, line := range slices.Concat(e.frozen(), e.erased(), e.leftOut(), e.meaning(), e.chains()) {
		fmt.Fprintln(w, line)
	}
}

func (g grid) print(w io.Writer) {
	t := output.Table(w)
	columns := []table.ColumnConfig{rightAligned(1)}
	for i, c := range g.Header {
		if c.Number {
			columns = append(columns, rightAligned(i+1))
		}
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(tableRow(g.Header))
	for _, row := range g.Rows {
		t.AppendRow(tableRow(row))
	}
	if len(g.Total) > 0 {
		t.AppendFooter(tableRow(g.Total))
	}
	t.Render()
}

func rightAligned(column int) table.ColumnConfig {
	return table.ColumnConfig{Number: column, Align: pretty.AlignRight, AlignHeader: pretty.AlignRight,
		AlignFooter: pretty.AlignRight}
}

func tableRow(cells []cell) (row table.Row) {
	for _, c := range cells {
		row = append(row, c.Text)
	}
	return row
}
