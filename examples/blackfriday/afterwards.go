package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// group is a line of `settle dlq list`: the entries of one coupon with one cause.
type group struct {
	Cause string
	Count int
}

func (d *demo) dlq(ctx context.Context, coupon int) ([]group, error) {
	output, err := d.settle(ctx, "dlq", "list", "--coupon", strconv.Itoa(coupon), "--output", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Groups []group }
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("read the DLQ of coupon %d: %w", coupon, err)
	}
	return list.Groups, nil
}

func total(groups []group) (n int) {
	for _, g := range groups {
		n += g.Count
	}
	return n
}

func (d *demo) number(ctx context.Context, query string, args ...any) (n int, err error) {
	if err = d.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		err = fmt.Errorf("%s: %w", query, err)
	}
	return n, err
}

func (d *demo) showUnderReview(ctx context.Context) error {
	var list struct{ Groups []group }
	if err := d.settleJSON(ctx, &list, "dlq", "list"); err != nil {
		return err
	}
	entries := map[string]int{}
	for _, g := range list.Groups {
		entries[g.Cause] += g.Count
	}
	for _, cause := range slices.Sorted(maps.Keys(entries)) {
		d.say("  %-14s %5d", cause, entries[cause])
	}
	d.say("These users are blocked or missing. They keep their position until an operator decides.")
	return nil
}

// showAfterwards sends new applications of users with each outcome.
func (d *demo) showAfterwards(ctx context.Context) error {
	c := d.coupons[0]
	winner, err := d.number(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position = 1", c.id)
	if err != nil {
		return err
	}
	notSelected, err := d.number(ctx, "SELECT MIN(user_id) FROM application_outcome WHERE coupon_id = ?", c.id)
	if err != nil {
		return err
	}
	underReview := c.firstUser
	for statusOf(underReview) != blocked {
		underReview++
	}
	var rows [][]any
	for _, again := range []struct {
		application
		code string
	}{
		{application{c.id, uint64(winner), "ko"}, "ALREADY_ISSUED"},
		{application{c.id, underReview, "ko"}, "UNDER_REVIEW"},
		{application{c.id, uint64(notSelected), "ko"}, "SOLD_OUT"},
		{application{c.id, uint64(notSelected), "en"}, "SOLD_OUT"},
		{application{999, 1, "en"}, "COUPON_NOT_FOUND"},
	} {
		a, err := d.pods[0].apply(ctx, again.application)
		if err != nil {
			return err
		}
		if a.outcome != again.code {
			return fmt.Errorf("user %d applied for coupon %d again: want %s, got %d %s", a.user, a.coupon, again.code, a.http, a.body)
		}
		rows = append(rows, []any{a.coupon, a.user, a.language, a.http, a.outcome, a.Title})
	}
	d.table([]any{"coupon", "user", "Accept-Language", "HTTP", "code", "title"}, rows...)
	return nil
}

// tallies sum up the database. A checksum finds a row that was changed in place, a count does not.
var tallies = []struct{ what, query string }{
	{"issued", "SELECT COUNT(*) FROM user_coupon"},
	{"checksum", "SELECT BIT_XOR(CRC32(CONCAT_WS('/', id, coupon_id, user_id, position, applied_at, issued_at, run_id, status))) FROM user_coupon"},
	{"not selected", "SELECT COUNT(*) FROM application_outcome"},
	{"checksum", "SELECT BIT_XOR(CRC32(CONCAT_WS('/', coupon_id, user_id, applied_at, outcome, run_id))) FROM application_outcome"},
	{"seats taken", "SELECT SUM(issued_count) FROM coupon"},
	{"settlements", "SELECT COUNT(*) FROM settlement"},
}

func (d *demo) tally(ctx context.Context) (numbers []int, err error) {
	for _, t := range tallies {
		n, err := d.number(ctx, t.query)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	underReview := 0
	for _, c := range d.coupons {
		groups, err := d.dlq(ctx, c.id)
		if err != nil {
			return nil, err
		}
		underReview += total(groups)
	}
	return append(numbers, underReview), nil
}

func (d *demo) showRepetition(ctx context.Context) error {
	before, err := d.tally(ctx)
	if err != nil {
		return err
	}
	if err := d.settleJSON(ctx, new(any), "run", "--cutoff", "now", "--operator", "kim", "--reason", "once more"); err != nil {
		return err
	}
	after, err := d.tally(ctx)
	if err != nil {
		return err
	}
	header, rows := []any{""}, [][]any{{"before"}, {"after"}}
	for i := range before {
		what := "in DLQ"
		if i < len(tallies) {
			what = tallies[i].what
		}
		if before[i] != after[i] {
			return fmt.Errorf("settling again changed %s from %d to %d", what, before[i], after[i])
		}
		header, rows[0], rows[1] = append(header, what), append(rows[0], before[i]), append(rows[1], after[i])
	}
	d.table(header, rows...)
	return nil
}

// showProof stops the pods, whose exit code has to be 0, and checks all invariants. settle verify ends with an error when
// one is violated.
func (d *demo) showProof(ctx context.Context) error {
	if err := d.stopPods(); err != nil {
		return err
	}
	var report struct {
		Total struct {
			Checked, Seats, Coupons, Gap, AuditEvents int
			Account                                   struct{ Accepted int }
		}
	}
	if err := d.settleJSON(ctx, &report, "verify"); err != nil {
		return err
	}
	t := report.Total
	for i, invariant := range []string{
		d.printer.Sprintf("No coupon has more winners than seats: %d winners, %d seats.", t.Coupons, t.Seats),
		"Nobody has the same coupon twice.",
		"The first eligible applicants have the coupons.",
		d.printer.Sprintf("No application is lost: %d accepted, %d missing.", t.Account.Accepted, t.Gap),
		"One clock orders all applications of a coupon.",
		d.printer.Sprintf("MySQL agrees with itself and with its audit log: %s.", d.count(t.AuditEvents, "event")),
	} {
		d.say("  %d  ok  %s", i+1, invariant)
	}
	return nil
}
