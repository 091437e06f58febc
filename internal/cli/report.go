package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/text"
)

type reportCmd struct {
	Date   string   `xor:"period" placeholder:"DATE"`
	Month  string   `xor:"period" placeholder:"MONTH"`
	Coupon []uint64 `placeholder:"ID"`
	Output string   `enum:"table,csv,json,html" default:"table"`
	Out    string   `type:"path" placeholder:"FILE"`
}

// Validate reports what is impossible about the flags.
func (c *reportCmd) Validate() error {
	var problems []error
	if c.Date == "" && c.Month == "" {
		problems = append(problems, text.UsageErrorf(text.PeriodMissing))
	}
	if _, err := c.period(time.UTC); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// period is the period of the report: a day by minutes, a month by hours.
func (c *reportCmd) period(zone *time.Location) (p report.Period, err error) {
	switch {
	case c.Date != "":
		p.Bucket = time.Minute
		if p.From, p.To, err = calendar.Day(c.Date, zone); err != nil {
			return p, text.UsageErrorf(text.WrongDate, "--date", c.Date)
		}
	case c.Month != "":
		p.Bucket = time.Hour
		if p.From, p.To, err = calendar.Month(c.Month, zone); err != nil {
			return p, text.UsageErrorf(text.WrongMonth, c.Month)
		}
	default:
		return p, nil
	}
	return p, after1970(p.From)
}

func (c *reportCmd) run(ctx context.Context, p *program) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	period, _ := c.period(p.zone) // Validate has read it
	found, err := (&report.Reporter{DB: s.MySQL, Store: s.store, Users: s.users}).Report(ctx, period, c.Coupon)
	if err != nil {
		return err
	}
	r := &periodReport{program: p, Report: found, period: period, name: c.Date + c.Month, generatedAt: p.now()}
	if c.Out == "" {
		return errors.Join(r.print(p.stdout, c.Output), r.reportUnread())
	}
	if err := writeFile(c.Out, func(w io.Writer) error { return r.print(w, c.Output) }); err != nil {
		return text.UsageErrorf(text.OutNotWritten, err)
	}
	fmt.Fprintln(p.stderr, p.sprintf(text.WrittenTo, c.Out))
	return r.reportUnread()
}

// reportUnread prints which coupons are missing in the report. It returns the exit code.
func (r *periodReport) reportUnread() error {
	var classes []coupon.Class
	for _, u := range r.Unread {
		fmt.Fprintf(r.stderr, "settle: %s\n", u.Error)
		classes = append(classes, classOf(u.Err))
	}
	if len(classes) > 0 {
		fmt.Fprintln(r.stderr, r.sprintf(text.AdviseRunAgain))
	}
	return worst(classes)
}

// missing describes the coupons that are missing in the report.
func (r *periodReport) missing() (lines []string) {
	for _, u := range r.Unread {
		lines = append(lines, r.sprintf(text.CouponNotRead, u.Coupon, output.Printable(u.Name)))
	}
	return lines
}

