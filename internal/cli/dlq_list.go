package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
)

type dlqListCmd struct {
	Coupon []uint64 `placeholder:"ID" help:"Only this coupon; may be repeated. Default all."`
	Cause  []string `placeholder:"CAUSE" help:"Only this cause, such as UNKNOWN_USER; may be repeated."`
	User   []string `placeholder:"USER" bytes:"" help:"Only this user, as it stands in the DLQ, one by one; may be repeated."`
	List   bool     `help:"Name every application instead of counting them."`
	Output string   `enum:"table,json,csv" default:"table" help:"table, json or csv. Default ${default}."`
}

// reviewList is what dlq list prints: the groups, or the applications one by one.
type reviewList struct {
	Groups  []history.DLQGroup `json:"groups,omitempty"`
	Entries []history.DLQEntry `json:"entries,omitempty"`
	Total   int                `json:"total"`
}

// mostListed bounds what is held in memory and printed: of more, name a coupon, a cause or users.
const mostListed = 200_000

// Help is shown by --help.
func (*dlqListCmd) Help() string {
	return `Examples:
  settle dlq list
  settle dlq list --coupon 42 --cause BAD_ROW --list
  settle dlq list --list --output csv`
}

func (c *dlqListCmd) run(ctx context.Context, p *program) error {
	single := c.List || len(c.User) > 0
	var list reviewList
	groups := history.DLQGroups{}
	cut := false
	now, err := p.eachUnderReview(ctx, c.Coupon, func(r history.DLQEntry) {
		if !among(c.Cause, r.Cause) || !among(c.User, r.User) {
			return
		}
		list.Total++
		switch {
		case !single:
			groups.Add(r)
		case len(list.Entries) < mostListed:
			list.Entries = append(list.Entries, r)
		default:
			cut = true
		}
	})
	if err != nil {
		return err
	}
	list.Groups = groups.Sorted()
	if cut {
		fmt.Fprintln(p.stderr, p.say(words{"%d건 중 앞의 %d건만 보여 줍니다. --coupon, --cause, --user로 좁히세요.",
			"Of %d only the first %d are shown: narrow it down with --coupon, --cause or --user."}, list.Total, mostListed))
	}
	switch {
	case c.Output == "json":
		return printJSON(p.stdout, list)
	case c.Output == "csv" && single:
		return p.entriesCSV(list.Entries)
	case c.Output == "csv":
		return p.groupsCSV(list.Groups)
	case list.Total == 0:
		fmt.Fprintln(p.stdout, p.say(words{"검토 중인 신청이 없습니다", "nothing is under review"}))
	case single:
		p.printEntries(list.Entries)
	default:
		p.printGroups(list.Groups, now)
	}
	return nil
}

func among(wanted []string, found string) bool {
	return len(wanted) == 0 || slices.Contains(wanted, found)
}

// eachUnderReview visits who is under review for these coupons, for all when none is named, and returns the Redis clock.
func (p *program) eachUnderReview(ctx context.Context, coupons []uint64, visit func(history.DLQEntry)) (now time.Time, err error) {
	s, err := p.open()
	if err != nil {
		return now, err
	}
	defer s.Close()
	if now, err = s.store.Now(ctx); err != nil {
		return now, err
	}
	reader := history.Reader{DB: s.MySQL}
	for _, id := range coupons {
		if _, err := reader.Coupon(ctx, id); err != nil {
			return now, err
		}
	}
	l := &ledger.Ledger{Store: s.store, Users: s.users}
	all := func(after uint64) ([]uint64, error) { return l.Coupons(ctx, s.MySQL, after, couponsAtOnce) }
	var failed error
	err = (&verifyCmd{Coupon: coupons}).each(ctx, all, func(coupon uint64) {
		if failed == nil {
			failed = history.EachDLQEntry(ctx, s.store, coupon, visit)
		}
	})
	return now, errors.Join(failed, err)
}

func (p *program) printGroups(groups []history.DLQGroup, now time.Time) {
	t := newTable(p.stdout)
	t.AppendHeader(p.header(words{"쿠폰", "coupon"}, words{"사유", "cause"}, words{"", ""}, words{"건수", "count"}, words{"자동 재시도", "retried by runs"}, words{"사람이 결정", "for a person"},
		words{"첫 신청", "first arrival"}, words{"마지막 신청", "last arrival"}, words{"가장 오래된 검토", "longest under review"}, words{"시도 횟수", "attempts"}))
	total := 0
	for _, g := range groups {
		total += g.Count
		age := "?"
		if !g.OldestReview.IsZero() {
			age = p.age(now.Sub(g.OldestReview))
		}
		t.AppendRow(table.Row{g.Coupon, printable(g.Cause), p.cause(g.Cause), g.Count, g.Retryable, g.Held,
			inZone(g.OldestArrival, p.zone), inZone(g.NewestArrival, p.zone), age, span(g.MinAttempts, g.MaxAttempts)})
	}
	t.AppendFooter(table.Row{p.say(words{"합계", "total"}), "", "", total})
	t.Render()
}

