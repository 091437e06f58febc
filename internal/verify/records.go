package verify

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

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

// recordsSQL has one row for each record, with the cutoff of its run, followed by one row for each coupon of the same
// run. An immediate coupon has so many runs that a query for each of them takes too long.
const recordsSQL = `
SELECT s.run_id, TRUE AS is_record, COALESCE(s.issued_count, 0), COALESCE(s.first_arrival, 0),
       COALESCE(s.last_arrival, 0), COALESCE(s.winners_digest, ''), 0 AS user_id, r.cutoff AS at, 0 AS position
FROM settlement s LEFT JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ?
UNION ALL
SELECT run_id, FALSE, 0, 0, 0, '', user_id, applied_at, position FROM user_coupon WHERE coupon_id = ?
    AND run_id IS NOT NULL
ORDER BY run_id, is_record DESC, position, user_id`

// checkRecords checks invariants 1, 3 and 6: the record of each run matches its coupons, and its seats are consecutive
// and in order of arrival. For checkRows, it counts the coupons without a record, and those that did not arrive before
// the cutoff.
func (c *check) checkRecords(ctx context.Context) error {
	var run *recomputed // run of the row before
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var r record
		var isRecord bool
		var w winner
		if err := rows.Scan(&r.run, &isRecord, &r.issued, &r.first, &r.last, &r.digest, &w.user, &w.at,
			&w.seat); err != nil {
			return err
		}
		if run == nil || run.run != r.run {
			c.compare(run)
			run = &recomputed{record: r, recorded: isRecord, distinct: true, winners: sha256.New()}
			if isRecord {
				run.cutoff = w.at
			}
		}
		if !isRecord {
			run.add(w)
		}
		return nil
	}, recordsSQL, c.Coupon, c.Coupon)
	c.compare(run)
	c.findAny(3, OrderWrong, c.seats.misordered, "seats with a later arrival than the next seat: %d")
	return err
}

func (c *check) compare(r *recomputed) {
	if r == nil {
		return
	}
	c.seats.misordered += r.misordered
	c.seats.late += r.late
	if !r.recorded {
		c.seats.unrecorded += r.found.issued
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
		c.find(6, RecordWrong, r.issued-found.issued, "run %d recorded: %s; user_coupon has: %s", r.run, r.record,
			found)
	}
}

type winner struct {
	user coupon.UserID
	at   sql.NullTime // arrival
	seat int64
}

// seatFaults counts coupons that runs issued.
type seatFaults struct {
	unrecorded int64 // the run has no record of this coupon
	misordered int64 // the seat before has a later arrival
	late       int64 // no arrival, or one that is not before the cutoff of the run
}

// recomputed is a run and what its coupons say.
type recomputed struct {
	record
	recorded bool         // the run has a record, which is record
	cutoff   sql.NullTime // NULL: the run has no record, or does not exist
	found    record
	winners  hash.Hash
	before   winner // the coupon before
	distinct bool   // each seat is above the seat before
	gap      bool   // a number between two seats is left out
	line     []byte // reused
	seatFaults
}

// add adds the run's next coupon in the order of seats.
func (r *recomputed) add(w winner) {
	r.distinct = r.distinct && w.seat > r.before.seat // false also for seat 0
	r.gap = r.gap || r.found.issued > 0 && w.seat > r.before.seat+1
	if w.at.Valid && r.before.at.Valid && w.at.Time.Before(r.before.at.Time) {
		r.misordered++
	}
	if !w.at.Valid || r.cutoff.Valid && !w.at.Time.Before(r.cutoff.Time) {
		r.late++
	}
	r.before = w
	r.line = append(strconv.AppendUint(r.line[:0], uint64(w.user), 10), '\n')
	r.winners.Write(r.line)
	r.found.last = coupon.ArrivalAt(w.at.Time)
	if r.found.issued == 0 {
		r.found.first = r.found.last
	}
	r.found.issued++
}
