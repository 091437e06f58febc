package verify

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
)

// sums are what settlements keep about the rows of a coupon, in table settled.
type sums struct {
	issued, concluded       int64
	settledUpTo, lastIssued coupon.Arrival
}

func (s sums) String() string {
	return fmt.Sprintf("issued %d, concluded %d, settled up to %d, last issued %d", s.issued, s.concluded,
		s.settledUpTo, s.lastIssued)
}

// settlementsSQL returns the highest arrival with a seat, the highest cutoff of the coupon's runs, and how many records
// name a run that does not exist, or another time than that of their run.
const settlementsSQL = `
SELECT COALESCE(MAX(s.last_arrival), 0), MAX(r.cutoff), COUNT(*) - COUNT(r.id),
    COALESCE(SUM(s.settled_at <> ` + settledAt + `), 0)
FROM settlement s LEFT JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ?`

// checkSums checks invariant 6: the sums that settlements keep are right, and records agree with their runs.
func (c *check) checkSums(ctx context.Context) error {
	stored, counted := c.books.sums, sums{issued: c.byRuns, concluded: c.Account.Outcomes}
	var lastCutoff sql.NullTime
	var withoutRun, otherTime int64
	if err := c.tx.QueryRowContext(ctx, settlementsSQL, c.Coupon).Scan(&counted.lastIssued, &lastCutoff, &withoutRun,
		&otherTime); err != nil {
		return err
	}
	c.findAny(6, RunMissing, withoutRun, "records of a run that does not exist: %d")
	if otherTime > 0 { // RECORD_WRONG counts missing coupons, and here none is missing
		c.find(6, RecordWrong, 0, "records with another time than their run: %d", otherTime)
	}
	counted.settledUpTo = max(counted.lastIssued, c.lastOutcome)
	if n := stored.wrong(counted, arrivalOf(lastCutoff)); n > 0 {
		c.find(6, SumWrong, n, "sums in table settled that differ from the rows: %d; stored: %s; counted: %s", n,
			stored, counted)
	}
	return nil
}

// wrong counts the sums that differ. settledUpTo can be above what the rows say: a NOT_SELECTED row ends when its user
// gets a seat or goes to the DLQ. But each arrival that a run settled was below its cutoff.
func (s sums) wrong(counted sums, lastCutoff coupon.Arrival) (n int64) {
	tooHigh := s.settledUpTo > counted.settledUpTo && s.settledUpTo >= lastCutoff
	for _, differs := range []bool{s.issued != counted.issued, s.concluded != counted.concluded,
		s.settledUpTo < counted.settledUpTo || tooHigh, s.lastIssued != counted.lastIssued} {
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
