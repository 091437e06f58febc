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
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/settle"
)

type reportCmd struct {
	Date   string   `xor:"period" placeholder:"DATE" help:"The applications of this business date, such as 2026-11-20."`
	Month  string   `xor:"period" placeholder:"MONTH" help:"The applications of this month, such as 2026-11."`
	Coupon []uint64 `placeholder:"ID" help:"Only this coupon; may be repeated."`
	Output string   `enum:"table,csv,json,html" default:"table" help:"table, csv, json or html. Default ${default}."`
	Out    string   `type:"path" placeholder:"FILE" help:"Write it to this file."`
}

// Help is shown by --help.
func (*reportCmd) Help() string {
	return `Examples:
  settle report --date 2026-11-20
  settle report --month 2026-11 --output html --out 2026-11.html --lang ko
  settle report --month 2026-11 --output csv --out 2026-11.csv --lang ko`
}

// Check tells what is impossible about the flags.
func (c *reportCmd) Check() (problems []error) {
	if c.Date == "" && c.Month == "" {
		problems = append(problems, wrong(words{"--date나 --month가 없습니다. --date=2026-11-20이나 --month=2026-11처럼 어느 신청인지 주세요",
			"--date or --month is missing: which applications, such as --date=2026-11-20 or --month=2026-11"}))
	}
	if _, err := c.period(time.UTC); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// period is what to report: a day by minutes, a month by hours.
func (c *reportCmd) period(zone *time.Location) (p report.Period, err error) {
	switch {
	case c.Date != "":
		p.Bucket = time.Minute
		if p.From, p.To, err = calendar.Day(c.Date, zone); err != nil {
			return p, wrongDate("--date", c.Date)
		}
	case c.Month != "":
		p.Bucket = time.Hour
		if p.From, p.To, err = calendar.Month(c.Month, zone); err != nil {
			return p, wrong(words{"--month: %q은(는) 달이 아닙니다. 2026-11처럼 써 주세요", "--month: %q is not a month: want YYYY-MM, such as 2026-11"}, c.Month)
		}
	default:
		return p, nil
	}
	return p, sane(p.From)
}

func (c *reportCmd) run(ctx context.Context, p *program) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	period, _ := c.period(p.zone) // Check has read it before
	found, err := (&report.Reporter{DB: s.MySQL, Store: s.store, Users: s.users}).Report(ctx, period, c.Coupon)
	if err != nil {
		return err
	}
	r := &periodReport{program: p, Report: found, period: period, name: c.Date + c.Month, generatedAt: p.now()}
	if c.Out == "" {
		return errors.Join(r.print(p.stdout, c.Output), r.tellUnread())
	}
	if err := writeFile(c.Out, func(w io.Writer) error { return r.print(w, c.Output) }); err != nil {
		return useError{fmt.Errorf("--out: %w", err)}
	}
	fmt.Fprintln(p.stderr, p.say(words{"%s에 썼습니다", "written to %s"}, c.Out))
	return r.tellUnread()
}

// tellUnread tells whoever waits for the report what is missing in it.
func (r *periodReport) tellUnread() error {
	var classes []coupon.Class
	for _, u := range r.Unread {
		fmt.Fprintf(r.stderr, "settle: %s\n", u.Error)
		classes = append(classes, classOf(u.Err))
	}
	if len(classes) > 0 {
		fmt.Fprintln(r.stderr, r.language.advise(settle.SafeToRunAgain))
	}
	return worst(classes)
}

// missing says what is not in the report.
func (r *periodReport) missing() (lines []string) {
	for _, u := range r.Unread {
		lines = append(lines, r.say(words{"쿠폰 %d %s: 다른 작업이 잡고 있어 읽지 못했습니다. 표와 합계에 들어 있지 않습니다. 보고서를 다시 만드세요.",
			"coupon %d %s could not be read, since something else held it. It is in neither table nor sums: make the report again."}, u.Coupon, printable(u.Name)))
	}
	return lines
}

