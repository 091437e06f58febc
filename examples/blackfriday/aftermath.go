package main

import (
	"context"
	"fmt"
)

const selectBalanceSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED')`

// showBalance accounts for everybody who applied.
func showBalance(ctx context.Context, s *screen, d *deployment, coupons []coupon) error {
	t := s.table("coupon", "applied", "= got a coupon", "+ in the DLQ", "+ NOT_SELECTED")
	for _, c := range coupons {
		var issued, notSelected int
		if err := d.db.QueryRowContext(ctx, selectBalanceSQL, c.id, c.id).Scan(&issued, &notSelected); err != nil {
			return fmt.Errorf("count outcomes of coupon %d: %w", c.id, err)
		}
		entries, err := readDLQ(ctx, d, c.id)
		if err != nil {
			return err
		}
		t.AppendRow([]any{c.name, c.wanted(), issued, len(entries), notSelected})
		if issued+len(entries)+notSelected != c.wanted() {
			t.Render()
			return fmt.Errorf("coupon %d: the outcomes of %d people do not add up", c.id, c.wanted())
		}
	}
	t.Render()
	return nil
}

// showAfterwards lets a winner, somebody without luck and a blocked user apply again.
func showAfterwards(ctx context.Context, s *screen, d *deployment, f *storefront, c coupon) error {
	var winner, unlucky uint64
	if err := d.db.QueryRowContext(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position = 1", c.id).Scan(&winner); err != nil {
		return fmt.Errorf("read the first winner of coupon %d: %w", c.id, err)
	}
	if err := d.db.QueryRowContext(ctx, "SELECT MIN(user_id) FROM application_outcome WHERE coupon_id = ?", c.id).Scan(&unlucky); err != nil {
		return fmt.Errorf("read who was not selected for coupon %d: %w", c.id, err)
	}
	underReview := c.firstUser
	for standingOf(underReview) != blocked {
		underReview++
	}
	for _, asking := range []struct {
		user           uint64
		language, code string
	}{
		{winner, "ko", "ALREADY_ISSUED"},
		{unlucky, "ko", "SOLD_OUT"},
		{unlucky, "en", "SOLD_OUT"},
		{underReview, "ko", "UNDER_REVIEW"},
	} {
		if err := f.showAsking(ctx, s, c.id, asking.user, asking.language, asking.code); err != nil {
			return err
		}
	}
	return nil
}

// Checksums find a row that was changed in place; counts alone would not.
var tallies = []struct{ what, query string }{
	{"coupons in user_coupon", "SELECT COUNT(*) FROM user_coupon"},
	{"their checksum", "SELECT BIT_XOR(CRC32(CONCAT_WS('/', id, coupon_id, user_id, position, applied_at, issued_at, run_id, status))) FROM user_coupon"},
	{"rows in application_outcome", "SELECT COUNT(*) FROM application_outcome"},
	{"their checksum", "SELECT BIT_XOR(CRC32(CONCAT_WS('/', coupon_id, user_id, applied_at, outcome, run_id))) FROM application_outcome"},
	{"seats taken in coupon", "SELECT SUM(issued_count) FROM coupon"},
	{"rows in settlement", "SELECT COUNT(*) FROM settlement"},
}

func tally(ctx context.Context, d *deployment, coupons []coupon) (numbers []uint64, err error) {
	for _, t := range tallies {
		var n uint64
		if err := d.db.QueryRowContext(ctx, t.query).Scan(&n); err != nil {
			return nil, fmt.Errorf("count %s: %w", t.what, err)
		}
		numbers = append(numbers, n)
	}
	var underReview uint64
	for _, c := range coupons {
		entries, err := readDLQ(ctx, d, c.id)
		if err != nil {
			return nil, err
		}
		underReview += uint64(len(entries))
	}
	return append(numbers, underReview), nil
}

func settleAgain(ctx context.Context, s *screen, d *deployment, coupons []coupon) error {
	before, err := tally(ctx, d, coupons)
	if err != nil {
		return err
	}
	if err := d.settle(ctx, s, "run", "--cutoff", "now", "--operator", "kim", "--reason", "the same once more"); err != nil {
		return err
	}
	after, err := tally(ctx, d, coupons)
	if err != nil {
		return err
	}
	t := s.table("what", "before", "after")
	changed := ""
	for i := range before {
		what := "entries in the DLQ"
		if i < len(tallies) {
			what = tallies[i].what
		}
		t.AppendRow([]any{what, before[i], after[i]})
		if before[i] != after[i] {
			changed = what
		}
	}
	t.Render()
	if changed != "" {
		return fmt.Errorf("settling again changed: %s", changed)
	}
	return nil
}
