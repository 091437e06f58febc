// Package verify checks every invariant of the system. It shares no formula and no query with the engine, whose account
// is in package ledger.
//
// It counts rows instead of reading counters, computes digests again, and compares every application in Redis with
// MySQL. It counts again the sums that settlements keep. It compares each run with its record, its rows and its audit
// events. It also finds applications that no run will settle: their coupon is finalised, or exists in Redis only.
//
// It walks the journal of each open coupon, and names the users who are accounted for nowhere. The sums alone can be
// wrong: who may write to Redis may also change its counts.
//
// Applications arrive and settlements commit during a check. A check with a finding is therefore repeated under the
// coupon's row lock: no settlement commits, but applications still arrive. MySQL is read before Redis: the journal,
// coupons and outcomes. An application that arrives meanwhile has raised the count of Redis, too. Before a check is
// repeated, a restore that is due gets time to begin. It holds the same lock.
//
// A check of all coupons looks at what may have changed: coupons that are not finalised, or not sealed, or have a new
// run or audit event. Of sealed coupons it replays the changes of issued coupons. Every sealed coupon has its turn
// within 90 days. It seals finalised coupons that are right (package seal), and then notes how far it has come.
//
// A check changes nothing else. It is safe to repeat and to stop.
package verify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/users"
)

// Store reads what a check needs from Redis. candidates.Store implements it.
type Store interface {
	Observe(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (coupon.Look, error)
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
		cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	UnderReview(ctx context.Context, couponID coupon.CouponID,
		after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error)
	Reasons(ctx context.Context, couponID coupon.CouponID, members []string) (map[string]candidates.Reason, error)
	Marked(ctx context.Context, couponID coupon.CouponID, mark coupon.Mark,
		after uint64) (users []coupon.Application, next uint64, err error)
	Inspect(ctx context.Context, couponID coupon.CouponID) (candidates.Inspection, error)
	ScanCoupons(ctx context.Context, visit func(coupons []coupon.CouponID) error) error
	Now(ctx context.Context) (time.Time, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
}

type Verifier struct {
	Store Store
	Users *users.Directory

	// RestoreTime is how long `settle serve` may take to begin a restore that is due. 0: nothing restores.
	RestoreTime time.Duration
	// HandOverTime is the time that pods have before, from when somebody has met a new server.
	HandOverTime time.Duration

	until atomic.Pointer[time.Time] // when waitForRestore stops waiting for `settle serve`; nil before the first wait
}

// underLock makes a SELECT lock the coupon's row against settlements and changes until the transaction ends. The lock
// is shared, because a read-only server refuses FOR UPDATE.
const underLock = " LOCK IN SHARE MODE"

// ErrPurged says that a purge of the coupon has begun: its rows are being deleted.
var ErrPurged = errors.New("the coupon is being purged")

// Check checks one coupon. If there is a finding that may pass, it checks again under the lock of the coupon's row.
func (r *Verifier) Check(ctx context.Context, db *sql.DB, couponID coupon.CouponID) (*Verdict, error) {
	c, err := r.check(ctx, db, couponID, false)
	if err == nil && slices.ContainsFunc(c.Findings, func(f Finding) bool { return !f.OfCreation() }) {
		if err = r.waitForRestore(ctx, db, c); err == nil {
			c, err = r.check(ctx, db, couponID, true)
		}
	}
	switch {
	case text.Is(err, text.NoSuchCoupon), errors.Is(err, ErrPurged):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
	}
	return &c.Verdict, nil
}

type check struct {
	Verdict
	verifier *Verifier
	tx       *sql.Tx

	row         coupon.Coupon
	books       books          // what MySQL keeps about promises; readBooks sets it
	look        coupon.Look    // what Redis says; countRedis sets it
	lastIssued  coupon.Arrival // highest arrival that got a seat; 0: none did; checkIssued sets it
	lastOutcome coupon.Arrival // highest arrival with an outcome; 0: there is none; countOutcomes sets it
	byRuns      int64          // coupons that runs issued; checkIssued sets it
	seats       seatFaults     // checkRecords sets it
	invalid     int64          // changed coupons with a wrong time of issue or expiry; checkLogs sets it
	pending     int64          // settlements whose clean-up is pending; checkRedis sets it
	journal     journalled     // checkJournal sets it
	events      auditEvents    // what the audit chain says; checkAudit fills it
}

const (
	couponSQL   = "SELECT " + coupon.Columns + " FROM coupon c WHERE c.id = ?"
	checkedSQL  = "SELECT UTC_TIMESTAMP(6), " + coupon.Columns + " FROM coupon c WHERE c.id = ?"
	isPurgedSQL = "SELECT EXISTS (SELECT 1 FROM purged_coupon WHERE coupon_id = ?)"
)

// checks run in this order, because some use the results of earlier ones.
var checks = []func(*check, context.Context) error{
	(*check).readBooks, (*check).checkIssued, (*check).countOutcomes, (*check).countRedis,
	(*check).checkRecords, (*check).checkSums, (*check).checkRows, (*check).checkLogs, (*check).checkValidity,
	(*check).checkRedis, (*check).checkKept, (*check).checkReviews, (*check).checkMarks, (*check).checkJournal,
	(*check).checkPromises, (*check).checkLine,
	(*check).checkAudit, (*check).checkRuns, (*check).checkRejected, (*check).checkApprovals, (*check).checkSeal,
}

func (r *Verifier) check(ctx context.Context, db *sql.DB, couponID coupon.CouponID, locked bool) (*check, error) {
	c := &check{Verdict: Verdict{Coupon: couponID, Findings: []Finding{}}, verifier: r,
		events: auditEvents{runs: map[coupon.RunID]runIdentity{}, dropped: map[droppedApplication]string{}}}
	return c, mysqltx.Read(ctx, db, sql.LevelDefault, func(tx *sql.Tx) error {
		c.tx = tx
		query, purged := checkedSQL, false
		if locked {
			query += underLock
		}
		err := tx.QueryRowContext(ctx, query, couponID).Scan(append([]any{&c.began}, c.row.Fields()...)...)
		if errors.Is(err, sql.ErrNoRows) {
			return text.MissingErrorf(text.NoSuchCoupon, couponID)
		}
		c.Name, c.TotalQuantity, c.IssuedCount = c.row.Name, int64(c.row.TotalQuantity), int64(c.row.IssuedCount)
		for i := 0; err == nil && i < len(checks); i++ {
			err = checks[i](c, ctx)
		}
		if err == nil { // whatever was found may be what a purge has left
			err = tx.QueryRowContext(ctx, isPurgedSQL, couponID).Scan(&purged)
		}
		if err == nil && purged {
			err = ErrPurged
		}
		return err
	})
}

func (c *check) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	return n, c.tx.QueryRowContext(ctx, query, args...).Scan(&n)
}
