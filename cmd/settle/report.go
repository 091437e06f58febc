package main

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

	"github.com/jajeong/jajeong/internal/ledger"
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
func (c *reportCmd) period(zone *time.Location) (p ledger.Period, err error) {
	switch {
	case c.Date != "":
		p.Bucket = time.Minute
		if p.From, p.To, err = settle.Day(c.Date, zone); err != nil {
			return p, wrongDate("--date", c.Date)
		}
	case c.Month != "":
		p.Bucket = time.Hour
		if p.From, p.To, err = settle.Month(c.Month, zone); err != nil {
			return p, wrong(words{"--month: %q은(는) 달이 아닙니다. 2026-11처럼 써 주세요", "--month: %q is not a month: want YYYY-MM, such as 2026-11"}, c.Month)
		}
	default:
		return p, nil
	}
	return p, sane(p.From)
}

func (c *reportCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(p.logger)
	if err != nil {
		return err
	}
	defer db.Close()
	store, closeStore, err := p.openStore()
	if err != nil {
		return err
	}
	defer closeStore()
	period, _ := c.period(p.zone) // Check has read it before
	report, err := (&ledger.Ledger{Store: store}).Report(ctx, db, period, c.Coupon)
	if err != nil {
		return err
	}
	r := &periodReport{program: p, Report: report, period: period, name: c.Date + c.Month, generatedAt: time.Now()}
	if c.Out == "" {
		return r.print(p.stdout, c.Output)
	}
	if err := writeFile(c.Out, func(w io.Writer) error { return r.print(w, c.Output) }); err != nil {
		return useError{fmt.Errorf("--out: %w", err)}
	}
	fmt.Fprintln(p.stderr, p.say(words{"%s에 썼습니다", "written to %s"}, c.Out))
	return nil
}

// writeFile writes a file that is there whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
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
	*ledger.Report
	period      ledger.Period
	name        string // the date or the month
	generatedAt time.Time
}

func (r *periodReport) print(w io.Writer, output string) error {
	switch output {
	case "json":
		return r.printJSON(w)
	case "csv":
		return printCSV(w, r.rows())
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
		*ledger.Report
	}{r.name, r.period.From, r.period.To, r.zone.String(), r.generatedAt.UTC().Truncate(time.Second), r.Report})
}

// figure is a column of counts, which has a sum.
type figure struct {
	words
	key string // of CSV in English
	of  func(ledger.Counts) *big.Int
}

func count(of func(ledger.Counts) int64) func(ledger.Counts) *big.Int {
	return func(c ledger.Counts) *big.Int { return big.NewInt(of(c)) }
}

var figures = []figure{
	{words{"신청", "applications"}, "applications", count(func(c ledger.Counts) int64 { return c.Applications })},
	{words{"발급", "issued"}, "issued", count(func(c ledger.Counts) int64 { return c.Issued })},
	{words{"미선정", "not selected"}, "not_selected", count(func(c ledger.Counts) int64 { return c.NotSelected })},
	{words{"거절", "rejected"}, "rejected", count(func(c ledger.Counts) int64 { return c.Rejected })},
	{words{"이미 보유", "held before"}, "already_issued", count(func(c ledger.Counts) int64 { return c.AlreadyIssued })},
	{words{"DLQ", "in DLQ"}, "in_dlq", count(func(c ledger.Counts) int64 { return c.UnderReview })},
	{words{"대기", "waiting"}, "waiting", count(func(c ledger.Counts) int64 { return c.Waiting })},
	{words{"금액(원)", "value (won)"}, "value_won", func(c ledger.Counts) *big.Int { return c.ValueWon }},
	{words{"수량", "seats"}, "seats", count(func(c ledger.Counts) int64 { return c.Seats })},
	{words{"남은 수량", "seats left"}, "seats_left", count(func(c ledger.Counts) int64 { return c.SeatsLeft })},
	{words{"갭", "gap"}, "gap", count(func(c ledger.Counts) int64 { return c.Gap })},
}

