// Package seal keeps what `settle verify` has found right: one row of table seal for each finalised coupon that was
// checked. The row has a digest of what no program changes later: the coupon's terms; the coupons that were issued,
// without their state; the other outcomes; the records of runs; the changes of issued coupons, in coupon_log; and the
// audit chain up to its end at that time. A later check computes the digest again, so that it also finds a change that
// agrees with everything else.
//
// `settle user forget` deletes outcomes, and changes the digest by them in its transaction. A later run of the coupon
// ends the seal: the next check seals the coupon again.
package seal

import (
	"context"
	"crypto/sha512"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Seal is a row of table seal.
type Seal struct {
	Digest   string    // "sum512:<hex>"; empty: the coupon was never found right
	State              // when it was sealed
	SealedAt time.Time // when the check began that found the coupon right, by the clock of MySQL
}

const readSQL = `
SELECT s.digest, s.records, s.audit_seq, s.sealed_at FROM seal s WHERE s.coupon_id = ? AND s.digest <> ''
    AND (s.broken OR s.records >= (SELECT COUNT(*) FROM settlement x WHERE x.coupon_id = s.coupon_id))`

// Read returns the seal of a coupon. It returns nil without one, and for one that a later run has ended. No run ends
// one that was found broken.
func Read(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (*Seal, error) {
	var s Seal
	err := q.QueryRowContext(ctx, readSQL, id).Scan(&s.Digest, &s.Records, &s.AuditSeq, &s.SealedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &s, mysqltx.Wrap(err, "read the seal of coupon %d", id)
}

// State is what a seal depends on.
type State struct {
	Records  uint64 // number of records of runs: a run that began before others may settle the coupon after them
	AuditSeq uint64 // the last audit event
}

const stateSQL = `
SELECT (SELECT COUNT(*) FROM settlement WHERE coupon_id = ?),
    COALESCE((SELECT seq FROM audit_head WHERE coupon_id = ?), 0)`

func ReadState(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (s State, err error) {
	err = q.QueryRowContext(ctx, stateSQL, id, id).Scan(&s.Records, &s.AuditSeq)
	return s, mysqltx.Wrap(err, "read the records and the last audit event of coupon %d", id)
}

// settling is how long before a check a row must be written to be covered: a transaction with an earlier time may not
// be committed yet.
const settling = 24 * time.Hour

const (
	termsSQL = `
SELECT ` + atOnce + `, name, campaign_id, ` + micros + `apply_opens_at), validity_days, discount_won, discount_percent,
    discount_max_won, minimum_won
FROM coupon WHERE id = ?`
	// A coupon that was given by hand is covered some time later.
	issuedSQL = `
SELECT IF(run_id IS NULL, ` + micros + `issued_at), ` + atOnce + `), id, user_id, position, ` + micros + `applied_at),
    ` + micros + `issued_at), run_id
FROM user_coupon WHERE coupon_id = ?`
	recordsSQL = `
SELECT ` + atOnce + `, run_id, issued_count, under_review_count, ended_count, already_issued_count, not_selected_count,
    first_arrival, last_arrival, winners_digest, ` + micros + `settled_at)
FROM settlement WHERE coupon_id = ?`
	logSQL = `
SELECT ` + micros + `l.at), l.user_coupon_id, l.seq, l.kind, l.order_id, l.amount_won, l.discount_won,
    ` + micros + `l.expires_at), l.seats, l.actor
FROM user_coupon u JOIN coupon_log l ON l.user_coupon_id = u.id WHERE u.coupon_id = ?`
	outcomesSQL = `
SELECT ` + atOnce + `, user_id, ` + micros + `applied_at), outcome, cause, note, member, run_id,
    ` + micros + `recorded_at)
FROM application_outcome WHERE coupon_id = ?`
	ofUser   = " AND user_id = ?"
	auditSQL = "SELECT " + atOnce + ", seq, hash FROM audit_event WHERE coupon_id = ? AND seq = ?"

	micros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
	atOnce = "0" // the time of a row that is covered at once
)

// sum is a sum of SHA-512 over rows, modulo 2^512: it depends on no order, and a row can be taken out.
type sum struct{ total big.Int }

var modulus = new(big.Int).Lsh(big.NewInt(1), 8*sha512.Size)

// add adds a row of a table.
func (s *sum) add(table string, values []sql.RawBytes) { s.change(hashOf(table, values)) }

// hashOf is the SHA-512 of a row. Each value has its length before it; that of NULL is -1.
func hashOf(table string, values []sql.RawBytes) *big.Int {
	line := []byte(table)
	for _, v := range values {
		length := len(v)
		if v == nil {
			length = -1
		}
		line = append(append(strconv.AppendInt(append(line, ' '), int64(length), 10), ' '), v...)
	}
	row := sha512.Sum512(line)
	return new(big.Int).SetBytes(row[:])
}

func (s *sum) change(by *big.Int) { s.total.Mod(s.total.Add(&s.total, by), modulus) }

const prefix = "sum512:"

func (s *sum) String() string {
	var bytes [sha512.Size]byte
	return prefix + hex.EncodeToString(s.total.FillBytes(bytes[:]))
}

func parse(digest string) (*sum, error) {
	bytes, err := hex.DecodeString(strings.TrimPrefix(digest, prefix))
	if err != nil {
		return nil, fmt.Errorf("digest %q: %w", digest, err)
	}
	s := new(sum)
	s.total.SetBytes(bytes)
	return s, nil
}

// rows calls add for each row of a query, with the time at which it was written (µs since 1970) and its other
// values.
func rows(ctx context.Context, q mysqltx.Querier, add func(at int64, values []sql.RawBytes), query string,
	args ...any) error {
	var at int64
	var values []sql.RawBytes
	var fields []any
	return mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		if fields == nil {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			values, fields = make([]sql.RawBytes, len(columns)-1), []any{&at}
			for i := range values {
				fields = append(fields, &values[i])
			}
		}
		err := rows.Scan(fields...)
		if err == nil {
			add(at, values)
		}
		return err
	}, query, args...)
}

// Digests are the digests of a coupon's rows that seals of these times and audit events have.
func Digests(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, seals ...*Seal) (digests []string, err error) {
	sums := make([]sum, len(seals))
	for _, t := range []struct{ name, query string }{{"coupon", termsSQL}, {"user_coupon", issuedSQL},
		{"settlement", recordsSQL}, {"coupon_log", logSQL}, {"application_outcome", outcomesSQL}} {
		err := rows(ctx, q, func(at int64, values []sql.RawBytes) {
			row := hashOf(t.name, values)
			for i, s := range seals {
				if at < s.SealedAt.Add(-settling).UnixMicro() {
					sums[i].change(row)
				}
			}
		}, t.query, id)
		if err != nil {
			return nil, mysqltx.Wrap(err, "compute the digest of coupon %d", id)
		}
	}
	for i, s := range seals {
		if err := sums[i].addAudit(ctx, q, id, s.AuditSeq); err != nil {
			return nil, err
		}
		digests = append(digests, sums[i].String())
	}
	return digests, nil
}

// addAudit adds the chain up to an event, whose hash covers those before.
func (s *sum) addAudit(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, seq uint64) error {
	err := rows(ctx, q, func(_ int64, values []sql.RawBytes) { s.add("audit_event", values) }, auditSQL, id, seq)
	return mysqltx.Wrap(err, "read the audit chain of coupon %d", id)
}

const (
	rightSQL = `
INSERT INTO seal (coupon_id, digest, records, audit_seq, sealed_at, checked_at, wrong, broken)
VALUES (?, ?, ?, ?, ?, ?, FALSE, FALSE)
ON DUPLICATE KEY UPDATE digest = VALUES(digest), records = VALUES(records), audit_seq = VALUES(audit_seq),
    sealed_at = VALUES(sealed_at), checked_at = VALUES(checked_at), wrong = VALUES(wrong),
    broken = VALUES(broken)`
	wrongSQL = `
INSERT INTO seal (coupon_id, sealed_at, checked_at, wrong, broken) VALUES (?, ?, ?, TRUE, ?)
ON DUPLICATE KEY UPDATE checked_at = VALUES(checked_at), wrong = VALUES(wrong), broken = broken OR VALUES(broken)`
)

// Right seals a coupon that a check has found right. The transaction has locked the coupon's row.
func Right(ctx context.Context, tx *sql.Tx, id coupon.CouponID, s *Seal) error {
	later, err := checkedLater(ctx, tx, id, s.SealedAt)
	if err != nil || later {
		return err
	}
	err = mysqltx.Upsert(ctx, tx, rightSQL, id, s.Digest, s.Records, s.AuditSeq, s.SealedAt, s.SealedAt)
	return mysqltx.Wrap(err, "seal coupon %d", id)
}

// Wrong notes that a check, which began at this time, has found a coupon wrong, or could not check it: each check of
// all coupons looks at it again. An older digest stays; broken says that the rows are not those of it. The transaction
// has locked the coupon's row.
func Wrong(ctx context.Context, tx *sql.Tx, id coupon.CouponID, broken bool, at time.Time) error {
	later, err := checkedLater(ctx, tx, id, at)
	if err != nil || later {
		return err
	}
	return mysqltx.Wrap(mysqltx.Upsert(ctx, tx, wrongSQL, id, at, at, broken), "note that coupon %d is not right", id)
}

const laterSQL = "SELECT COUNT(*) FROM seal WHERE coupon_id = ? AND checked_at > ? AND checked_at <= UTC_TIMESTAMP(6)"

// checkedLater reports whether another check began later and has ended: its result stays.
func checkedLater(ctx context.Context, tx *sql.Tx, id coupon.CouponID, at time.Time) (later bool, err error) {
	err = tx.QueryRowContext(ctx, laterSQL, id, at).Scan(&later)
	return later, mysqltx.Wrap(err, "read the seal of coupon %d", id)
}

// Change is for a transaction that deletes outcomes of one user, and has locked the coupon's row.
type Change struct {
	id     coupon.CouponID
	user   coupon.UserID
	seal   *Seal // nil: there is nothing to change
	latest bool  // the digest covers the whole audit chain
	before sum
}

// Before reads what is sealed, before the change.
func Before(ctx context.Context, tx *sql.Tx, id coupon.CouponID, user coupon.UserID) (*Change, error) {
	c := &Change{id: id, user: user}
	state, err := ReadState(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if c.seal, err = Read(ctx, tx, id); err != nil || c.seal == nil {
		return c, err
	}
	c.latest = c.seal.AuditSeq == state.AuditSeq
	return c, c.before.addUser(ctx, tx, c, c.seal.AuditSeq)
}

// addUser adds what a change can change: the outcomes of the user, and the audit chain.
func (s *sum) addUser(ctx context.Context, tx *sql.Tx, c *Change, seq uint64) error {
	err := rows(ctx, tx, func(_ int64, values []sql.RawBytes) { s.add("application_outcome", values) },
		outcomesSQL+ofUser, c.id, c.user)
	if err != nil {
		return mysqltx.Wrap(err, "read the outcomes of a user in coupon %d", c.id)
	}
	return s.addAudit(ctx, tx, c.id, seq)
}

const changeSQL = "UPDATE seal SET digest = ?, audit_seq = ? WHERE coupon_id = ?"

// After changes the digest by what was changed. A seal that was broken before stays so. The audit event of the change
// is sealed, too, so that no check looks at the coupon for it alone, unless there are others that no check has seen.
func (c *Change) After(ctx context.Context, tx *sql.Tx) error {
	if c.seal == nil {
		return nil
	}
	state, err := ReadState(ctx, tx, c.id)
	if err != nil {
		return err
	}
	seq := c.seal.AuditSeq
	if c.latest {
		seq = state.AuditSeq
	}
	digest, err := parse(c.seal.Digest)
	if err != nil {
		return err
	}
	var after sum
	if err := after.addUser(ctx, tx, c, seq); err != nil {
		return err
	}
	digest.change(after.total.Sub(&after.total, &c.before.total))
	return mysqltx.Wrap(mysqltx.Exec(ctx, tx, 1, changeSQL, digest.String(), seq, c.id), "seal coupon %d again", c.id)
}
