package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/go-sql-driver/mysql"
)

// rowLockConnections is the pool size of the product. More connections would wait for the same row.
const rowLockConnections = 32

// duplicateEntry is the MySQL error number of a duplicate key.
const duplicateEntry = 1062

// rowLock issues a coupon per request. It locks the row of the coupon until the commit.
func rowLock(w wiring) (http.Handler, error) {
	config, err := mysql.ParseDSN(w.DSN)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true // one round trip for each statement
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(rowLockConnections)
	db.SetMaxIdleConns(rowLockConnections)
	return asking(func(ctx context.Context, a *application) error {
		err := giveSeat(ctx, db, a)
		if number := new(mysql.MySQLError); errors.As(err, &number) && number.Number == duplicateEntry {
			a.Status, err = "DUPLICATE", nil
		}
		return err
	}), nil
}

func giveSeat(ctx context.Context, db *sql.DB, a *application) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var issued int64
	if err := tx.QueryRowContext(ctx, "SELECT total_quantity, issued_count FROM coupon WHERE id = ? FOR UPDATE", a.CouponID).
		Scan(&a.Seats, &issued); err != nil {
		return err
	}
	if issued >= a.Seats {
		a.Status = "SOLD_OUT"
		return nil
	}
	now := time.Now().UTC()
	a.Status, a.Position = "ACCEPTED", issued+1
	a.at(now)
	if _, err := tx.ExecContext(ctx, "INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, expires_at) VALUES (?, ?, ?, ?, ?)",
		a.CouponID, a.UserID, a.Position, now, now.AddDate(0, 0, 30)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", a.CouponID); err != nil {
		return err
	}
	return tx.Commit()
}
