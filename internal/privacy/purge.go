package privacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Purger deletes whole coupons. A coupon begins with one transaction that writes its row of table purged_coupon. From
// then on no run and no operator changes it; checkout may still confirm or refund an order. Transactions of a bounded
// size delete its rows, and the last one the coupon. Each of them locks the coupon's row first. A purge that was
// stopped or killed goes on with the next call.
type Purger struct {
	DB     *mysqltx.DB
	Queue  Queue
	Origin audit.Origin
}

// PurgeResult says what a purge did.
type PurgeResult struct {
	Purged []coupon.CouponID `json:"purged"` // coupons that are gone
	Left   []PurgeCandidate  `json:"left"`   // coupons that changed after the plan, or that the plan left
}

// Purge takes the coupons of the plan one by one. With an error, the result has what was done before it.
func (p *Purger) Purge(ctx context.Context, plan *PurgePlan) (*PurgeResult, error) {
	done := &PurgeResult{Purged: []coupon.CouponID{}, Left: plan.Left}
	for _, id := range plan.Continued {
		if err := p.deleteRows(ctx, id); err != nil {
			return done, err
		}
		done.Purged = append(done.Purged, id)
	}
	for _, c := range plan.Taken {
		begun, err := p.begin(ctx, c.Coupon, plan, done)
		if err == nil && begun {
			err = p.deleteRows(ctx, c.Coupon)
		}
		if err != nil {
			return done, err
		}
		if begun {
			done.Purged = append(done.Purged, c.Coupon)
		}
	}
	return done, nil
}

const (
	isPurgedSQL = "SELECT rows_deleted_at IS NOT NULL FROM purged_coupon WHERE coupon_id = ?"

	summarySQL = `
INSERT INTO purged_coupon (coupon_id, name, campaign_id, apply_opens_at, apply_closes_at, finalised_at, total_quantity,
    accepted,
       issued_count, used_count, used_won, revoked_count, not_selected_count, rejected_count,
         audit_seq, audit_hash, actor, reason, purged_at)
SELECT c.id, c.name, c.campaign_id, c.apply_opens_at, c.apply_closes_at, c.finalised_at, c.total_quantity, f.accepted,
       c.issued_count, f.used_count, f.used_won, f.revoked, f.not_selected + f.erased - f.erased_rejected,
         f.rejected + f.erased_rejected,
       COALESCE(h.seq, 0), COALESCE(h.hash, ''), ?, ?, ?
FROM coupon c LEFT JOIN audit_head h ON h.coupon_id = c.id JOIN (
  SELECT COALESCE((SELECT issued + concluded + erased + written_off FROM settled WHERE coupon_id = ?), 0) AS accepted,
         COALESCE((SELECT erased FROM settled WHERE coupon_id = ?), 0) AS erased,
         COALESCE((SELECT erased_rejected FROM settled WHERE coupon_id = ?), 0) AS erased_rejected,
         (SELECT COUNT(*) FROM user_coupon u JOIN coupon_order o ON o.user_coupon_id = u.id WHERE u.coupon_id = ?
           AND o.state = 'USED') AS used_count,
         (SELECT COALESCE(SUM(o.discount_won), 0) FROM user_coupon u JOIN coupon_order o ON o.user_coupon_id = u.id
           WHERE u.coupon_id = ? AND o.state = 'USED') AS used_won,
         (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND status = 'REVOKED') AS revoked,
         (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED') AS not_selected,
         (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED') AS rejected) f
WHERE c.id = ?`
)

// begin writes the row of purged_coupon, if the coupon may still go.
func (p *Purger) begin(ctx context.Context, id coupon.CouponID, plan *PurgePlan,
	done *PurgeResult) (begun bool, err error) {
	if why, err := inRedis(ctx, p.Queue, id); err != nil {
		return false, err
	} else if why != "" {
		done.leave(plan, id, why)
		return false, nil
	}
	var why WhyLeft
	err = p.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		why = ""
		// An attempt that was committed, or another purge, may have begun.
		if begun, err = lockPurged(ctx, tx, id); err != nil || begun {
			return err
		}
		c, found, err := candidate(ctx, tx, id, plan.Before)
		if err != nil || !found {
			return err
		}
		if why = c.Why; why != "" {
			return nil
		}
		begun = true
		return mysqltx.Exec(ctx, tx, 1, summarySQL, p.Origin.Actor, p.Origin.Reason, p.Origin.At, id, id, id, id, id,
			id, id, id, id)
	})
	if err != nil {
		return false, mysqltx.Wrap(err, "begin to purge coupon %d", id)
	}
	if why != "" {
		done.leave(plan, id, why)
	}
	return begun, nil
}

