package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// maxRunsListed bounds a page.
const maxRunsListed = 500

type runsCmd struct {
	Date    string `placeholder:"DATE"`
	Coupon  uint64 `placeholder:"ID"`
	Status  string `enum:",RUNNING,SUCCEEDED,HELD,FAILED,ABANDONED" default:"" placeholder:"STATUS"`
	Trigger string `enum:",CRON,MANUAL,DLQ_RETRY" default:"" placeholder:"TRIGGER"`
	Limit   int    `default:"20" placeholder:"N"`
	Before  uint64 `placeholder:"RUN"`
	Output  string `enum:"table,json,csv" default:"table"`
}

// Validate reports what is impossible about the flags.
func (c *runsCmd) Validate() error {
	var problems []error
	if c.Limit < 1 || c.Limit > maxRunsListed {
		problems = append(problems, text.UsageErrorf(text.WrongRunsLimit, c.Limit, maxRunsListed))
	}
	if _, err := c.filter(time.UTC); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (c *runsCmd) filter(zone *time.Location) (history.RunFilter, error) {
	f := history.RunFilter{Coupon: c.Coupon, Status: c.Status, Trigger: c.Trigger, Before: c.Before, Limit: c.Limit}
	if c.Date == "" {
		return f, nil
	}
	var err error
	if f.From, f.To, err = calendar.Day(c.Date, zone); err != nil {
		return f, text.UsageErrorf(text.WrongDate, "--date", c.Date)
	}
	return f, after1970(f.From)
}

// next are the flags of the next page.
func (c *runsCmd) next(before uint64) string {
	flags := []string{"settle runs"}
	for _, flag := range []struct{ name, value string }{
		{"date", c.Date}, {"status", c.Status}, {"trigger", c.Trigger},
		{"coupon", digits(c.Coupon)}, {"limit", digits(uint64(c.Limit))}, {"before", digits(before)},
	} {
		if flag.value != "" && !(flag.name == "limit" && c.Limit == 20) {
			flags = append(flags, "--"+flag.name+"="+flag.value)
		}
	}
	return strings.Join(flags, " ")
}

// digits is empty for none.
func digits(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// runsPage is the JSON of runs.
type runsPage struct {
	Runs   []history.Run `json:"runs"`
	Before uint64        `json:"before,omitempty"` // for the next page, when there is one
}

func (c *runsCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(p.logger)
	if err != nil {
		return err
	}
	defer db.Close()
	filter, _ := c.filter(p.zone) // Validate has read it
	filter.Limit++                // one more tells whether there are more
	runs, err := history.Reader{DB: db}.Runs(ctx, filter)
	if err != nil {
		return err
	}
	page := runsPage{Runs: runs}
	if len(runs) > c.Limit {
		page.Runs = runs[:c.Limit]
		page.Before = page.Runs[c.Limit-1].ID
	}
	switch c.Output {
	case "json":
		return output.JSON(p.stdout, page)
	case "csv":
		if err := p.runsCSV(page.Runs); err != nil {
			return err
		}
	default:
		p.printRuns(page.Runs)
	}
	if page.Before > 0 {
		fmt.Fprintln(p.stderr, p.sprintf(text.OlderRuns, c.next(page.Before)))
	}
	return nil
}

func (p *program) printRuns(runs []history.Run) {
	if len(runs) == 0 {
		fmt.Fprintln(p.stdout, p.sprintf(text.NoSuchRuns))
		return
	}
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(text.ColumnRun, text.ColumnTrigger, text.ColumnStatus, text.ColumnCutoff,
		text.ColumnStartedAt, text.ColumnTime, text.ColumnCoupons, text.ColumnIssued, text.ColumnMovedToReview, text.ColumnRejected,
		text.ColumnAlreadyHeld, text.ColumnNotSelected, text.ColumnUnsettled, text.ColumnOperator, text.ColumnReason))
	for _, r := range runs {
		t.AppendRow(table.Row{r.ID, output.Word(p.language, r.Trigger), output.Word(p.language, r.Status), output.InZone(r.Cutoff, p.zone), output.InZone(r.StartedAt, p.zone), output.Took(r.Millis), r.Coupons,
			r.Issued, r.UnderReview, r.Rejected, r.AlreadyIssued, r.NotSelected, r.Unsettled, output.Printable(r.Operator), output.Printable(r.Reason)})
	}
	t.Render()
}

func (p *program) runsCSV(runs []history.Run) error {
	return output.CSV(p.stdout, func(row func(cells ...any)) {
		row(p.headerCells(text.ColumnRun, text.ColumnTrigger, text.ColumnStatus, text.ColumnCutoff, text.CSVStartedAt,
			text.CSVFinishedAt, text.CSVTimeZone, text.CSVDuration, text.ColumnCoupons, text.ColumnIssued,
			text.CSVMovedToReview, text.ColumnRejected, text.CSVAlreadyIssued, text.CSVNotSelected, text.CSVUnsettled,
			text.ColumnOperator, text.ColumnReason)...)
		for _, r := range runs {
			row(r.ID, r.Trigger, r.Status, p.locale().SheetTime(&r.Cutoff), p.locale().SheetTime(&r.StartedAt), p.locale().SheetTime(r.FinishedAt), p.zone.String(),
				output.Known(r.Millis, ""), r.Coupons, r.Issued, r.UnderReview, r.Rejected, r.AlreadyIssued, r.NotSelected, r.Unsettled, r.Operator, r.Reason)
		}
	})
}
