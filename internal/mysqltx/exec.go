package mysqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Affected is the number of rows that a statement found to write. The pool's clientFoundRows counts rows that had the new
// values already.
func Affected(done sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// One is an error unless a statement found exactly one row.
func One(done sql.Result, err error) error {
	n, err := Affected(done, err)
	if err == nil && n != 1 {
		return fmt.Errorf("%d rows, want 1", n)
	}
	return err
}

// WithinSavepoint undoes work alone when it fails on a row. Any other error undoes the whole transaction.
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

// Shorten cuts text to a column's width, in letters, and makes it valid UTF-8.
func Shorten(text string, letters int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if all := []rune(text); len(all) > letters {
		return string(all[:letters])
	}
	return text
}
