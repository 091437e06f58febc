package mysqltx

import (
	"context"
	"database/sql"
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
