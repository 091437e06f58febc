package mysqltx

import (
	"context"
	"database/sql"
	"fmt"
)

// RowsQuerier is a pool, a connection or a transaction.
type RowsQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each runs a query and calls visit for each row. It returns the first error of the query, of visit or of reading on.
func Each(ctx context.Context, q RowsQuerier, visit func(*sql.Rows) error, query string, args ...any) error {
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

// Collect runs a query and returns its rows, in order and never nil. fields are the scan destinations of one row.
func Collect[T any](ctx context.Context, q RowsQuerier, fields func(*T) []any, query string, args ...any) ([]T, error) {
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

// Column runs a query of one column and returns its values, in order and never nil.
func Column[T any](ctx context.Context, q RowsQuerier, query string, args ...any) ([]T, error) {
	return Collect(ctx, q, func(value *T) []any { return []any{value} }, query, args...)
}

// Read reads in one transaction, which it rolls back.
func Read(ctx context.Context, pool *sql.DB, isolation sql.IsolationLevel, read func(tx *sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return read(tx)
}
