package wallet

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Grants are coupons that are given by hand.
type Grants struct {
	Coupon        coupon.CouponID
	Users         []coupon.UserID // each once; none has the coupon
	At, ExpiresAt time.Time
	Actor         string
}

const (
	grantSQL = `
INSERT INTO user_coupon (coupon_id, user_id, issued_at, expires_at, seq)
SELECT ?, j.user_id, ?, ?, 1 FROM ` + mysqltx.UsersTable

	// logGrantsSQL reads the new rows in the order of their key: within the lock of the coupon's row, nobody else adds
	// rows of the coupon.
	logGrantsSQL = `
INSERT INTO coupon_log (user_coupon_id, seq, kind, expires_at, seats, actor, at)
SELECT u.id, u.seq, ?, u.expires_at, 1, ?, u.issued_at FROM user_coupon u
WHERE u.id >= ? AND u.coupon_id = ? ORDER BY u.id`
)

// GrantAll gives a coupon to users, and logs that. tx must hold the lock of the coupon's row.
func GrantAll(ctx context.Context, tx *sql.Tx, g Grants) error {
	done, err := tx.ExecContext(ctx, grantSQL, g.Coupon, g.At, g.ExpiresAt.UTC(), mysqltx.UsersJSON(g.Users))
	first := int64(0)
	if err == nil {
		first, err = done.LastInsertId() // of a statement that inserts several rows, the servers report the first id
	}
	if err == nil {
		err = mysqltx.Exec(ctx, tx, len(g.Users), logGrantsSQL, coupon.LogGranted, g.Actor, first, g.Coupon)
	}
	if err != nil {
		return fmt.Errorf("grant coupon %d to %d users: %w", g.Coupon, len(g.Users), err)
	}
	return nil
}
