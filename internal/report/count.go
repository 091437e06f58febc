package report

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math/big"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

type counter struct {
	*Reporter
	Coupon
	tx       *sql.Tx
	period   Period
	open     bool // the coupon's window overlaps the period
	runs     map[coupon.RunID]bool
	timeline map[int]int64 // number of applications by bucket
}

// count counts one coupon. If the account does not balance, it counts again under the lock of the coupon's row. After
// an error only the coupon's name may be set.
func (r *Reporter) count(ctx context.Context, id coupon.CouponID, period Period) (*counter, error) {
	c, err := r.countOnce(ctx, id, period, couponSQL)
	if err == nil && c.Gap != 0 {
		name := c.Name
		c, err = r.countOnce(ctx, id, period, couponSQL+ledger.UnderLock)
		c.Name = cmp.Or(c.Name, name)
	}
	return c, err
}

const couponSQL = `
SELECT name, discount_won, discount_percent, discount_max_won, minimum_won, total_quantity,
    CAST(total_quantity AS SIGNED) - CAST(issued_count AS SIGNED), apply_opens_at < ? AND apply_closes_at > ?,
       COALESCE(campaign_id, 0), cadence, frozen
FROM coupon c WHERE c.id = ?` + notPurged

func (r *Reporter) countOnce(ctx context.Context, id coupon.CouponID, period Period, query string) (*counter, error) {
	c := &counter{Reporter: r, period: period, runs: map[coupon.RunID]bool{}, timeline: map[int]int64{},
		Coupon: Coupon{Coupon: id, Counts: noCounts(), SettledBy: SettledBy{Runs: []coupon.RunID{}},
			Audit: []AuditGroup{}}}
	err := mysqltx.Read(ctx, r.DB, sql.LevelRepeatableRead, func(tx *sql.Tx) error { // one snapshot for all queries
		c.tx = tx
		err := tx.QueryRowContext(ctx, query, period.To.UTC(), period.From.UTC(), id).
			Scan(&c.Name, &c.DiscountWon, &c.DiscountPercent, &c.DiscountMaxWon, &c.MinimumWon, &c.Seats, &c.SeatsLeft,
				&c.open, &c.CampaignID, &c.Cadence, &c.Frozen)
		if errors.Is(err, sql.ErrNoRows) {
			return text.MissingErrorf(text.NoSuchCoupon, id)
		}
		for _, read := range []func(context.Context) error{c.readOutcomes, c.readRedis, c.readRuns, c.readAudit} {
			if err == nil {
				err = read(ctx)
			}
		}
		return err
	})
	if text.Is(err, text.NoSuchCoupon) {
		return c, err
	}
	c.Applications = c.Issued + c.NotSelected + c.Rejected + c.AlreadyIssued + c.UnderReview + c.Waiting
	c.ValueWon.Mul(big.NewInt(c.Most()), big.NewInt(c.Issued))
	return c, mysqltx.Wrap(err, "report coupon %d", id)
}

// issuedSQL reads all rows of the coupon, because no index orders them by arrival. EXISTS avoids this if no run issued
// seats to such arrivals.
const issuedSQL = `
SELECT 'ISSUED', run_id, TIMESTAMPDIFF(SECOND, CAST(? AS DATETIME(6)), applied_at) DIV ? AS bucket, COUNT(*)
FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND applied_at >= ? AND applied_at < ?
  AND EXISTS (SELECT 1 FROM settlement s WHERE s.coupon_id = ? AND s.first_arrival < ? AND s.last_arrival >= ?)
GROUP BY run_id, bucket`

const outcomesSQL = `
SELECT outcome, run_id, TIMESTAMPDIFF(SECOND, CAST(? AS DATETIME(6)), applied_at) DIV ? AS bucket, COUNT(*)
FROM application_outcome
WHERE coupon_id = ? AND outcome IN ('NOT_SELECTED', 'REJECTED', 'ALREADY_ISSUED') AND applied_at >= ? AND applied_at < ?
GROUP BY outcome, run_id, bucket`

func (c *counter) readOutcomes(ctx context.Context) error {
	p := c.period
	args := []any{p.From.UTC(), int64(p.Bucket.Seconds()), c.Coupon.Coupon, p.From.UTC(), p.To.UTC()}
	if err := mysqltx.Each(ctx, c.tx, c.addOutcomes, outcomesSQL, args...); err != nil {
		return err
	}
	return mysqltx.Each(ctx, c.tx, c.addOutcomes, issuedSQL,
		append(args, c.Coupon.Coupon, p.To.UnixMicro(), p.From.UnixMicro())...)
}

func (c *counter) addOutcomes(rows *sql.Rows) error {
	var outcome coupon.Outcome
	var run coupon.RunID
	var bucket int
	var n int64
	if err := rows.Scan(&outcome, &run, &bucket, &n); err != nil {
		return err
	}
	*map[coupon.Outcome]*int64{
		coupon.OutcomeIssued: &c.Issued, coupon.OutcomeNotSelected: &c.NotSelected,
		coupon.OutcomeRejected: &c.Rejected, coupon.OutcomeAlreadyIssued: &c.AlreadyIssued,
	}[outcome] += n
	if run != 0 {
		c.runs[run] = true
	}
	c.timeline[bucket] += n
	return nil
}

