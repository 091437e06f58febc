package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/text"
)

// dlq is the output of `settle dlq list`: the entries of each coupon and cause.
type dlq struct {
	Groups []struct {
		Coupon, Count int
		Cause         string
	}
	Total int // entries of all coupons
}

// by sums up the entries by coupon or by cause.
func (l dlq) by(coupon int, cause string) (n int) {
	for _, g := range l.Groups {
		if g.Coupon == coupon || g.Cause == cause {
			n += g.Count
		}
	}
	return n
}

func (d *demo) readDLQ(ctx context.Context) (list dlq, err error) {
	return list, d.settleJSON(ctx, &list, "dlq", "list")
}

func (d *demo) number(ctx context.Context, query string, args ...any) (n int, err error) {
	if err = d.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		err = fmt.Errorf("%s: %w", query, err)
	}
	return n, err
}

func (d *demo) showUnderReview(ctx context.Context) error {
	if err := d.run(ctx, "dlq", "list"); err != nil {
		return err
	}
	list, err := d.readDLQ(ctx)
	if err != nil {
		return err
	}
	d.say(text.DemoUnderReview, list.Total, list.by(0, "INACTIVE_USER"), list.by(0, "UNKNOWN_USER"))
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
			return fmt.Errorf("user %d applied for coupon %d again: want %s, got %d %s", a.user, a.coupon, again.code,
				a.http, a.body)
		}
		rows = append(rows, []any{a.coupon, a.user, a.language, a.http, a.outcome, a.Title})
	}
	d.table([]any{text.ColumnCoupon, text.ColumnUser, "Accept-Language", "HTTP", "code", text.DemoTitle}, rows...)
	return nil
}

// tallies sum up the database. A checksum finds a row that was changed in place, a count does not.
var tallies = []struct {
	what  text.Message
	query string
}{
	{text.ColumnIssued, "SELECT COUNT(*) FROM user_coupon"},
	{text.DemoChecksum,
		"SELECT BIT_XOR(CRC32(CONCAT_WS('/', id, coupon_id, user_id, position, applied_at, issued_at, run_id, " +
			"status))) FROM user_coupon"},
	{text.ColumnNotSelected, "SELECT COUNT(*) FROM application_outcome"},
	{text.DemoChecksum,
		"SELECT BIT_XOR(CRC32(CONCAT_WS('/', coupon_id, user_id, applied_at, outcome, run_id))) FROM " +
			"application_outcome"},
	{text.DemoSeatsTaken, "SELECT SUM(issued_count) FROM coupon"},
	{text.DemoSettlements, "SELECT COUNT(*) FROM settlement"},
}

func (d *demo) tally(ctx context.Context) (numbers []int, err error) {
	for _, t := range tallies {
		n, err := d.number(ctx, t.query)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	list, err := d.readDLQ(ctx)
	return append(numbers, list.Total), err
}

func (d *demo) showRepetition(ctx context.Context) error {
	before, err := d.tally(ctx)
	if err != nil {
		return err
	}
	if err := d.run(ctx, "run", "--cutoff", "now", "--operator", "kim", "--reason", "once more", "--yes"); err != nil {
		return err
	}
	after, err := d.tally(ctx)
	if err != nil {
		return err
	}
	header, rows := []any{""}, [][]any{{text.ColumnBefore}, {text.ColumnAfter}}
	for i, t := range tallies {
		header, rows[0], rows[1] = append(header, t.what), append(rows[0], before[i]), append(rows[1], after[i])
	}
	d.table(append(header, "DLQ"), append(rows[0], before[len(tallies)]), append(rows[1], after[len(tallies)]))
	if !slices.Equal(before, after) {
		return fmt.Errorf("settling again changed %d to %d", before, after)
	}
	return nil
}

// showProof stops the pods, whose exit code has to be 0, and checks all invariants. settle verify ends with an error
// when one is violated.
func (d *demo) showProof(ctx context.Context) error {
	if err := d.stopPods(); err != nil {
		return err
	}
	return d.run(ctx, "verify")
}
