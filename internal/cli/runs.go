package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/history"
)

// mostRunsListed bounds a page: more than that nobody reads at once.
const mostRunsListed = 500

type runsCmd struct {
	Date    string `placeholder:"DATE" help:"Only runs with a cutoff of this business date, such as 2026-11-20."`
	Coupon  uint64 `placeholder:"ID" help:"Only runs that changed this coupon, or could not settle it."`
	Status  string `enum:",RUNNING,SUCCEEDED,HELD,FAILED,ABANDONED" default:"" placeholder:"STATUS" help:"Only RUNNING, SUCCEEDED, HELD, FAILED or ABANDONED ones."`
	Trigger string `enum:",CRON,MANUAL,DLQ_RETRY" default:"" placeholder:"TRIGGER" help:"Only those started by CRON, MANUAL or DLQ_RETRY."`
	Limit   int    `default:"20" placeholder:"N" help:"How many, 1 to 500. Default ${default}."`
	Before  uint64 `placeholder:"RUN" help:"Only runs before this one: the next page."`
	Output  string `enum:"table,json,csv" default:"table" help:"table, json or csv. Default ${default}."`
}

// Help is shown by --help.
func (*runsCmd) Help() string {
	return `Examples:
  settle runs
  settle runs --date 2026-11-20 --status FAILED
  settle runs --coupon 42 --output csv`
}

// Check tells what is impossible about the flags.
func (c *runsCmd) Check() (problems []error) {
	if c.Limit < 1 || c.Limit > mostRunsListed {
		problems = append(problems, wrong(words{"--limit이 %d입니다. 1부터 %d까지 가능하고, 다음 쪽은 --before로 봅니다", "--limit is %d: want 1 to %d, and --before for the next page"}, c.Limit, mostRunsListed))
	}
	if _, err := c.filter(time.UTC); err != nil {
		problems = append(problems, err)
	}
	return problems
}

func (c *runsCmd) filter(zone *time.Location) (history.RunFilter, error) {
	f := history.RunFilter{Coupon: c.Coupon, Status: c.Status, Trigger: c.Trigger, Before: c.Before, Limit: c.Limit}
	if c.Date == "" {
		return f, nil
	}
	var err error
	if f.From, f.To, err = calendar.Day(c.Date, zone); err != nil {
		return f, wrongDate("--date", c.Date)
	}
	return f, sane(f.From)
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

// runsPage is what programs read.
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
	filter, _ := c.filter(p.zone) // Check has read it before
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
		return printJSON(p.stdout, page)
	case "csv":
		if err := p.runsCSV(page.Runs); err != nil {
			return err
		}
	default:
		p.printRuns(page.Runs)
	}
	if page.Before > 0 {
		fmt.Fprintln(p.stderr, p.say(words{"더 오래된 실행: %s", "older runs: %s"}, c.next(page.Before)))
	}
	return nil
}

func (p *program) printRuns(runs []history.Run) {
	if len(runs) == 0 {
		fmt.Fprintln(p.stdout, p.say(words{"해당하는 실행이 없습니다", "there are no such runs"}))
		return
	}
	t := newTable(p.stdout)
	t.AppendHeader(p.header(words{"실행", "run"}, words{"시작 방식", "trigger"}, words{"상태", "status"}, words{"정산 기준 시각", "cutoff"},
		words{"시작", "started at"}, words{"시간", "time"}, words{"쿠폰", "coupons"}, words{"발급", "issued"}, words{"DLQ로", "to DLQ"}, words{"거절", "rejected"},
		words{"이미 보유", "held before"}, words{"미선정", "not selected"}, words{"정산 못 함", "not settled"}, words{"담당자", "operator"}, words{"사유", "reason"}))
	for _, r := range runs {
		t.AppendRow(table.Row{r.ID, r.Trigger, r.Status, inZone(r.Cutoff, p.zone), inZone(r.StartedAt, p.zone), took(r.Millis), r.Coupons,
			r.Issued, r.UnderReview, r.Rejected, r.AlreadyIssued, r.NotSelected, r.Unsettled, printable(r.Operator), printable(r.Reason)})
	}
	t.Render()
}

// took is how long something took, as far as that is known.
func took(n *int64) string {
	if n == nil {
		return "–"
	}
	return millis(*n)
}

func (p *program) runsCSV(runs []history.Run) error {
	return printCSV(p.stdout, func(row func(cells ...any)) {
		row(p.headerCells(words{"실행", "run"}, words{"시작 방식", "trigger"}, words{"상태", "status"}, words{"정산 기준 시각", "cutoff"}, words{"시작", "started_at"},
			words{"끝", "finished_at"}, words{"시간대", "time_zone"}, words{"걸린 시간(ms)", "duration_ms"}, words{"쿠폰", "coupons"}, words{"발급", "issued"},
			words{"DLQ로", "under_review"}, words{"거절", "rejected"}, words{"이미 보유", "already_issued"}, words{"미선정", "not_selected"}, words{"정산 못 함", "unsettled"},
			words{"담당자", "operator"}, words{"사유", "reason"})...)
		for _, r := range runs {
			row(r.ID, r.Trigger, r.Status, p.sheetTime(&r.Cutoff), p.sheetTime(&r.StartedAt), p.sheetTime(r.FinishedAt), p.zone.String(),
				orEmpty(r.Millis), r.Coupons, r.Issued, r.UnderReview, r.Rejected, r.AlreadyIssued, r.NotSelected, r.Unsettled, r.Operator, r.Reason)
		}
	})
}

// sheetTime is an instant as a spreadsheet takes for one, in the zone that another column names.
func (p *program) sheetTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.In(p.zone).Format(time.DateTime)
}

func orEmpty(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
