package mysqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Affected returns the number of rows that a statement found, including those that it did not change.
func Affected(done sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// Exec runs a statement that must affect exactly want rows.
func Exec(ctx context.Context, q Querier, want int, query string, args ...any) error {
	n, err := Affected(q.ExecContext(ctx, query, args...))
	if err == nil && n != want {
		err = fmt.Errorf("%d rows, want %d", n, want)
	}
	return err
}

// Upsert runs INSERT … ON DUPLICATE KEY UPDATE. Its row count is ignored: MySQL may report 0, 1 or 2 for one row.
func Upsert(ctx context.Context, q Querier, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return err
}

// Wrap adds the name of the failed operation to an error. For nil it returns nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// WithinSavepoint undoes just work if MySQL refuses a row. After other errors the caller rolls back the transaction.
func WithinSavepoint(ctx context.Context, tx *sql.Tx, name string, work func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	err := work()
	if err == nil || !IsBadRow(err) && !IsDuplicate(err) {
		return err
	}
	if _, undo := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+name); undo != nil {
		return errors.Join(undo, err)
	}
	return err
}

// InsertGood inserts rows in order and returns those that were stored. insert gets a part of the rows, and how many are
// stored before it. A part that MySQL refuses is halved until the refused row is alone and goes to refuse. An error of
// refuse ends the insertion. A failed statement undoes itself, so only the halving needs a savepoint.
func InsertGood[T any](ctx context.Context, tx *sql.Tx, before int, all []T, insert func(stored int, part []T) error,
	refuse func(T, error) error) (stored []T, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	why := insert(before, all)
	if !IsBadRow(why) {
		return all, why
	}
	err = WithinSavepoint(ctx, tx, "whole", func() (err error) {
		stored, err = insertHalves(before, all, why, insert, refuse)
		return err
	})
	return stored, err
}

func insertHalves[T any](before int, part []T, why error, insert func(stored int, part []T) error,
	refuse func(T, error) error) (stored []T, err error) {
	if len(part) == 1 {
		return nil, refuse(part[0], why)
	}
	for _, half := range [][]T{part[:len(part)/2], part[len(part)/2:]} {
		at := before + len(stored)
		err := insert(at, half)
		if IsBadRow(err) {
			half, err = insertHalves(at, half, err, insert, refuse)
		}
		if err != nil {
			return nil, err
		}
		stored = append(stored, half...)
	}
	return stored, nil
}

// Shorten cuts text to the width of a column, in characters, and makes it valid UTF-8.
func Shorten(text string, letters int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if all := []rune(text); len(all) > letters {
		return string(all[:letters])
	}
	return text
}

func Each(ctx context.Context, q Querier, visit func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Collect returns the rows of a query, never nil. fields returns the scan destinations of a row.
func Collect[T any](ctx context.Context, q Querier, fields func(*T) []any, query string, args ...any) ([]T, error) {
	found := []T{}
	err := Each(ctx, q, func(rows *sql.Rows) error {
		var row T
		err := rows.Scan(fields(&row)...)
		found = append(found, row)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Column returns the values of a query that selects one column, never nil.
func Column[T any](ctx context.Context, q Querier, query string, args ...any) ([]T, error) {
	return Collect(ctx, q, func(value *T) []any { return []any{value} }, query, args...)
}

// Now returns MySQL's clock.
func Now(ctx context.Context, q Querier) (now time.Time, err error) {
	err = q.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(6)").Scan(&now)
	return now, Wrap(err, "read the clock of MySQL")
}

// List returns a row of placeholders n times, with commas.
func List(row string, n int) string { return strings.TrimSuffix(strings.Repeat(row+", ", n), ", ") }

// In returns n placeholders in parentheses; one that nothing equals if n is 0, because SQL has no empty list.
func In(n int) string {
	if n == 0 {
		return "(NULL)"
	}
	return "(" + List("?", n) + ")"
}

// Read calls read in a transaction, which it then rolls back.
func Read(ctx context.Context, pool *sql.DB, isolation sql.IsolationLevel, read func(tx *sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return read(tx)
}
