package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// settleRun is the product. It measures the whole process, from its start to its exit.
func settleRun(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	r, err := s.settleWith(ctx, campaign{coupons: 1, seats: n, candidates: n}, around{alone: true})
	if err == nil {
		say("processor time: %s", r.cpu)
	}
	return r.took, r.peak, err
}

// otherBuild is settleRun with another build of settle.
func otherBuild(path string) contender {
	return contender{"settle run, the other build", 10_000_000, func(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
		other := *s
		other.bin = path
		return settleRun(ctx, &other, n)
	}}
}

const userCouponColumns = "coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id"

// inOneTransaction measures work in one transaction on a new database.
func (s *stage) inOneTransaction(ctx context.Context, n int, work func(tx *sql.Tx) error) (time.Duration, int64, error) {
	db, _, drop, err := s.Fresh(ctx, 1, n)
	if err != nil {
		return 0, 0, err
	}
	defer drop()
	if err := db.PingContext(ctx); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := work(tx); err != nil {
		return 0, 0, err
	}
	err = tx.Commit()
	took := time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	var stored int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM user_coupon").Scan(&stored); err != nil || stored != n {
		return 0, 0, fmt.Errorf("%d rows stored, want %d: %w", stored, n, err)
	}
	return took, 0, nil
}

const (
	issuedAt  = "2026-11-21 00:00:00.000000"
	expiresAt = "2026-12-21 00:00:00.000000"
)

// loadData is the yardstick. It loads only the issued rows, in order of arrival, from memory.
func loadData(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	var file strings.Builder
	start := first()
	for place, user := range queue(n) {
		appliedAt := time.UnixMicro(start + int64(place)).UTC().Format("2006-01-02 15:04:05.000000")
		fmt.Fprintf(&file, "%d\t%d\t%d\t%s\t%s\t%s\t1\n", couponID, user, place+1, appliedAt, issuedAt, expiresAt)
	}
	return s.inOneTransaction(ctx, n, func(tx *sql.Tx) error {
		return load(ctx, tx, "user_coupon ("+userCouponColumns+")", func(w io.Writer) error {
			_, err := io.Copy(w, strings.NewReader(file.String()))
			return err
		})
	})
}

// multiRow inserts 1,000 rows per statement, like optimised code.
func multiRow(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	users := queue(n)
	return s.inOneTransaction(ctx, n, func(tx *sql.Tx) error { return insert(ctx, tx, users, 1000) })
}

// singleRow inserts one row per statement, like most code.
func singleRow(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	users := queue(n)
	return s.inOneTransaction(ctx, n, func(tx *sql.Tx) error { return insert(ctx, tx, users, 1) })
}

func insert(ctx context.Context, tx *sql.Tx, users []uint32, rows int) error {
	start, n := first(), len(users)
	for from := 0; from < n; from += rows {
		text := []byte("INSERT INTO user_coupon (" + userCouponColumns + ") VALUES ")
		for place := from; place < min(from+rows, n); place++ {
			if place > from {
				text = append(text, ',')
			}
			text = append(text, '(')
			text = strconv.AppendInt(text, couponID, 10)
			text = append(text, ',')
			text = strconv.AppendInt(text, int64(users[place]), 10)
			text = append(text, ',')
			text = strconv.AppendInt(text, int64(place+1), 10)
			text = append(text, ",'"...)
			text = time.UnixMicro(start+int64(place)).UTC().AppendFormat(text, "2006-01-02 15:04:05.000000")
			text = append(text, "','"+issuedAt+"','"+expiresAt+"',1)"...)
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return err
		}
	}
	return nil
}