// writeFile replaces a file atomically. It writes into devices and pipes directly, and keeps links.
func writeFile(path string, write func(io.Writer) error) error {
	if there, err := os.Stat(path); err == nil {
		if !there.Mode().IsRegular() {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(write(file), file.Close())
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // nothing is there any more when all went well
	if err := errors.Join(write(file), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// periodReport is a report as it is printed.
type periodReport struct {
	*program
	*report.Report
	period      report.Period
	name        string // the date or the month
	generatedAt time.Time
}

func (r *periodReport) print(w io.Writer, format string) error {
	switch format {
	case "json":
		return r.printJSON(w)
	case "csv":
		return r.printCSV(w)
	case "html":
		return r.printHTML(w)
	default:
		r.printTable(w)
		return nil
	}
}

func (r *periodReport) printJSON(w io.Writer) error {
	return output.JSON(w, struct {
		Period      string    `json:"period"`
		From        time.Time `json:"from"`
		To          time.Time `json:"to"` // the first instant behind it
		TimeZone    string    `json:"timeZone"`
		GeneratedAt time.Time `json:"generatedAt"`
		*report.Report
	}{r.name, r.period.From, r.period.To, r.zone.String(), r.generatedAt.UTC().Truncate(time.Second), r.Report})
}

// figure is a column of counts, which has a sum.
type figure struct {
	column, csv text.Message
	of          func(report.Counts) *big.Int
}

func count(of func(report.Counts) int64) func(report.Counts) *big.Int {
	return func(c report.Counts) *big.Int { return big.NewInt(of(c)) }
}

var figures = []figure{
	{text.ColumnApplications, text.ColumnApplications, count(func(c report.Counts) int64 { return c.Applications })},
	{text.ColumnIssued, text.ColumnIssued, count(func(c report.Counts) int64 { return c.Issued })},
	{text.ColumnNotSelected, text.CSVNotSelected, count(func(c report.Counts) int64 { return c.NotSelected })},
	{text.ColumnRejected, text.ColumnRejected, count(func(c report.Counts) int64 { return c.Rejected })},
	{text.ColumnAlreadyHeld, text.CSVAlreadyIssued, count(func(c report.Counts) int64 { return c.AlreadyIssued })},
	{text.ColumnUnderReview, text.CSVUnderReview, count(func(c report.Counts) int64 { return c.UnderReview })},
	{text.ColumnWaiting, text.ColumnWaiting, count(func(c report.Counts) int64 { return c.Waiting })},
	{text.ColumnValueWon, text.CSVValue, func(c report.Counts) *big.Int { return c.ValueWon }},
	{text.ColumnSeats, text.ColumnSeats, count(func(c report.Counts) int64 { return c.Seats })},
	{text.ColumnSeatsLeft, text.CSVSeatsLeft, count(func(c report.Counts) int64 { return c.SeatsLeft })},
	{text.ColumnGap, text.ColumnGap, count(func(c report.Counts) int64 { return c.Gap })},
}

// outcomes are the figures that add up to the applications.
const firstOutcome, outcomesEnd = 1, 7

// meaning explains the figures.
func (r *periodReport) meaning() []string {
	return []string{
		r.sprintf(text.ReportMeaning,
			output.InZone(r.period.From, r.zone), output.InZone(r.period.To, r.zone)),
		r.sprintf(text.ReportValue),
		r.sprintf(text.ReportWholeCoupon),
	}
}

// chains are the ends of the audit chains: with a kept report, later changes of earlier events can be detected.
func (r *periodReport) chains() (lines []string) {
	for _, c := range r.Coupons {
		if c.AuditHead.Seq > 0 {
			lines = append(lines, r.auditHead(c.Coupon, c.AuditHead))
		}
	}
	return lines
}

var actionColumns = []text.Message{text.ColumnCoupon, text.ColumnAt, text.ColumnActor, text.ColumnAction, text.ColumnReason, text.ColumnDetail}

func (r *periodReport) actionsTitle() string {
	return r.sprintf(text.ReportActions)
}

// deeds are the rows of the audit events, under actionColumns.
func (r *periodReport) deeds() (rows [][]string) {
	for _, c := range r.Coupons {
		for _, d := range c.Audit {
			detail := output.Printable(d.Detail)
			if d.Count > 1 {
				detail = r.sprintf(text.ApplicationCount, output.Grouped(strconv.FormatInt(d.Count, 10)))
			}
			rows = append(rows, []string{strconv.FormatUint(c.Coupon, 10), r.second(d.At), output.Printable(d.Actor), r.action(d.Action), output.Printable(d.Reason), detail})
		}
	}
	return rows
}

// leftOut reports the audit events that are not listed.
func (r *periodReport) leftOut() (lines []string) {
	for _, c := range r.Coupons {
		if c.AuditLeftOut > 0 {
			lines = append(lines, r.sprintf(text.ActionsLeftOut, c.Coupon, c.AuditLeftOut))
		}
	}
	return lines
}

func (r *periodReport) title() string {
	return r.sprintf(text.ReportTitle, r.name)
}

func (r *periodReport) generated() string {
	return r.sprintf(text.GeneratedAt, r.second(r.generatedAt))
}

// second is an instant as exactly as finance wants it.
func (r *periodReport) second(at time.Time) string {
	return output.InZone(at.Truncate(time.Second), r.zone)
}

func (r *periodReport) none() string {
	return r.sprintf(text.ReportEmpty)
}

// settled is when, by which runs and how long.
func (r *periodReport) settled(c report.Coupon) (at, by, long string) {
	at = "–"
	if c.LastSettledAt != nil {
		at = r.second(*c.LastSettledAt)
	}
	return at, runsOf(c), took(c.Millis)
}

// runsOf are the runs that settled a coupon, with … for those that are not named.
func runsOf(c report.Coupon) string {
	named := make([]string, len(c.Runs))
	for i, run := range c.Runs {
		named[i] = strconv.FormatUint(run, 10)
	}
	if c.RunCount > len(named) {
		named = append(named, fmt.Sprintf("… (%d)", c.RunCount))
	}
	return strings.Join(named, " ")
}

func (r *periodReport) printTable(w io.Writer) {
	fmt.Fprintln(w, r.title())
	fmt.Fprintln(w, r.generated())
	for _, line := range r.missing() {
		fmt.Fprintln(w, output.Bad(r.stdout, line))
	}
	if len(r.Coupons) == 0 {
		if len(r.Unread) == 0 {
			fmt.Fprintln(w, r.none())
		}
		return
	}
	t := output.Table(w)
	header := r.header(text.ColumnCoupon, text.ColumnName)
	var right []table.ColumnConfig
	for i, f := range figures {
		header = append(header, f.column.In(r.language))
		right = append(right, table.ColumnConfig{Number: len("cn") + i + 1, Align: pretty.AlignRight, AlignHeader: pretty.AlignRight, AlignFooter: pretty.AlignRight})
	}
	t.SetColumnConfigs(right)
	t.AppendHeader(append(header, r.header(text.ColumnSettledAt, text.ColumnRuns, text.ColumnTime)...))
	for _, c := range r.Coupons {
		at, by, long := r.settled(c)
		t.AppendRow(append(append(table.Row{c.Coupon, output.Printable(c.Name)}, forPeople(c.Counts)...), at, by, long))
	}
	t.AppendFooter(append(append(table.Row{r.sprintf(text.Total), r.sprintf(text.CouponCount, len(r.Coupons))}, forPeople(r.Total)...), "", "", ""))
	t.Render()
	if deeds := r.deeds(); len(deeds) > 0 {
		fmt.Fprintln(w, r.actionsTitle())
		t := output.Table(w)
		t.AppendHeader(r.header(actionColumns...))
		for _, cells := range deeds {
			var row table.Row
			for _, cell := range cells {
				row = append(row, cell)
			}
			t.AppendRow(row)
		}
		t.Render()
	}
	for _, line := range slices.Concat(r.leftOut(), r.meaning(), r.chains()) {
		fmt.Fprintln(w, line)
	}
}

func forPeople(c report.Counts) (row table.Row) {
	for _, f := range figures {
		row = append(row, output.Grouped(f.of(c).String()))
	}
	return row
}

// printCSV writes a row per coupon. It has no sums, so that a spreadsheet that adds up a column counts every application once.
// A coupon that could not be read has no figures, and the error in its last column.
func (r *periodReport) printCSV(w io.Writer) error {
	columns := r.headerCells(text.CSVPeriod, text.CSVCouponID, text.ColumnName, text.CSVDiscount)
	for _, f := range figures {
		columns = append(columns, f.csv.In(r.language))
	}
	columns = append(columns, r.headerCells(text.CSVFirstSettledAt, text.CSVLastSettledAt, text.CSVTimeZone, text.ColumnRuns, text.CSVRunCount,
		text.CSVDuration, text.CSVAuditSeq, text.CSVAuditHash, text.CSVReadError)...)
	return output.CSV(w, func(row func(cells ...any)) {
		row(columns...)
		for _, c := range r.Coupons {
			cells := []any{r.name, c.Coupon, c.Name, c.DiscountWon}
			for _, f := range figures {
				cells = append(cells, f.of(c.Counts))
			}
			row(append(cells, r.sheetTime(c.FirstSettledAt), r.sheetTime(c.LastSettledAt), r.zone.String(), runsOf(c), c.RunCount, orEmpty(c.Millis),
				digits(c.AuditHead.Seq), c.AuditHead.Hash, "")...)
		}
		for _, u := range r.Unread {
			cells := slices.Repeat([]any{""}, len(columns))
			cells[0], cells[1], cells[2], cells[len(cells)-1] = r.name, u.Coupon, u.Name, u.Error
			row(cells...)
		}
	})
}
