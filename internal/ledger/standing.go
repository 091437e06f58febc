package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/candidates"
)

// History reads what MySQL knows of single applications.
type History struct{ DB *sql.DB }

const historySQL = `
SELECT 'ISSUED' AS standing, applied_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?
UNION ALL
SELECT outcome, applied_at FROM application_outcome WHERE coupon_id = ? AND user_id = ? AND outcome <> 'ALREADY_ISSUED'
ORDER BY standing = 'ISSUED' DESC, applied_at DESC LIMIT 1`

// Standing is how a user's application came out: the coupon if there is one, else the latest outcome, else None.
func (h History) Standing(ctx context.Context, coupon, user uint64) (candidates.Status, error) {
	var standing string
	var appliedAt sql.NullTime
	err := h.DB.QueryRowContext(ctx, historySQL, coupon, user, coupon, user).Scan(&standing, &appliedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return candidates.Status{Standing: candidates.None}, nil
	}
	if err != nil {
		return candidates.Status{}, fmt.Errorf("history of user %d with coupon %d: %w", user, coupon, err)
	}
	status := candidates.Status{Standing: candidates.Standing(standing)}
	if appliedAt.Valid {
		status.Arrival = appliedAt.Time.UnixMicro()
	}
	return status, nil
}
