package ledger

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/jajeong/jajeong/internal/candidates"
)

// markedUsers are users of one page of marks.
const markedUsers = "SELECT COUNT(*) FROM JSON_TABLE(?, '$[*]' COLUMNS (user_id BIGINT UNSIGNED PATH '$')) AS j WHERE NOT EXISTS "

const (
	issuedMarksSQL   = markedUsers + "(SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id)"
	rejectedMarksSQL = markedUsers + "(SELECT 1 FROM application_outcome o WHERE o.coupon_id = ? AND o.user_id = j.user_id AND o.outcome = 'REJECTED')"
)

// checkMarks: nobody may be told ALREADY_ISSUED who does not hold the coupon, nor REJECTED who was not rejected, as whoever
// waits. Marks are made when what they say has committed.
func (l *Ledger) checkMarks(ctx context.Context, tx *sql.Tx, _ candidates.Figures, v *Verdict) error {
	strangers, err := countStrangers(ctx, tx, v.Coupon, l.Store.MarkedIssued, issuedMarksSQL)
	if err != nil {
		return err
	}
	if strangers > 0 {
		v.find(6, MarkedWithoutHold, strangers, "%d users are answered ALREADY_ISSUED without holding the coupon", strangers)
	}
	if strangers, err = countStrangers(ctx, tx, v.Coupon, l.Store.MarkedRejected, rejectedMarksSQL); err != nil {
		return err
	}
	if strangers > 0 {
		v.find(6, MarkedForNothing, strangers, "%d users are answered REJECTED though nobody has rejected them", strangers)
	}
	return nil
}

// countStrangers counts the marks that MySQL knows nothing of. One may come twice, and is counted twice then.
func countStrangers(ctx context.Context, tx *sql.Tx, coupon uint64,
	marked func(ctx context.Context, coupon, after uint64) ([]string, uint64, error), strangersSQL string,
) (strangers int64, err error) {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		members, next, err := marked(ctx, coupon, cursor)
		if err != nil {
			return 0, err
		}
		cursor = next
		users := []byte{'['}
		for _, member := range members {
			user, err := strconv.ParseUint(member, 10, 64)
			if err != nil {
				strangers++
				continue
			}
			users = append(strconv.AppendUint(users, user, 10), ',')
		}
		if len(users) == 1 {
			continue
		}
		users[len(users)-1] = ']'
		var n int64
		if err := tx.QueryRowContext(ctx, strangersSQL, string(users), coupon).Scan(&n); err != nil {
			return 0, err
		}
		strangers += n
	}
	return strangers, nil
}