// readRedis counts the applications in Redis, and the gap. Applications after the last settled arrival are undecided
// and are only counted. Earlier ones are compared with MySQL one by one. The account is read last: an application that
// leaves Redis before then shows as a gap, and the coupon is counted again. Between two statements are at most four
// calls of Redis, of 3 s each: MySQL does not end the session.
func (c *counter) readRedis(ctx context.Context) error {
	recorded, err := ledger.ReadRecorded(ctx, c.tx, c.Coupon.Coupon)
	if err != nil {
		return err
	}
	if err := c.countUndecided(ctx, recorded.Sums.SettledUpTo+1); err != nil {
		return err
	}
	l := &ledger.Ledger{Store: c.Store}
	account, _, err := l.AddUp(ctx, c.tx, c.Coupon.Coupon, recorded, func(e ledger.Entry) {
		switch {
		case e.Settled() || !c.period.contains(e.Arrival):
		case e.Source == coupon.SourceQueue:
			c.addUndecided(e.Arrival, 1, 0)
		default:
			c.addUndecided(e.Arrival, 0, 1)
		}
	})
	c.Gap, c.Erased = account.Gap(), account.Erased
	return err
}

// countUndecided counts the applications in Redis from an arrival on. It asks for the buckets only if there are any.
func (c *counter) countUndecided(ctx context.Context, from coupon.Arrival) error {
	edges := c.period.edges(from)
	waiting, dlq, err := c.Store.CountByInterval(ctx, c.Coupon.Coupon, []coupon.Arrival{edges[0], edges[len(edges)-1]})
	if err != nil || waiting[0]+dlq[0] == 0 {
		return err
	}
	waiting, dlq, err = c.Store.CountByInterval(ctx, c.Coupon.Coupon, edges)
	for i := range waiting {
		c.addUndecided(edges[i], waiting[i], dlq[i])
	}
	return err
}

func (c *counter) addUndecided(arrival coupon.Arrival, waiting, dlq int64) {
	c.Waiting += waiting
	c.UnderReview += dlq
	if n := waiting + dlq; n > 0 { // without applications, the arrival may be after the last bucket
		c.timeline[c.period.bucket(arrival)] += n
	}
}

const runsSQL = `
SELECT s.run_id, s.settled_at, x.duration_ms FROM settlement s
LEFT JOIN run_coupon x ON x.run_id = s.run_id AND x.coupon_id = s.coupon_id
WHERE s.coupon_id = ? ORDER BY s.settled_at, s.run_id`

func (c *counter) readRuns(ctx context.Context) error {
	if len(c.runs) == 0 {
		return nil
	}
	var total sql.NullInt64 // milliseconds
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var run coupon.RunID
		var at time.Time
		var millis sql.NullInt64
		if err := rows.Scan(&run, &at, &millis); err != nil || !c.runs[run] {
			return err
		}
		if c.RunCount++; c.RunCount <= maxRunsNamed {
			c.Runs = append(c.Runs, run)
		}
		if c.LastSettledAt = &at; c.FirstSettledAt == nil {
			c.FirstSettledAt = &at
		}
		total.Int64, total.Valid = total.Int64+millis.Int64, total.Valid || millis.Valid
		return nil
	}, runsSQL, c.Coupon.Coupon)
	if total.Valid {
		c.Millis = &total.Int64
	}
	return err
}

// auditSQL groups the events of one change to several applications into one row.
const auditSQL = "SELECT e.at, e.actor, e.action, e.reason, IF(COUNT(*) = 1, MIN(e.detail), ''), COUNT(*)" +
	audit.Chained + `
WHERE e.coupon_id = ? AND e.at >= ? AND (e.at < ? OR e.at <= ?)
GROUP BY e.at, e.actor, e.action, e.reason, e.run_id ORDER BY MIN(e.seq)`

// readAudit reads the audit entries from the beginning of the period until its end or, if later, its last settlement.
func (c *counter) readAudit(ctx context.Context) (err error) {
	until := c.period.From.UTC()
	if c.LastSettledAt != nil {
		until = *c.LastSettledAt
	}
	err = mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		if len(c.Audit) == maxAuditEntries {
			c.AuditLeftOut++
			return nil
		}
		var g AuditGroup
		err := rows.Scan(&g.At, &g.Actor, &g.Action, &g.Reason, &g.Detail, &g.Count)
		c.Audit = append(c.Audit, g)
		return err
	}, auditSQL, c.Coupon.Coupon, c.period.From.UTC(), c.period.To.UTC(), until)
	if err != nil {
		return err
	}
	if c.Frozen {
		if c.Freeze, err = history.Freeze(ctx, c.tx, c.Coupon.Coupon); err != nil {
			return err
		}
	}
	c.AuditHead, err = audit.ReadHead(ctx, c.tx, c.Coupon.Coupon)
	return err
}
