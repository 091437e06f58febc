package privacy

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// MinPurgeDays is how many days ago the date of a purge must be. API pods still read a coupon 30 days after it closed.
const MinPurgeDays = 31

// Queue counts the applications of a coupon in Redis. candidates.Store implements it.
type Queue interface {
	CountUndecided(ctx context.Context, couponID coupon.CouponID) (waiting, dlq int64, err error)
}

// PurgePlan says which coupons a purge takes, and which of those that closed before its date it leaves.
type PurgePlan struct {
	Before    time.Time         `json:"before"`
	Continued []coupon.CouponID `json:"continued"` // an earlier purge has begun with them
	Taken     []PurgeCandidate  `json:"taken"`
	Left      []PurgeCandidate  `json:"left"`
}

// Digest is sha256:… of the coupons that the purge deletes.
func (p *PurgePlan) Digest() string {
	list := sha256.New()
	for _, id := range p.Continued {
		fmt.Fprintln(list, id)
	}
	for _, c := range p.Taken {
		fmt.Fprintln(list, c.Coupon)
	}
	return "sha256:" + hex.EncodeToString(list.Sum(nil))
}

// PurgeCandidate is a coupon that closed before the date of a purge.
type PurgeCandidate struct {
	Coupon   coupon.CouponID `json:"coupon"`
	Name     string          `json:"name"`
	ClosesAt time.Time       `json:"closesAt"`
	Issued   int             `json:"issued"`
	Why      WhyLeft         `json:"why,omitempty"` // empty: the coupon is taken
}

// WhyLeft says why a purge leaves a coupon.
type WhyLeft string

const (
	NotFinalised   WhyLeft = "NOT_FINALISED"    // it was not finalised before the date
	CleanUpPending WhyLeft = "CLEAN_UP_PENDING" // the clean-up of a settlement is pending
	StillValid     WhyLeft = "STILL_VALID"      // an issued coupon expires on the date or later
	InRedis        WhyLeft = "IN_REDIS"         // applications are in the queue or in the DLQ
	FoundWrong     WhyLeft = "FOUND_WRONG"      // the last check of settle verify found it wrong
)

// candidatesSQL reads whether each coupon can go. An issued coupon that expires on the date or later stops it, whatever
// its status: a used one can be refunded, a revoked one reissued.
const (
	selectCandidateSQL = `
SELECT c.id, c.name, c.apply_closes_at, c.issued_count, CASE
  WHEN c.finalised_at IS NULL OR c.finalised_at >= ? OR c.apply_closes_at >= ? THEN 'NOT_FINALISED'
  WHEN EXISTS (SELECT 1 FROM settlement s WHERE s.coupon_id = c.id AND s.cleaned_at IS NULL) THEN 'CLEAN_UP_PENDING'
  WHEN EXISTS (SELECT 1 FROM user_coupon u WHERE u.coupon_id = c.id AND u.expires_at >= ?) THEN 'STILL_VALID'
  WHEN EXISTS (SELECT 1 FROM seal x WHERE x.coupon_id = c.id AND x.wrong) THEN 'FOUND_WRONG'
  ELSE '' END
FROM coupon c LEFT JOIN purged_coupon p ON p.coupon_id = c.id
WHERE p.coupon_id IS NULL AND `
	candidatesSQL   = selectCandidateSQL + "c.apply_closes_at < ? AND c.id > ? ORDER BY c.id LIMIT ?"
	oneCandidateSQL = selectCandidateSQL + "c.id = ?"
	continuedSQL    = "SELECT coupon_id FROM purged_coupon WHERE rows_deleted_at IS NULL ORDER BY coupon_id"
)

func (c *PurgeCandidate) fields() []any {
	return []any{&c.Coupon, &c.Name, &c.ClosesAt, &c.Issued, &c.Why}
}

// PlanPurge finds the coupons that closed before the given time. It changes nothing. It returns a *text.UsageError if
// that time is less than MinPurgeDays before now.
func PlanPurge(ctx context.Context, db *mysqltx.DB, queue Queue, before, now time.Time) (*PurgePlan, error) {
	if latest := now.AddDate(0, 0, -MinPurgeDays); before.After(latest) {
		return nil, text.UsageErrorf(text.PurgeTooYoung, before, MinPurgeDays)
	}
	p := &PurgePlan{Before: before, Taken: []PurgeCandidate{}, Left: []PurgeCandidate{}}
	err := db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		p.Taken, p.Left = p.Taken[:0], p.Left[:0]
		if p.Continued, err = mysqltx.Column[coupon.CouponID](ctx, q, continuedSQL); err != nil {
			return err
		}
		return p.readCandidates(ctx, q, queue)
	})
	if err != nil {
		return nil, mysqltx.Wrap(err, "find coupons to purge")
	}
	return p, nil
}

func (p *PurgePlan) readCandidates(ctx context.Context, q mysqltx.Querier, queue Queue) error {
	at := p.Before.UTC()
	for after := coupon.CouponID(0); ; {
		page, err := mysqltx.Collect(ctx, q, (*PurgeCandidate).fields, candidatesSQL, at, at, at, at, after,
			rowsPerPage)
		if err != nil {
			return err
		}
		for _, c := range page {
			after = c.Coupon
			if c.Why == "" {
				if c.Why, err = inRedis(ctx, queue, c.Coupon); err != nil {
					return err
				}
			}
			p.add(c)
		}
		if len(page) < rowsPerPage {
			return nil
		}
	}
}

func (p *PurgePlan) add(c PurgeCandidate) {
	if c.Why == "" {
		p.Taken = append(p.Taken, c)
	} else {
		p.Left = append(p.Left, c)
	}
}

func inRedis(ctx context.Context, queue Queue, id coupon.CouponID) (WhyLeft, error) {
	waiting, dlq, err := queue.CountUndecided(ctx, id)
	if err == nil && waiting+dlq > 0 {
		return InRedis, nil
	}
	return "", err
}

// candidate reads a coupon again, under its lock. found is false if it does not exist or its purge has begun.
func candidate(ctx context.Context, tx *sql.Tx, id coupon.CouponID,
	before time.Time) (c PurgeCandidate, found bool, err error) {
	at := before.UTC()
	rows, err := mysqltx.Collect(ctx, tx, (*PurgeCandidate).fields, oneCandidateSQL, at, at, at, id)
	if err != nil || len(rows) == 0 {
		return c, false, err
	}
	return rows[0], true, nil
}