// writeFile writes a file that is there whole or not at all. A device or a pipe is written to and stays what it is, and a
// link stays a link.
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

func (r *periodReport) print(w io.Writer, output string) error {
	switch output {
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
	return printJSON(w, struct {
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
	words
	key string // of CSV in English
	of  func(report.Counts) *big.Int
}

func count(of func(report.Counts) int64) func(report.Counts) *big.Int {
	return func(c report.Counts) *big.Int { return big.NewInt(of(c)) }
}

var figures = []figure{
	{words{"신청", "applications"}, "applications", count(func(c report.Counts) int64 { return c.Applications })},
	{words{"발급", "issued"}, "issued", count(func(c report.Counts) int64 { return c.Issued })},
	{words{"미선정", "not selected"}, "not_selected", count(func(c report.Counts) int64 { return c.NotSelected })},
	{words{"거절", "rejected"}, "rejected", count(func(c report.Counts) int64 { return c.Rejected })},
	{words{"이미 보유", "held before"}, "already_issued", count(func(c report.Counts) int64 { return c.AlreadyIssued })},
	{words{"DLQ", "in DLQ"}, "in_dlq", count(func(c report.Counts) int64 { return c.UnderReview })},
	{words{"대기", "waiting"}, "waiting", count(func(c report.Counts) int64 { return c.Waiting })},
	{words{"금액(원)", "value (won)"}, "value_won", func(c report.Counts) *big.Int { return c.ValueWon }},
	{words{"수량", "seats"}, "seats", count(func(c report.Counts) int64 { return c.Seats })},
	{words{"남은 수량", "seats left"}, "seats_left", count(func(c report.Counts) int64 { return c.SeatsLeft })},
	{words{"갭", "gap"}, "gap", count(func(c report.Counts) int64 { return c.Gap })},
}

// outcomes are the figures that add up to the applications.
const firstOutcome, outcomesEnd = 1, 7

// meaning says what is counted.
func (r *periodReport) meaning() []string {
	return []string{
		r.say(words{"%s 이후 %s 전에 도착한 신청을, 지금까지의 결과로 나누어 셉니다: 신청 = 발급 + 미선정 + 거절 + 이미 보유 + DLQ + 대기.",
			"Applications that arrived from %s and before %s, by what has become of them up to now: applications = issued + not selected + rejected + held before + in DLQ + waiting."},
			inZone(r.period.From, r.zone), inZone(r.period.To, r.zone)),
		r.say(words{"금액 = 쿠폰의 할인액 × 발급. 수동으로 준 쿠폰은 신청이 없으므로 들어가지 않습니다. 한 달은 그 달의 날들을 더한 것과 같습니다.",
			"Value = discount of the coupon × issued. Coupons given by hand have no application and are not in it. A month is the sum of its days."}),
		r.say(words{"수량, 남은 수량, 갭은 신청 시각과 상관없이 쿠폰 전체의 지금 값입니다.",
			"Seats, seats left and gap are of the whole coupon as it is now, whenever the applications arrived."}),
	}
}

// chains name the end of each coupon's audit chain: who keeps the report can tell when an event behind it is changed.
func (r *periodReport) chains() (lines []string) {
	for _, c := range r.Coupons {
		if c.AuditHead.Seq > 0 {
			lines = append(lines, r.auditHead(c.Coupon, c.AuditHead))
		}
	}
	return lines
}

var deedColumns = []words{{"쿠폰", "coupon"}, {"시각", "when"}, {"누가", "who"}, {"무엇을", "what"}, {"왜", "why"}, {"내용", "detail"}}

func (r *periodReport) deedsTitle() string {
	return r.say(words{"운영 기록", "What was done to the coupons"})
}

// deeds are what was done to the coupons, a row each, under deedColumns.
func (r *periodReport) deeds() (rows [][]string) {
	for _, c := range r.Coupons {
		for _, d := range c.Audit {
			detail := printable(d.Detail)
			if d.Count > 1 {
				detail = r.say(words{"신청 %s건", "%s applications"}, grouped(strconv.FormatInt(d.Count, 10)))
			}
			rows = append(rows, []string{strconv.FormatUint(c.Coupon, 10), r.second(d.At), printable(d.Actor), r.action(d.Action), printable(d.Reason), detail})
		}
	}
	return rows
}

// leftOut says where more was done than is told.
func (r *periodReport) leftOut() (lines []string) {
	for _, c := range r.Coupons {
		if c.AuditLeftOut > 0 {
			lines = append(lines, r.say(words{"쿠폰 %d: 운영 기록 %d건을 생략했습니다", "coupon %d: %d more were left out"}, c.Coupon, c.AuditLeftOut))
		}
	}
	return lines
}

func (r *periodReport) title() string {
	return r.say(words{"정산 보고서 %s", "Settlement report %s"}, r.name)
}

func (r *periodReport) generated() string {
	return r.say(words{"작성 시각 %s", "generated at %s"}, r.second(r.generatedAt))
}

// second is an instant as exactly as finance wants it.
func (r *periodReport) second(at time.Time) string { return inZone(at.Truncate(time.Second), r.zone) }

func (r *periodReport) none() string {
	return r.say(words{"이 기간에 열린 쿠폰도 신청도 없습니다", "no coupon was open in this period, and nobody applied"})
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
		fmt.Fprintln(w, r.bad(line))
	}
	if len(r.Coupons) == 0 {
		if len(r.Unread) == 0 {
			fmt.Fprintln(w, r.none())
		}
		return
	}
	t := newTable(w)
	header := r.header(words{"쿠폰", "coupon"}, words{"이름", "name"})
	var right []table.ColumnConfig
	for i, f := range figures {
		header = append(header, f.in(r.language))
		right = append(right, table.ColumnConfig{Number: len("cn") + i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight, AlignFooter: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	t.AppendHeader(append(header, r.header(words{"정산 시각", "settled at"}, words{"실행", "runs"}, words{"시간", "time"})...))
	for _, c := range r.Coupons {
		at, by, long := r.settled(c)
		t.AppendRow(append(append(table.Row{c.Coupon, printable(c.Name)}, forPeople(c.Counts)...), at, by, long))
	}
	t.AppendFooter(append(append(table.Row{r.say(words{"합계", "total"}), r.say(words{"쿠폰 %d개", "%d coupons"}, len(r.Coupons))}, forPeople(r.Total)...), "", "", ""))
	t.Render()
	if deeds := r.deeds(); len(deeds) > 0 {
		fmt.Fprintln(w, r.deedsTitle())
		t := newTable(w)
		t.AppendHeader(r.header(deedColumns...))
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
		row = append(row, grouped(f.of(c).String()))
	}
	return row
}

// printCSV has a line per coupon, and no sums, so that a spreadsheet that adds them up counts nobody twice. A coupon that could
// not be read has no figures, and says why in the last column.
func (r *periodReport) printCSV(w io.Writer) error {
	header := func(w words, key string) any { return words{w.ko, key}.in(r.language) }
	columns := []any{header(words{ko: "기간"}, "period"), header(words{ko: "쿠폰"}, "coupon_id"), header(words{ko: "이름"}, "name"),
		header(words{ko: "할인액(원)"}, "discount_won")}
	for _, f := range figures {
		columns = append(columns, header(f.words, f.key))
	}
	columns = append(columns, header(words{ko: "첫 정산 시각"}, "first_settled_at"), header(words{ko: "마지막 정산 시각"}, "last_settled_at"),
		header(words{ko: "시간대"}, "time_zone"), header(words{ko: "실행"}, "runs"), header(words{ko: "실행 수"}, "run_count"),
		header(words{ko: "걸린 시간(ms)"}, "duration_ms"), header(words{ko: "감사 번호"}, "audit_seq"), header(words{ko: "감사 해시"}, "audit_hash"),
		header(words{ko: "읽지 못한 까닭"}, "error"))
	return printCSV(w, func(row func(cells ...any)) {
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
