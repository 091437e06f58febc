package report

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// counter counts one coupon in one transaction.
type counter struct {
	Coupon
	period   Period
	open     bool // the coupon's window overlaps the period
	runs     map[coupon.RunID]bool
	timeline map[int]int64 // by bucket
}

// count counts one coupon. It repeats the count under the coupon's lock when the account does not balance. After an error the
// counter has the name at most.
func (r *Reporter) count(ctx context.Context, id coupon.CouponID, period Period) (*counter, error) {
	c, err := r.countOnce(ctx, id, period, couponSQL)
	if err != nil || c.Gap == 0 {
		return c, err
	}
	name := c.Name
	if c, err = r.countOnce(ctx, id, period, couponSQL+ledger.UnderLock); err != nil {
		c.Name = name
	}
	return c, err
}

const couponSQL = `
SELECT name, discount_won, total_quantity, issued_count, apply_opens_at < ? AND apply_closes_at > ?
FROM coupon WHERE id = ?`

func (r *Reporter) countOnce(ctx context.Context, id coupon.CouponID, period Period, query string) (*counter, error) {
	c := &counter{period: period, runs: map[coupon.RunID]bool{}, timeline: map[int]int64{}}
	c.Coupon.Coupon, c.Runs, c.ValueWon = id, []coupon.RunID{}, new(big.Int)
	var issued int64
	err := mysqltx.Read(ctx, r.DB, sql.LevelRepeatableRead, func(tx *sql.Tx) error { // one snapshot for all counts
		err := tx.QueryRowContext(ctx, query, period.To.UTC(), period.From.UTC(), id).Scan(&c.Name, &c.DiscountWon, &c.Seats, &issued, &c.open)
		if errors.Is(err, sql.ErrNoRows) {
			return text.UsageErrorf(text.NoSuchCoupon, id)
		}
		for _, read := range []func(context.Context, *sql.Tx) error{c.readOutcomes, r.inRedis(c), c.readRuns, c.readAudit} {
			if err == nil {
				err = read(ctx, tx)
			}
		}
		return err
	})
	if text.Is(err, text.NoSuchCoupon) {
		return c, err
	}
	if err != nil {
		return c, fmt.Errorf("report coupon %d: %w", id, err)
	}
	c.SeatsLeft = c.Seats - issued
	c.Applications = c.Issued + c.NotSelected + c.Rejected + c.AlreadyIssued + c.UnderReview + c.Waiting
	c.ValueWon.Mul(big.NewInt(c.DiscountWon), big.NewInt(c.Issued))
	return c, nil
}

// issuedSQL reads all rows of a coupon that has issued to arrivals of the period, because no index orders them by arrival.
const issuedSQL = `
SELECT 'ISSUED', run_id, TIMESTAMPDIFF(SECOND, CAST(? AS DATETIME(6)), applied_at) DIV ? AS bucket, COUNT(*)
FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND applied_at >= ? AND applied_at < ?
  AND EXISTS (SELECT 1 FROM settlement s WHERE s.coupon_id = user_coupon.coupon_id AND s.first_arrival < ? AND s.last_arrival >= ?)
GROUP BY run_id, bucket`

const outcomesSQL = `
SELECT outcome, COALESCE(run_id, 0), TIMESTAMPDIFF(SECOND, CAST(? AS DATETIME(6)), applied_at) DIV ? AS bucket, COUNT(*)
FROM application_outcome
WHERE coupon_id = ? AND outcome IN ('NOT_SELECTED', 'REJECTED', 'ALREADY_ISSUED') AND applied_at >= ? AND applied_at < ?
GROUP BY outcome, run_id, bucket`

// readOutcomes counts what MySQL has recorded.
func (c *counter) readOutcomes(ctx context.Context, tx *sql.Tx) error {
	p := c.period
	args := []any{p.From.UTC(), int64(p.Bucket.Seconds()), c.Coupon.Coupon, p.From.UTC(), p.To.UTC()}
	if err := mysqltx.Each(ctx, tx, c.addOutcomes, outcomesSQL, args...); err != nil {
		return err
	}
	return mysqltx.Each(ctx, tx, c.addOutcomes, issuedSQL, append(args, p.To.UnixMicro(), p.From.UnixMicro())...)
}

func (c *counter) addOutcomes(rows *sql.Rows) error {
	var outcome coupon.Outcome
	var run coupon.RunID
	var bucket int
	var n int64
	if err := rows.Scan(&outcome, &run, &bucket, &n); err != nil {
		return err
	}
	switch outcome {
	case coupon.OutcomeIssued:
		c.Issued += n
	case coupon.OutcomeNotSelected:
		c.NotSelected += n
	case coupon.OutcomeRejected:
		c.Rejected += n
	case coupon.OutcomeAlreadyIssued:
		c.AlreadyIssued += n
	}
	if run != 0 {
		c.runs[run] = true
	}
	c.timeline[bucket] += n
	return nil
}

