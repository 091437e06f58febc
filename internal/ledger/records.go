package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

type record struct {
	run         coupon.RunID
	issued      int64
	first, last coupon.Arrival
	digest      string
}

func (r record) String() string {
	return fmt.Sprintf("coupons %d, arrivals %d to %d, %s", r.issued, r.first, r.last, r.digest)
}

// recordsSQL has one row for each record, followed by one row for each coupon of the same run. An immediate coupon has so
// many runs that a query for each of them takes too long.
const recordsSQL = `
SELECT run_id, TRUE AS is_record, COALESCE(issued_count, 0), COALESCE(first_arrival, 0), COALESCE(last_arrival, 0),
       COALESCE(winners_digest, ''), 0 AS user_id, NULL AS applied_at, 0 AS position
FROM settlement WHERE coupon_id = ?
UNION ALL
SELECT run_id, FALSE, 0, 0, 0, '', user_id, applied_at, position FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL
ORDER BY run_id, is_record DESC, position, user_id`

// checkRecords checks invariants 1 and 6: the record of each run matches its coupons, and its seats are consecutive.
func (c *check) checkRecords(ctx context.Context) error {
	var kept *recomputed // the record before the row, with the coupons so far; nil if the run of the row has no record
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var r record
		var isRecord bool
		var w winner
		if err := rows.Scan(&r.run, &isRecord, &r.issued, &r.first, &r.last, &r.digest, &w.user, &w.appliedAt, &w.seat); err != nil {
			return err
		}
		if isRecord {
			c.compare(kept)
			kept = &recomputed{record: r, distinct: true, winners: sha256.New()}
		} else if kept != nil && kept.run == r.run {
			kept.add(w)
		}
		return nil
	}, recordsSQL, c.Coupon, c.Coupon)
	c.compare(kept)
	return err
}

func (c *check) compare(r *recomputed) {
	if r == nil {
		return
	}
	found := r.found
	found.run = r.run
	if found.issued > 0 {
		found.digest = "sha256:" + hex.EncodeToString(r.winners.Sum(nil))
	}
	if r.gap && r.distinct && found.issued == r.issued {
		c.find(1, SeatWrong, 1, "run %d left a seat free between two seats that it issued", r.run)
	}
	if found != r.record {
		c.find(6, RecordWrong, r.issued-found.issued, "run %d recorded: %s; user_coupon has: %s", r.run, r.record, found)
	}
}

type winner struct {
	user      coupon.UserID
	appliedAt sql.NullTime
	seat      int64
}

// recomputed is a record and what the coupons of its run say.
type recomputed struct {
	record
	found    record
	winners  hash.Hash
	previous int64 // seat of the coupon before
	distinct bool  // each seat is above the seat before
	gap      bool  // a number between two seats is left out
}

// add adds the run's next coupon in the order of seats.
func (r *recomputed) add(w winner) {
	r.distinct = r.distinct && w.seat > r.previous // false also for seat 0
	r.gap = r.gap || r.found.issued > 0 && w.seat > r.previous+1
	r.previous = w.seat
	fmt.Fprintf(r.winners, "%d\n", w.user)
	r.found.last = coupon.ArrivalAt(w.appliedAt.Time)
	if r.found.issued == 0 {
		r.found.first = r.found.last
	}
	r.found.issued++
}