func (p *program) printEntries(entries []history.DLQEntry) {
	t := newTable(p.stdout)
	t.AppendHeader(p.header(words{"쿠폰", "coupon"}, words{"사용자", "user"}, words{"신청 시각", "applied at"}, words{"사유", "cause"}, words{"내용", "message"},
		words{"시도", "attempts"}, words{"실행", "run"}, words{"마지막 시도", "last attempt"}, words{"다음 차례", "next"}))
	for _, r := range entries {
		t.AppendRow(table.Row{r.Coupon, member(r.User), inZone(r.Arrival, p.zone), printable(r.Cause), printable(r.Message), r.Attempts, r.Run, p.known(r.At), p.next(r)})
	}
	t.Render()
}

// next is who deals with an entry next.
func (p *program) next(r history.DLQEntry) string {
	switch {
	case !r.Retryable:
		return p.say(words{"사람이 결정", "a person"})
	case r.Refused > 0:
		return p.say(words{"다음 밤의 실행", "the next night"})
	default:
		return p.say(words{"다음 실행", "the next run"})
	}
}

func (p *program) known(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return inZone(t, p.zone)
}

// cause is a cause in words.
func (p *program) cause(cause string) string {
	for known, text := range causes {
		if string(known) == cause {
			return text.in(p.language)
		}
	}
	return ""
}

// age is how long ago, in the largest unit that says enough.
func (p *program) age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return p.say(words{"1분 미만", "under a minute"})
	case d < 2*time.Hour:
		return p.say(words{"%d분", "%d min"}, int(d.Minutes()))
	case d < 48*time.Hour:
		return p.say(words{"%d시간", "%d h"}, int(d.Hours()))
	default:
		return p.say(words{"%d일", "%d days"}, int(d.Hours()/24))
	}
}

func span(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d–%d", least, most)
}

// sheetTimeOrEmpty is sheetTime of an instant that may not be known.
func (p *program) sheetTimeOrEmpty(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return p.sheetTime(&t)
}

func (p *program) groupsCSV(groups []history.DLQGroup) error {
	return printCSV(p.stdout, func(row func(cells ...any)) {
		row(p.headerCells(words{"쿠폰", "coupon"}, words{"사유", "cause"}, words{"건수", "count"}, words{"자동 재시도", "retryable"}, words{"사람이 결정", "held"},
			words{"첫 신청", "oldest_arrival"}, words{"마지막 신청", "newest_arrival"}, words{"가장 오래된 검토", "oldest_review"}, words{"시간대", "time_zone"},
			words{"최소 시도", "least_attempts"}, words{"최대 시도", "most_attempts"})...)
		for _, g := range groups {
			row(g.Coupon, g.Cause, g.Count, g.Retryable, g.Held, p.sheetTimeOrEmpty(g.OldestArrival), p.sheetTimeOrEmpty(g.NewestArrival), p.sheetTimeOrEmpty(g.OldestReview),
				p.zone.String(), g.MinAttempts, g.MaxAttempts)
		}
	})
}

func (p *program) entriesCSV(entries []history.DLQEntry) error {
	return printCSV(p.stdout, func(row func(cells ...any)) {
		row(p.headerCells(words{"쿠폰", "coupon"}, words{"사용자", "user"}, words{"신청 시각", "arrival"}, words{"사유", "cause"}, words{"내용", "message"},
			words{"자동 재시도", "retryable"}, words{"시도", "attempts"}, words{"실행", "run"}, words{"검토 시작", "since"}, words{"마지막 시도", "at"},
			words{"시간대", "time_zone"})...)
		for _, r := range entries {
			row(r.Coupon, r.User, p.sheetTimeOrEmpty(r.Arrival), r.Cause, r.Message, r.Retryable, r.Attempts, r.Run,
				p.sheetTimeOrEmpty(r.InDLQSince()), p.sheetTimeOrEmpty(r.At), p.zone.String())
		}
	})
}

// stillUnderReview is who of these is, by user.
func (p *program) stillUnderReview(ctx context.Context, coupon uint64, chosen []history.DLQEntry) (still map[string]candidates.Reason, err error) {
	arrivals := make(map[string]time.Time, len(chosen))
	for _, r := range chosen {
		arrivals[r.User] = r.Arrival
	}
	still = map[string]candidates.Reason{}
	_, err = p.eachUnderReview(ctx, []uint64{coupon}, func(r history.DLQEntry) {
		if at, mine := arrivals[r.User]; mine && at.Equal(r.Arrival) {
			still[r.User] = r.Reason
		}
	})
	return still, err
}
