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
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

type dlqListCmd struct {
	Coupon []uint64 `placeholder:"ID"`
	Cause  []string `placeholder:"CAUSE"`
	User   []string `placeholder:"USER" bytes:""`
	List   bool
	Output string `enum:"table,json,csv" default:"table"`
}

// reviewList is the JSON of dlq list: groups, or applications one by one.
type reviewList struct {
	Groups  []history.DLQGroup `json:"groups,omitempty"`
	Entries []history.DLQEntry `json:"entries,omitempty"`
	Total   int                `json:"total"`
}

// maxListed bounds the entries that are held in memory. Flags narrow a longer list.
const maxListed = 200_000

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
		case len(list.Entries) < maxListed:
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
		fmt.Fprintln(p.stderr, p.sprintf(text.ListIsCut, list.Total, maxListed))
	}
	switch {
	case c.Output == "json":
		return output.JSON(p.stdout, list)
	case c.Output == "csv" && single:
		return p.entriesCSV(list.Entries)
	case c.Output == "csv":
		return p.groupsCSV(list.Groups)
	case list.Total == 0:
		fmt.Fprintln(p.stdout, p.sprintf(text.NothingUnderReview))
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

// eachUnderReview visits the entries of these coupons, or of all coupons when none is given. It returns the Redis time.
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
	all := func(after uint64) ([]uint64, error) { return l.Coupons(ctx, s.MySQL, after, couponsPerPage) }
	var failed error
	err = (&verifyCmd{Coupon: coupons}).each(ctx, all, func(coupon uint64) {
		if failed == nil {
			failed = history.EachDLQEntry(ctx, s.store, coupon, visit)
		}
	})
	return now, errors.Join(failed, err)
}

func (p *program) printGroups(groups []history.DLQGroup, now time.Time) {
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(text.ColumnCoupon, text.ColumnCause, text.Message{}, text.ColumnCount, text.ColumnRetriedByRuns, text.ColumnAwaitsDecision,
		text.ColumnFirstArrival, text.ColumnLastArrival, text.ColumnLongestReview, text.ColumnAttempts))
	total := 0
	for _, g := range groups {
		total += g.Count
		age := "?"
		if !g.OldestReview.IsZero() {
			age = p.age(now.Sub(g.OldestReview))
		}
		t.AppendRow(table.Row{g.Coupon, output.Printable(g.Cause), text.Word(p.language, g.Cause), g.Count, g.Retryable, g.Held,
			output.InZone(g.OldestArrival, p.zone), output.InZone(g.NewestArrival, p.zone), age, span(g.MinAttempts, g.MaxAttempts)})
	}
	t.AppendFooter(table.Row{p.sprintf(text.Total), "", "", total})
	t.Render()
}

func (p *program) printEntries(entries []history.DLQEntry) {
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(text.ColumnCoupon, text.ColumnUser, text.ColumnAppliedAt, text.ColumnCause, text.ColumnMessage,
		text.ColumnAttempts, text.ColumnRun, text.ColumnLastAttempt, text.ColumnNext))
	for _, r := range entries {
		t.AppendRow(table.Row{r.Coupon, member(r.User), output.InZone(r.Arrival, p.zone), output.Printable(r.Cause), output.Printable(r.Message), r.Attempts, r.Run, p.known(r.At), p.next(r)})
	}
	t.Render()
}

// next says whether a run or an operator handles an entry next.
func (p *program) next(r history.DLQEntry) string {
	switch {
	case !r.Retryable:
		return p.sprintf(text.NextOperator)
	case r.Refused > 0:
		return p.sprintf(text.NextNight)
	default:
		return p.sprintf(text.NextRun)
	}
}

func (p *program) known(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return output.InZone(t, p.zone)
}

// age rounds a duration to minutes, hours or days.
func (p *program) age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return p.sprintf(text.UnderAMinute)
	case d < 2*time.Hour:
		return p.sprintf(text.Minutes, int(d.Minutes()))
	case d < 48*time.Hour:
		return p.sprintf(text.Hours, int(d.Hours()))
	default:
		return p.sprintf(text.Days, int(d.Hours()/24))
	}
}

func span(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d–%d", least, most)
}

func (p *program) groupsCSV(groups []history.DLQGroup) error {
	return output.CSV(p.stdout, func(row func(cells ...any)) {
		row(p.headerCells(text.ColumnCoupon, text.ColumnCause, text.ColumnCount, text.CSVRetryable, text.CSVHeld,
			text.CSVOldestArrival, text.CSVNewestArrival, text.CSVOldestReview, text.CSVTimeZone,
			text.CSVLeastAttempts, text.CSVMostAttempts)...)
		for _, g := range groups {
			row(g.Coupon, g.Cause, g.Count, g.Retryable, g.Held, p.locale().SheetTime(new(g.OldestArrival)), p.locale().SheetTime(new(g.NewestArrival)), p.locale().SheetTime(new(g.OldestReview)),
				p.zone.String(), g.MinAttempts, g.MaxAttempts)
		}
	})
}

func (p *program) entriesCSV(entries []history.DLQEntry) error {
	return output.CSV(p.stdout, func(row func(cells ...any)) {
		row(p.headerCells(text.ColumnCoupon, text.ColumnUser, text.CSVArrival, text.ColumnCause, text.ColumnMessage,
			text.CSVRetryable, text.ColumnAttempts, text.ColumnRun, text.CSVReviewedSince, text.CSVLastAttempt,
			text.CSVTimeZone)...)
		for _, r := range entries {
			row(r.Coupon, r.User, p.locale().SheetTime(new(r.Arrival)), r.Cause, r.Message, r.Retryable, r.Attempts, r.Run,
				p.locale().SheetTime(new(r.InDLQSince())), p.locale().SheetTime(new(r.At)), p.zone.String())
		}
	})
}

// stillUnderReview returns the entries that are still there, by user.
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
