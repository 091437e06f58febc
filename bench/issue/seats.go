package issue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
)

// openSeats prepares one row for each free seat. A request takes the first that nobody else has locked.
func openSeats(ctx context.Context, v *stand) (press, error) {
	err := v.Exec(ctx, `CREATE TABLE free_seat (coupon_id BIGINT UNSIGNED NOT NULL, number INT UNSIGNED NOT NULL,
		PRIMARY KEY (coupon_id, number)) ENGINE=InnoDB`)
	if err != nil {
		return nil, err
	}
	err = v.Exec(ctx, "INSERT INTO free_seat SELECT c.id, u.id FROM coupon c JOIN `user` u ON u.id <= c.total_quantity")
	if err != nil {
		return nil, err
	}
	if stored, err := v.Number(ctx, "SELECT COUNT(*) FROM free_seat"); err != nil || stored != v.coupons*v.seats {
		return nil, fmt.Errorf("%d free seats, want %d: %w", stored, v.coupons*v.seats, err)
	}
	t := taker{db: v.Servers.MySQL, taken: make([]atomic.Int64, v.coupons+1)}
	var committed atomic.Uint64
	return func(ctx context.Context, coupon, user int) (answer, uint64, error) {
		a, err := t.take(ctx, coupon, user)
		return a, committed.Add(1), err
	}, nil
}

// taker takes seats in this process.
type taker struct {
	db *sql.DB
	// taken has the highest seat that was taken, by coupon. A search begins shortly before it: MySQL removes deleted
	// rows late, and a search from the first would read them all.
	taken []atomic.Int64
}

// searchBefore is how many seats before the highest one a search begins: more than can be taken at the same time.
const searchBefore = 200

const (
	errDuplicate = 1062
	errDeadlock  = 1213
	seatAttempts = 5
)

func (t *taker) take(ctx context.Context, coupon, user int) (a answer, err error) {
	from := max(0, t.taken[coupon].Load()-searchBefore)
	for range seatAttempts {
		var seat int64
		err = stage.InTransaction(ctx, t.db, func(tx *sql.Tx) (err error) {
			a, seat, err = takeSeat(ctx, tx, coupon, user, from)
			return err
		})
		switch {
		case stage.ErrorNumber(err) == errDuplicate:
			return duplicate, nil
		case stage.ErrorNumber(err) == errDeadlock:
			continue
		case err != nil:
			return failed, err
		case a == soldOut && from > 0:
			from = 0 // a seat that a rollback gave back may be further ahead
			continue
		}
		for before := t.taken[coupon].Load(); before < seat && !t.taken[coupon].CompareAndSwap(before, seat); {
			before = t.taken[coupon].Load()
		}
		return a, nil
	}
	return failed, err
}

func takeSeat(ctx context.Context, tx *sql.Tx, coupon, user int, from int64) (a answer, seat int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT number FROM free_seat WHERE coupon_id = ? AND number >= ?
		ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED`, coupon, from).Scan(&seat)
	if errors.Is(err, sql.ErrNoRows) {
		return soldOut, 0, nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM free_seat WHERE coupon_id = ? AND number = ?", coupon, seat)
	}
	if err == nil {
		now := time.Now().UTC()
		_, err = tx.ExecContext(ctx, `INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, expires_at)
			VALUES (?, ?, ?, ?, ?)`, coupon, user, seat, now, now.AddDate(0, 0, validDays))
	}
	return accepted, seat, err
}