// inRedis counts the applications in Redis and the gap. Applications after the last settled arrival are undecided and only
// counted; earlier ones are compared with MySQL one by one. The account comes last, so that an application that leaves Redis
// meanwhile shows as a gap.
func (r *Reporter) inRedis(c *counter) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		recorded, settledUpTo, err := ledger.ReadRecorded(ctx, tx, c.Coupon.Coupon)
		if err != nil {
			return err
		}
		if err := r.countUndecided(ctx, c, settledUpTo+1); err != nil {
			return err
		}
		l := &ledger.Ledger{Store: r.Store, Users: r.Users}
		account, _, err := l.AddUp(ctx, tx, c.Coupon.Coupon, recorded, settledUpTo, func(e ledger.Entry) {
			if e.Settled() || !c.period.contains(e.Arrival) {
				return
			}
			c.timeline[c.period.bucket(e.Arrival)]++
			if e.Source == coupon.SourceQueue {
				c.Waiting++
			} else {
				c.UnderReview++
			}
		})
		c.Gap = account.Gap()
		return err
	}
}

// countUndecided counts the applications in Redis from an arrival on. Most coupons have none, so that it reads the whole period
// before the buckets.
func (r *Reporter) countUndecided(ctx context.Context, c *counter, from coupon.Arrival) error {
	edges := c.period.edges(from)
	waiting, dlq, err := r.Store.CountByInterval(ctx, c.Coupon.Coupon, []coupon.Arrival{edges[0], edges[len(edges)-1]})
	if err != nil || waiting[0]+dlq[0] == 0 {
		return err
	}
	if waiting, dlq, err = r.Store.CountByInterval(ctx, c.Coupon.Coupon, edges); err != nil {
		return err
	}
	for i := range waiting {
		c.Waiting += waiting[i]
		c.UnderReview += dlq[i]
		if n := waiting[i] + dlq[i]; n > 0 {
			c.timeline[c.period.bucket(edges[i])] += n
		}
	}
	return nil
}

const runsSQL = `
SELECT s.run_id, s.settled_at, x.duration_ms FROM settlement s
LEFT JOIN run_coupon x ON x.run_id = s.run_id AND x.coupon_id = s.coupon_id
WHERE s.coupon_id = ? ORDER BY s.run_id`

// readRuns reads the runs that the counted outcomes name.
func (c *counter) readRuns(ctx context.Context, tx *sql.Tx) error {
	if len(c.runs) == 0 {
		return nil
	}
	return mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var run coupon.RunID
		var at time.Time
		var millis *int64
		err := rows.Scan(&run, &at, &millis)
		if err == nil && c.runs[run] {
			c.SettledBy.add(run, at, millis)
		}
		return err
	}, runsSQL, c.Coupon.Coupon)
}

func (s *SettledBy) add(run coupon.RunID, at time.Time, millis *int64) {
	if s.RunCount++; s.RunCount <= maxRunsNamed {
		s.Runs = append(s.Runs, run)
	}
	if s.FirstSettledAt == nil || at.Before(*s.FirstSettledAt) {
		s.FirstSettledAt = &at
	}
	if s.LastSettledAt == nil || at.After(*s.LastSettledAt) {
		s.LastSettledAt = &at
	}
	if millis != nil {
		if s.Millis == nil {
			s.Millis = new(int64)
		}
		*s.Millis += *millis
	}
}

// auditSQL folds the events of one change to several applications into one row.
const auditSQL = "SELECT e.at, e.actor, e.action, e.reason, IF(COUNT(*) = 1, MIN(e.detail), ''), COUNT(*)" + audit.Chained + `
WHERE e.coupon_id = ? AND e.at >= ? AND (e.at < ? OR e.at <= ?)
GROUP BY e.at, e.actor, e.action, e.reason, e.run_id ORDER BY MIN(e.seq)`

// readAudit reads the audit entries from the beginning of the period until its end or its last settlement.
func (c *counter) readAudit(ctx context.Context, tx *sql.Tx) (err error) {
	until := c.period.From.UTC()
	if c.LastSettledAt != nil {
		until = *c.LastSettledAt
	}
	c.Audit = []AuditGroup{}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
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
	c.AuditHead, err = audit.ReadHead(ctx, tx, c.Coupon.Coupon)
	return err
}