// outcomes are the figures that add up to the applications.
const firstOutcome, outcomesEnd = 1, 7

// meaning says what is counted.
func (r *periodReport) meaning() []string {
	return []string{
		r.say(words{"%s 이후 %s 전에 도착한 신청을, 지금까지의 결과로 나누어 셉니다: 신청 = 발급 + 미선정 + 거절 + 이미 보유 + DLQ + 대기.",
			"Applications that arrived from %s and before %s, by what has become of them up to now: applications = issued + not selected + rejected + held before + in DLQ + waiting."},
			inZone(r.period.From, r.zone), inZone(r.period.To, r.zone)),
		r.say(words{"금액 = 쿠폰의 할인액 × 발급. 손으로 준 쿠폰은 신청이 없으므로 들어가지 않습니다. 한 달은 그 달의 날들을 더한 것과 같습니다.",
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

func (r *periodReport) title() string {
	return r.say(words{"정산 보고서 %s", "Settlement report %s"}, r.name)
}

func (r *periodReport) generated() string {
	return r.say(words{"작성 시각 %s", "generated at %s"}, inZone(r.generatedAt.Truncate(time.Second), r.zone))
}

func (r *periodReport) none() string {
	return r.say(words{"이 기간에 열린 쿠폰도 신청도 없습니다", "no coupon was open in this period, and nobody applied"})
}

// settled is when, by which runs and how long.
func (r *periodReport) settled(c ledger.CouponReport) (at, by, long string) {
	at = "–"
	if c.LastSettledAt != nil {
		at = inZone(*c.LastSettledAt, r.zone)
	}
	return at, runsOf(c), took(c.Millis)
}

// runsOf are the runs that settled a coupon, with … for those that are not named.
func runsOf(c ledger.CouponReport) string {
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
	if len(r.Coupons) == 0 {
		fmt.Fprintln(w, r.none())
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
	for _, line := range slices.Concat(r.meaning(), r.chains()) {
		fmt.Fprintln(w, line)
	}
}

func forPeople(c ledger.Counts) (row table.Row) {
	for _, f := range figures {
		row = append(row, grouped(f.of(c).String()))
	}
	return row
}

// rows are CSV: a line per coupon, and no sums, so that a spreadsheet that adds them up counts nobody twice.
func (r *periodReport) rows() [][]string {
	header := func(w words, key string) string { return words{w.ko, key}.in(r.language) }
	first := []string{header(words{ko: "기간"}, "period"), header(words{ko: "쿠폰"}, "coupon_id"), header(words{ko: "이름"}, "name"),
		header(words{ko: "할인액(원)"}, "discount_won")}
	for _, f := range figures {
		first = append(first, header(f.words, f.key))
	}
	rows := [][]string{append(first, header(words{ko: "첫 정산 시각"}, "first_settled_at"), header(words{ko: "마지막 정산 시각"}, "last_settled_at"),
		header(words{ko: "시간대"}, "time_zone"), header(words{ko: "실행"}, "runs"), header(words{ko: "실행 수"}, "run_count"),
		header(words{ko: "걸린 시간(ms)"}, "duration_ms"), header(words{ko: "감사 번호"}, "audit_seq"), header(words{ko: "감사 해시"}, "audit_hash"))}
	for _, c := range r.Coupons {
		row := []string{r.name, strconv.FormatUint(c.Coupon, 10), harmless(c.Name), strconv.FormatInt(c.DiscountWon, 10)}
		for _, f := range figures {
			row = append(row, f.of(c.Counts).String())
		}
		rows = append(rows, append(row, r.sheetTime(c.FirstSettledAt), r.sheetTime(c.LastSettledAt), r.zone.String(), runsOf(c),
			strconv.Itoa(c.RunCount), orEmpty(c.Millis), digits(c.AuditHead.Seq), c.AuditHead.Hash))
	}
	return rows
}
