// Package seal keeps what `settle verify` has found right: one row of table seal for each finalised coupon that was
// checked. The row has a digest of what no program changes later: the coupons that runs issued, without their use; the
// other outcomes; the records of runs; and the audit chain up to its end at that time. A later check computes the
// digest again, so that it also finds a change that agrees with everything else.
//
// `settle user forget` deletes outcomes, and seals the coupon again in its transaction. A later run of the coupon ends
// the seal: the next check seals the coupon again.
package seal

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Seal is a row of table seal.
type Seal struct {
	Digest   string       // "sha256:<hex>"; empty: the coupon was never found right
	Run      coupon.RunID // the last run with a record of the coupon; 0: none
	AuditSeq uint64       // the last audit event that the digest covers
}

const (
	readSQL   = "SELECT digest, run_id, audit_seq FROM seal WHERE coupon_id = ?"
	newestSQL = "SELECT COALESCE(MAX(run_id), 0) FROM settlement WHERE coupon_id = ?"
)

// Read returns the seal of a coupon. It returns nil without one, and for one that a later run has ended.
func Read(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (*Seal, error) {
	var s Seal
	err := q.QueryRowContext(ctx, readSQL, id).Scan(&s.Digest, &s.Run, &s.AuditSeq)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, mysqltx.Wrap(err, "read the seal of coupon %d", id)
	}
	newest, err := NewestRun(ctx, q, id)
	if err != nil || s.Digest == "" || s.Run != newest {
		return nil, err
	}
	return &s, nil
}

// NewestRun returns the last run with a record of the coupon; 0: there is none.
func NewestRun(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (run coupon.RunID, err error) {
	err = q.QueryRowContext(ctx, newestSQL, id).Scan(&run)
	return run, mysqltx.Wrap(err, "read the last run of coupon %d", id)
}

const (
	issuedSQL = `
SELECT id, user_id, position, ` + micros + `applied_at), ` + micros + `issued_at), run_id
FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY user_id, id`
	outcomesSQL = `
SELECT user_id, ` + micros + `applied_at), outcome, cause, note, member, run_id, ` + micros + `recorded_at)
FROM application_outcome WHERE coupon_id = ? ORDER BY user_id, applied_at`
	recordsSQL = `
SELECT run_id, issued_count, under_review_count, ended_count, already_issued_count, not_selected_count, first_arrival,
    last_arrival, winners_digest, ` + micros + `settled_at)
FROM settlement WHERE coupon_id = ? ORDER BY run_id`
	auditSQL = "SELECT hash FROM audit_event WHERE coupon_id = ? AND seq = ?"

	micros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
)

// Rows is the digest of a coupon's rows, without the audit chain.
func Rows(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) ([]byte, error) {
	sum := sha256.New()
	for _, query := range []string{issuedSQL, outcomesSQL, recordsSQL} {
		if err := add(ctx, q, sum, query, id); err != nil {
			return nil, mysqltx.Wrap(err, "compute the digest of coupon %d", id)
		}
	}
	return sum.Sum(nil), nil
}

// add adds the rows of a query. Each value has its length before it; that of NULL is -1.
func add(ctx context.Context, q mysqltx.Querier, sum hash.Hash, query string, args ...any) error {
	var values []sql.RawBytes
	var fields []any
	var line []byte
	n := 0
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		if fields == nil {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			values, fields = make([]sql.RawBytes, len(columns)), make([]any, len(columns))
			for i := range values {
				fields[i] = &values[i]
			}
		}
		if err := rows.Scan(fields...); err != nil {
			return err
		}
		line = line[:0]
		for _, v := range values {
			length := len(v)
			if v == nil {
				length = -1
			}
			line = append(append(strconv.AppendInt(line, int64(length), 10), ' '), v...)
		}
		sum.Write(line)
		n++
		return nil
	}, query, args...)
	fmt.Fprintf(sum, "%d rows", n)
	return err
}

// Digest is the digest of a coupon's rows and of its audit chain up to an event.
func Digest(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, rows []byte, seq uint64) (string, error) {
	sum := sha256.New()
	sum.Write(rows)
	if err := add(ctx, q, sum, auditSQL, id, seq); err != nil {
		return "", mysqltx.Wrap(err, "read the audit chain of coupon %d", id)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

const (
	rightSQL = `
INSERT INTO seal (coupon_id, digest, run_id, audit_seq, sealed_at, checked_at) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE sealed_at = IF(digest = VALUES(digest), sealed_at, VALUES(sealed_at)), digest = VALUES(digest),
    run_id = VALUES(run_id), audit_seq = VALUES(audit_seq), checked_at = VALUES(checked_at)`
	wrongSQL = `
INSERT INTO seal (coupon_id, sealed_at) VALUES (?, ?) ON DUPLICATE KEY UPDATE checked_at = NULL`
)

// Put seals a coupon that was found right.
func Put(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, s Seal, at time.Time) error {
	return mysqltx.Wrap(mysqltx.Upsert(ctx, q, rightSQL, id, s.Digest, s.Run, s.AuditSeq, at, at), "seal coupon %d", id)
}

// Wrong notes that a coupon was not found right: every check of all coupons checks it again. An older digest stays.
func Wrong(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, at time.Time) error {
	return mysqltx.Wrap(mysqltx.Upsert(ctx, q, wrongSQL, id, at), "note that coupon %d is not right", id)
}

// Again is for a transaction that changes what a seal covers, and has locked the coupon's row.
type Again struct {
	id    coupon.CouponID
	holds bool
}

// Hold looks whether the coupon has a seal that is right, before the change.
func Hold(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (*Again, error) {
	s, err := Read(ctx, q, id)
	if err != nil || s == nil {
		return &Again{id: id}, err
	}
	rows, err := Rows(ctx, q, id)
	if err != nil {
		return nil, err
	}
	digest, err := Digest(ctx, q, id, rows, s.AuditSeq)
	return &Again{id: id, holds: digest == s.Digest}, err
}

const (
	againSQL = "UPDATE seal SET digest = ?, audit_seq = ?, sealed_at = ? WHERE coupon_id = ?"
	headSQL  = "SELECT COALESCE(MAX(seq), 0) FROM audit_head WHERE coupon_id = ?"
)

// Seal seals the coupon again, after the change. A seal that was not right stays, so that the next check finds it.
func (a *Again) Seal(ctx context.Context, q mysqltx.Querier, at time.Time) error {
	if !a.holds {
		return nil
	}
	var head uint64
	if err := q.QueryRowContext(ctx, headSQL, a.id).Scan(&head); err != nil {
		return mysqltx.Wrap(err, "read the audit chain of coupon %d", a.id)
	}
	rows, err := Rows(ctx, q, a.id)
	if err != nil {
		return err
	}
	digest, err := Digest(ctx, q, a.id, rows, head)
	if err != nil {
		return err
	}
	return mysqltx.Wrap(mysqltx.Exec(ctx, q, 1, againSQL, digest, head, at, a.id), "seal coupon %d again", a.id)
}
