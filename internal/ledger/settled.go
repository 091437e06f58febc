package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
)

func (s Sums) String() string {
	return fmt.Sprintf("issued %d, concluded %d, settled up to %d, last issued %d", s.Issued, s.Concluded, s.SettledUpTo, s.LastIssued)
}

const (
	// storedSumsSQL returns zeros if there is no row: that is right for a coupon of which nothing is settled.
	storedSumsSQL = `
SELECT COALESCE(MAX(issued), 0), COALESCE(MAX(concluded), 0), COALESCE(MAX(settled_up_to), 0), COALESCE(MAX(last_issued), 0)
FROM settled WHERE coupon_id = ?`

	countedSumsSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL), COUNT(*), MAX(applied_at)
FROM application_outcome WHERE coupon_id = ?`

	// lastSettledSQL returns the highest arrival with a seat and the highest cutoff of the coupon's runs.
	lastSettledSQL = `
SELECT COALESCE(MAX(s.last_arrival), 0), MAX(r.cutoff) FROM settlement s LEFT JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ?`
)

// checkSums checks invariant 6: the sums that settlements keep are those of the rows.
func (c *check) checkSums(ctx context.Context) error {
	var stored, counted Sums
	var lastOutcome, lastCutoff sql.NullTime
	for _, q := range []struct {
		query string
		args  []any
		into  []any
	}{
		{storedSumsSQL, []any{c.Coupon}, stored.fields()},
		{countedSumsSQL, []any{c.Coupon, c.Coupon}, []any{&counted.Issued, &counted.Concluded, &lastOutcome}},
		{lastSettledSQL, []any{c.Coupon}, []any{&counted.LastIssued, &lastCutoff}},
	} {
		if err := c.tx.QueryRowContext(ctx, q.query, q.args...).Scan(q.into...); err != nil {
			return err
		}
	}
	counted.SettledUpTo = max(counted.LastIssued, arrivalOf(lastOutcome))
	if n := stored.wrong(counted, arrivalOf(lastCutoff)); n > 0 {
		c.find(6, SumWrong, n, "sums in table settled that differ from the rows: %d; stored: %s; counted: %s", n, stored, counted)
	}
	return nil
}

// wrong counts the sums that differ. SettledUpTo can be above what the rows say: a NOT_SELECTED row ends when its user gets
// a seat or goes to the DLQ. But each arrival that a run settled was below its cutoff.
func (s Sums) wrong(counted Sums, lastCutoff coupon.Arrival) (n int64) {
	tooHigh := s.SettledUpTo > counted.SettledUpTo && s.SettledUpTo >= lastCutoff
	for _, differs := range []bool{s.Issued != counted.Issued, s.Concluded != counted.Concluded,
		s.SettledUpTo < counted.SettledUpTo || tooHigh, s.LastIssued != counted.LastIssued} {
		if differs {
			n++
		}
	}
	return n
}

// arrivalOf returns 0 for NULL.
func arrivalOf(at sql.NullTime) coupon.Arrival {
	if !at.Valid {
		return 0
	}
	return coupon.ArrivalAt(at.Time)
}