func (r *PurgeResult) leave(plan *PurgePlan, id coupon.CouponID, why WhyLeft) {
	for _, c := range plan.Taken {
		if c.Coupon == id {
			c.Why = why
			r.Left = append(r.Left, c)
		}
	}
}

// lockPurged locks a coupon's row and reports whether its purge has begun.
func lockPurged(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (begun bool, err error) {
	var c coupon.Coupon
	err = tx.QueryRowContext(ctx, coupon.LockSQL, id).Scan(c.FieldsWithKnown()...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // no row: purged, or it never existed
		return false, err
	}
	var deleted bool
	err = tx.QueryRowContext(ctx, isPurgedSQL, id).Scan(&deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (p *Purger) deleteRows(ctx context.Context, id coupon.CouponID) error {
	for {
		var rest bool
		err := p.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
			begun, err := lockPurged(ctx, tx, id)
			if err == nil && !begun {
				err = &coupon.Error{Class: coupon.Invariant,
					Err: fmt.Errorf("coupon %d has no row in purged_coupon", id)}
			}
			if err == nil {
				rest, err = deleteChunk(ctx, tx, id)
			}
			return err
		})
		if err != nil || !rest {
			return mysqltx.Wrap(err, "purge coupon %d", id)
		}
	}
}

// maxDeleted bounds the rows that one transaction deletes, so that locks, undo log and replicas stay small.
const maxDeleted = 5000

// eraser deletes at most the given number of rows of a coupon.
type eraser func(ctx context.Context, tx *sql.Tx, id coupon.CouponID, limit int) (deleted int, err error)

// erasers delete the rows of a coupon, in the order that leaves no row whose owner is gone.
var erasers = []eraser{
	deleteIssued,
	deleteOutcomesOfAll,
	deleteBy("DELETE FROM settled WHERE coupon_id = ? LIMIT ?"),
	deleteBy("DELETE FROM seal WHERE coupon_id = ? LIMIT ?"),
	deleteBy("DELETE FROM line_journal WHERE coupon_id = ? LIMIT ?"),
	deleteBy("DELETE FROM journal WHERE coupon_id = ? LIMIT ?"),
	deleteBy("DELETE FROM approval WHERE coupon_id = ? LIMIT ?"),
	deleteRecords("run_coupon"),
	deleteRecords("settlement"),
	deleteBy("DELETE FROM audit_event WHERE coupon_id = ? LIMIT ?"),
	deleteBy("DELETE FROM audit_head WHERE coupon_id = ? LIMIT ?"),
}

const (
	deleteCouponSQL = "DELETE FROM coupon WHERE id = ?"
	rowsDeletedSQL  = "UPDATE purged_coupon SET rows_deleted_at = UTC_TIMESTAMP(6) WHERE coupon_id = ? AND " +
		"rows_deleted_at IS NULL"
)

// deleteChunk deletes at most maxDeleted rows. If no rows of the coupon remain, it deletes the coupon too.
func deleteChunk(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (rest bool, err error) {
	left := maxDeleted
	for _, erase := range erasers {
		n, err := erase(ctx, tx, id, left)
		if err != nil {
			return false, err
		}
		if left -= n; left <= 0 {
			return true, nil
		}
	}
	// An attempt that was committed may have deleted it.
	if _, err := tx.ExecContext(ctx, deleteCouponSQL, id); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, rowsDeletedSQL, id)
	return false, err
}

func deleteBy(query string) eraser {
	return func(ctx context.Context, tx *sql.Tx, id coupon.CouponID, limit int) (int, error) {
		return mysqltx.Affected(tx.ExecContext(ctx, query, id, limit))
	}
}

const (
	lockIssuedSQL = `
SELECT id, seq, user_id FROM user_coupon WHERE coupon_id = ? ORDER BY user_id LIMIT ? FOR UPDATE`
	deleteOrdersSQL  = "DELETE FROM coupon_order WHERE user_coupon_id IN "
	deleteChangesSQL = "DELETE FROM coupon_log WHERE user_coupon_id IN "
	deleteIssuedSQL  = "DELETE FROM user_coupon WHERE id IN "
	// unlistAllSQL deletes what names the applications of users. A user who was not selected at first may have the
	// coupon.
	unlistAllSQL = "DELETE FROM user_application WHERE coupon_id = ? AND user_id IN "

	// deleteRunsSQL deletes runs that have no record of a coupon any more. One that was killed has none of the coupons
	// that it did not reach.
	deleteRunsSQL = `
DELETE FROM settlement_run WHERE (finished_at IS NOT NULL OR status = 'ABANDONED')
   AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = settlement_run.id)
   AND NOT EXISTS (SELECT 1 FROM run_coupon x WHERE x.run_id = settlement_run.id) AND id IN `
)

// deleteIssued deletes issued coupons, each together with its orders and changes. Checkout calls lock the issued coupon
// too.
func deleteIssued(ctx context.Context, tx *sql.Tx, id coupon.CouponID, limit int) (deleted int, err error) {
	for {
		page, err := mysqltx.Collect(ctx, tx, func(i *issuedRow) []any { return []any{&i.id, &i.changes, &i.user} },
			lockIssuedSQL, id, rowsPerPage)
		if err != nil || len(page) == 0 {
			return deleted, err
		}
		ids := fitting(page, limit-deleted)
		if len(ids) == 0 && deleted > 0 {
			return limit, nil
		}
		if len(ids) == 0 { // one alone has more rows than a transaction deletes
			ids = []uint64{page[0].id}
		}
		if err := unlist(ctx, tx, id, page[:len(ids)]); err != nil {
			return deleted, err
		}
		for _, query := range []string{deleteOrdersSQL, deleteChangesSQL, deleteIssuedSQL} {
			n, err := deleteIn(ctx, tx, query, ids, limit-deleted)
			if err != nil {
				return deleted, err
			}
			if deleted += n; deleted >= limit {
				return deleted, nil
			}
		}
	}
}

type issuedRow struct {
	id, user uint64
	changes  int // rows in coupon_log
}

func unlist(ctx context.Context, tx *sql.Tx, id coupon.CouponID, issued []issuedRow) error {
	users := []any{id}
	for _, i := range issued {
		users = append(users, i.user)
	}
	_, err := tx.ExecContext(ctx, unlistAllSQL+mysqltx.In(len(issued)), users...)
	return err
}

// fitting returns the first issued coupons that have at most limit rows. An order has at least one change.
func fitting(page []issuedRow, limit int) (ids []uint64) {
	for _, i := range page {
		if limit -= 1 + 2*i.changes; limit < 0 {
			break
		}
		ids = append(ids, i.id)
	}
	return ids
}

const usersOfSQL = "SELECT DISTINCT user_id FROM application_outcome WHERE coupon_id = ? ORDER BY user_id LIMIT ?"

// deleteOutcomesOfAll deletes outcomes, each user's together with the row that names the user's applications.
func deleteOutcomesOfAll(ctx context.Context, tx *sql.Tx, id coupon.CouponID, limit int) (deleted int, err error) {
	for deleted < limit {
		users, err := mysqltx.Column[uint64](ctx, tx, usersOfSQL, id, min((limit-deleted+1)/2, rowsPerPage))
		if err != nil || len(users) == 0 {
			return deleted, err
		}
		for _, table := range []string{"user_application", "application_outcome"} {
			n, err := mysqltx.Affected(tx.ExecContext(ctx, "DELETE FROM "+table+
				" WHERE coupon_id = ? AND user_id IN "+mysqltx.In(len(users)), append([]any{id}, args(users)...)...))
			if err != nil {
				return deleted, err
			}
			deleted += n
		}
	}
	return deleted, nil
}

// deleteRecords deletes what runs did to the coupon, and the runs that did nothing else.
func deleteRecords(table string) eraser {
	return func(ctx context.Context, tx *sql.Tx, id coupon.CouponID, limit int) (deleted int, err error) {
		for left := limit / 2; left > 0; { // each record can be the last of its run
			runs, err := mysqltx.Column[uint64](ctx, tx,
				"SELECT run_id FROM "+table+" WHERE coupon_id = ? ORDER BY run_id LIMIT ?", id, min(left, rowsPerPage))
			if err != nil || len(runs) == 0 {
				return deleted, err
			}
			n, err := mysqltx.Affected(tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE coupon_id = ? AND run_id IN "+
				mysqltx.In(len(runs)), append([]any{id}, args(runs)...)...))
			if err != nil {
				return deleted, err
			}
			ended, err := mysqltx.Affected(tx.ExecContext(ctx, deleteRunsSQL+mysqltx.In(len(runs)), args(runs)...))
			if err != nil {
				return deleted, err
			}
			deleted, left = deleted+n+ended, left-n
		}
		return limit, nil
	}
}

func deleteIn(ctx context.Context, tx *sql.Tx, query string, ids []uint64, limit int) (int, error) {
	return mysqltx.Affected(tx.ExecContext(ctx, query+mysqltx.In(len(ids))+" LIMIT ?", append(args(ids), limit)...))
}

func args[T ~uint64](ids []T) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}
