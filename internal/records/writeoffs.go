package records

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const writeOffSQL = `
INSERT INTO settled (coupon_id, written_off) VALUES (?, ?)
ON DUPLICATE KEY UPDATE written_off = written_off + VALUES(written_off)`

// WriteOff accepts a gap in the name of an operator. The audit event has the approved digest.
func WriteOff(ctx context.Context, tx *sql.Tx, by audit.Origin, couponID coupon.CouponID, a ledger.Account,
	digest string) error {
	if err := mysqltx.Upsert(ctx, tx, writeOffSQL, couponID, a.Gap()); err != nil {
		return mysqltx.Wrap(err, "write off gap of coupon %d", couponID)
	}
	missing := audit.MissingPromises{Missing: a.Gap(), Account: a.Figures()}
	return audit.Append(ctx, tx, by, audit.GapAccepted, couponID,
		audit.Entry{Payload: audit.WrittenOff{MissingPromises: missing, Digest: digest}})
}

const (
	settledDigestSQL = "SELECT EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND winners_digest = ?)"
	writeOffsSQL     = "SELECT e.detail" + audit.Chained + "WHERE e.coupon_id = ? AND e.action = ?"
)

// HasDigest reports whether an earlier settlement or write-off of the coupon had the digest.
func HasDigest(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, digest string) (found bool, err error) {
	if err = tx.QueryRowContext(ctx, settledDigestSQL, couponID, digest).Scan(&found); err != nil || found {
		return found, mysqltx.Wrap(err, "look for the winners of coupon %d", couponID)
	}
	writeOffs, err := mysqltx.Column[audit.Detail](ctx, tx, writeOffsSQL, couponID, audit.GapAccepted)
	return slices.ContainsFunc(writeOffs, func(d audit.Detail) bool {
		accepted, ok := d.Payload(audit.GapAccepted).(audit.WrittenOff)
		return ok && accepted.Digest == digest
	}), mysqltx.Wrap(err, "look for write-offs of coupon %d", couponID)
}
