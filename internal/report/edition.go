package report

import (
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Edition is a report for readers: Table, HTML, CSV and JSON write it.
type Edition struct {
	*Report
	Period
	output.Locale
	Name        string // of the period: the date or the month
	GeneratedAt time.Time
}

// figures are the columns of counts.
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

// The figures that add up to the applications.
const firstOutcome, outcomesEnd = 1, 7

// values are the figures.
func (c Counts) values() []*big.Int {
	var all []*big.Int
	for _, n := range c.numbers() {
		all = append(all, big.NewInt(*n))
	}
	return slices.Insert(all, outcomesEnd, c.ValueWon)
}

// cell is a cell of the table of coupons.
type cell struct {
	Text   string
	Number bool
	Bad    bool // needs attention
}

func texts(of ...string) (cells []cell) {
	for _, t := range of {
		cells = append(cells, cell{Text: t})
	}
	return cells
}

func (e Edition) header() []cell {
	cells := texts(text.ColumnCoupon.In(e.Language), text.ColumnName.In(e.Language))
	for _, f := range figures {
		cells = append(cells, cell{Text: f.column.In(e.Language), Number: true})
	}
	return append(cells, texts(text.ColumnSettledAt.In(e.Language), text.ColumnRuns.In(e.Language), text.ColumnTime.In(e.Language))...)
}

func (e Edition) row(c Coupon) []cell {
	at := "–"
	if c.LastSettledAt != nil {
		at = e.second(*c.LastSettledAt)
	}
	cells := append(texts(fmt.Sprint(c.Coupon), output.Printable(c.Name)), figureCells(c.Counts)...)
	return append(cells, texts(at, runsOf(c), output.Took(c.Millis))...)
}

func (e Edition) total() []cell {
	cells := append(texts(e.Sprintf(text.Total), e.Sprintf(text.CouponCount, len(e.Coupons))), figureCells(e.Total)...)
	return append(cells, texts("", "", "")...)
}

func figureCells(c Counts) (cells []cell) {
	for i, n := range c.values() {
		cells = append(cells, cell{Text: output.Grouped(n.String()), Number: true, Bad: figures[i].column == text.ColumnGap && n.Sign() != 0})
	}
	return cells
}

// runsOf are the runs that settled a coupon, with … for those that are not named.
func runsOf(c Coupon) string {
	named := make([]string, len(c.Runs))
	for i, run := range c.Runs {
		named[i] = strconv.FormatUint(uint64(run), 10)
	}
	if c.RunCount > len(named) {
		named = append(named, fmt.Sprintf("… (%d)", c.RunCount))
	}
	return strings.Join(named, " ")
}

func (e Edition) title() string { return e.Sprintf(text.ReportTitle, e.Name) }

func (e Edition) generated() string { return e.Sprintf(text.GeneratedAt, e.second(e.GeneratedAt)) }

// second is an instant without fractions.
func (e Edition) second(at time.Time) string { return e.Instant(at.Truncate(time.Second)) }

// missing describes the coupons that could not be read.
func (e Edition) missing() (lines []string) {
	for _, u := range e.Unread {
		lines = append(lines, e.Sprintf(text.CouponNotRead, u.Coupon, output.Printable(u.Name)))
	}
	return lines
}

// meaning explains the figures.
func (e Edition) meaning() []string {
	return []string{e.Sprintf(text.ReportMeaning, e.Instant(e.From), e.Instant(e.To)), e.Sprintf(text.ReportValue), e.Sprintf(text.ReportWholeCoupon)}
}

// chains are the ends of the audit chains: with a kept report, later changes of earlier events can be detected.
func (e Edition) chains() (lines []string) {
	for _, c := range e.Coupons {
		if c.AuditHead.Seq > 0 {
			lines = append(lines, e.Sprintf(text.AuditChainEnds, c.Coupon, c.AuditHead.Seq, c.AuditHead.Hash))
		}
	}
	return lines
}

var actionColumns = []text.Message{text.ColumnCoupon, text.ColumnAt, text.ColumnActor, text.ColumnAction, text.ColumnReason, text.ColumnDetail}

// actions are the rows of operators' actions, under actionColumns.
func (e Edition) actions() (rows [][]any) {
	for _, c := range e.Coupons {
		for _, a := range c.Audit {
			detail := output.Printable(a.Detail)
			if a.Count > 1 {
				detail = e.Sprintf(text.ApplicationCount, output.Grouped(strconv.FormatInt(a.Count, 10)))
			}
			rows = append(rows, []any{c.Coupon.String(), e.second(a.At), output.Printable(a.Actor),
				output.Word(e.Language, a.Action), output.Printable(a.Reason), detail})
		}
	}
	return rows
}

// leftOut reports the actions that are not listed.
func (e Edition) leftOut() (lines []string) {
	for _, c := range e.Coupons {
		if c.AuditLeftOut > 0 {
			lines = append(lines, e.Sprintf(text.ActionsLeftOut, c.Coupon, c.AuditLeftOut))
		}
	}
	return lines
}

// JSON writes the report for programs.
func (e Edition) JSON(w io.Writer) error {
	return output.JSON(w, struct {
		Period      string    `json:"period"`
		From        time.Time `json:"from"`
		To          time.Time `json:"to"` // the first instant after the period
		TimeZone    string    `json:"timeZone"`
		GeneratedAt time.Time `json:"generatedAt"`
		*Report
	}{e.Name, e.From, e.To, e.Zone.String(), e.GeneratedAt.UTC().Truncate(time.Second), e.Report})
}

// CSV writes a row per coupon and no sums, so that a spreadsheet that adds up a column counts every application once. A coupon
// that could not be read has no figures, and the error in its last column.
func (e Edition) CSV(w io.Writer) error {
	columns := e.Cells(text.CSVPeriod, text.CSVCouponID, text.ColumnName, text.CSVDiscount)
	for _, f := range figures {
		columns = append(columns, f.csv.In(e.Language))
	}
	columns = append(columns, e.Cells(text.CSVFirstSettledAt, text.CSVLastSettledAt, text.CSVTimeZone, text.ColumnRuns, text.CSVRunCount,
		text.CSVDuration, text.CSVAuditSeq, text.CSVAuditHash, text.CSVReadError)...)
	return output.CSV(w, func(row func(cells ...any)) {
		row(columns...)
		for _, c := range e.Coupons {
			row(e.csvRow(c)...)
		}
		for _, u := range e.Unread {
			cells := make([]any, len(columns))
			for i := range cells {
				cells[i] = ""
			}
			cells[0], cells[1], cells[2], cells[len(cells)-1] = e.Name, u.Coupon, u.Name, u.Error
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
	return append(cells, e.SheetTime(c.FirstSettledAt), e.SheetTime(c.LastSettledAt), e.Zone.String(), runsOf(c), c.RunCount,
		output.Known(c.Millis, ""), seq, c.AuditHead.Hash, "")
}
