package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

var kst = time.FixedZone("KST", 9*60*60)

func inKST(t time.Time) string { return t.In(kst).Format("15:04:05.000000") }

func (d *demo) showSettlement(ctx context.Context) error {
	began := time.Now()
	if err := d.run(ctx, "run", "--cutoff", "now", "--operator", "kim", "--reason", "Black Friday demo",
		"--yes"); err != nil {
		return err
	}
	took := time.Since(began)
	list, err := d.readDLQ(ctx)
	if err != nil {
		return err
	}
	for _, c := range d.coupons {
		issued, err := d.number(ctx, "SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", c.id)
		if err != nil {
			return err
		}
		notSelected,
			err := d.number(ctx,
			"SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'", c.id)
		if err != nil {
			return err
		}
		underReview := list.by(c.id, "")
		if issued+underReview+notSelected != c.applicants() {
			return fmt.Errorf("coupon %d: %d issued, %d under review and %d not selected are not %d applications", c.id,
				issued, underReview, notSelected, c.applicants())
		}
	}
	d.say(text.DemoSettled, seconds(took))
	return d.showWinners(ctx)
}

// winner is a user with a coupon.
type winner struct {
	position  int
	user      uint64
	appliedAt time.Time
}

// showWinners compares all winners with the answers to their applications, and shows both ends for the first coupon.
func (d *demo) showWinners(ctx context.Context) error {
	var first []winner
	for _, c := range d.coupons {
		winners, err := d.winners(ctx, c)
		if err != nil {
			return err
		}
		if err := d.checkWinners(c, winners); err != nil {
			return err
		}
		if first == nil {
			first = winners
		}
	}
	var rows [][]any
	for i, w := range first {
		if i == 0 || i >= len(first)-2 {
			rows = append(rows, []any{w.position, w.user, inKST(w.appliedAt), d.answers[w.user].Position})
		}
	}
	d.table([]any{text.DemoSeat, text.ColumnUser, text.DemoAppliedAt, text.DemoPosition}, rows...)
	last := first[len(first)-1]
	place := d.answers[last.user].Position
	d.say(text.DemoWinners, last.position, place, place-last.position)
	return nil
}

func (d *demo) winners(ctx context.Context, c coupon) ([]winner, error) {
	return d.winnersFrom(ctx, c, 1)
}

// winnersFrom are the winners from a seat on.
func (d *demo) winnersFrom(ctx context.Context, c coupon, seat int) (winners []winner, err error) {
	rows, err := d.db.QueryContext(ctx, `SELECT position, user_id, applied_at FROM user_coupon
		WHERE coupon_id = ? AND position >= ? ORDER BY position`, c.id, seat)
	if err != nil {
		return nil, fmt.Errorf("read winners of coupon %d: %w", c.id, err)
	}
	defer rows.Close()
	for rows.Next() {
		var w winner
		if err := rows.Scan(&w.position, &w.user, &w.appliedAt); err != nil {
			return nil, fmt.Errorf("read winners of coupon %d: %w", c.id, err)
		}
		winners = append(winners, w)
	}
	return winners, rows.Err()
}

func (d *demo) checkWinners(c coupon, winners []winner) error {
	var eligible []answer
	for user := c.firstUser; user <= c.lastUser; user++ {
		if statusOf(user) == active {
			eligible = append(eligible, d.answers[user])
		}
	}
	slices.SortFunc(eligible, func(a, b answer) int { return cmp.Compare(a.Position, b.Position) })
	eligible = eligible[:min(len(eligible), c.seats)]
	if len(winners) != len(eligible) {
		return fmt.Errorf("coupon %d: %d people got a coupon, not %d", c.id, len(winners), len(eligible))
	}
	for i, w := range winners {
		if due := eligible[i]; w.position != i+1 || w.user != due.user || !w.appliedAt.Equal(due.AppliedAt) {
			return fmt.Errorf(
				"coupon %d: seat %d is due to user %d, who applied at %s; user %d, who applied at %s, has it",
				c.id, i+1, due.user, inKST(due.AppliedAt), w.user, inKST(w.appliedAt))
		}
	}
	return nil
}
