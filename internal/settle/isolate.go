package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// pageAttempts bounds classifying a page again because somebody gave its users the coupon by hand meanwhile.
const pageAttempts = 3

// badRowsAllowed is how many rows of a settlement may be refused by the database before the fault is taken to lie
// elsewhere: a few users with something odd about them must not stop a coupon, a broken trigger or schema must.
func badRowsAllowed(seats int) int { return 100 + seats/100 }

// store inserts applications in order, and finds those whose row the database refuses: they become failures, everybody
// else is stored. seated is how many were stored before: they have the seats before these. A statement that fails undoes
// itself; only for taking the applications apart is a savepoint needed, to undo the parts that were stored.
func (s *settlement) store(ctx context.Context, tx *sql.Tx, seated int, all []Application,
	insert func(seated int, part []Application) error) (stored []Application, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	if err = insert(seated, all); !isBadRow(err) {
		return all, err
	}
	apart := len(s.unstorable)
	why := err
	err = withinSavepoint(ctx, tx, "whole", func() (err error) {
		stored, err = s.isolate(seated, all, why, insert)
		return err
	})
	if err != nil {
		s.unstorable = s.unstorable[:apart]
	}
	return stored, err
}

// isolate inserts a part of which some row is refused: each half, and again the halves of a half that is refused, down to
// the one row.
func (s *settlement) isolate(seated int, part []Application, why error,
	insert func(seated int, part []Application) error) (stored []Application, err error) {
	if len(part) == 1 {
		return nil, s.setApart(part[0], why)
	}
	for _, half := range [][]Application{part[:len(part)/2], part[len(part)/2:]} {
		before := seated + len(stored)
		err := insert(before, half)
		if isBadRow(err) {
			half, err = s.isolate(before, half, err, insert)
		}
		if err != nil {
			return nil, err
		}
		stored = append(stored, half...)
	}
	return stored, nil
}

// setApart notes whose row cannot be stored; too many of them are a fault of something else.
func (s *settlement) setApart(a Application, why error) error {
	s.unstorable = append(s.unstorable, Failure{Application: a, Cause: CauseBadRow, Retryable: true, Row: true, Message: serverSays(why)})
	if allowed := badRowsAllowed(s.coupon.TotalQuantity); s.unstorableBefore+len(s.unstorable) > allowed {
		return &Error{Setup, fmt.Errorf("more than %d rows cannot be stored, the last one of user %d; none of them was, and the fault must lie elsewhere: %w", allowed, a.User, why)}
	}
	return nil
}

// serverSays is the error in the server's own words, without what the program was about.
func serverSays(err error) string {
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		return numbered.Error()
	}
	return err.Error()
}

// withinSavepoint undoes work alone when it fails.
func withinSavepoint(ctx context.Context, tx *sql.Tx, name string, work func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	err := work()
	if err == nil || !(isBadRow(err) || classifyError(err) == duplicate) {
		return err // what else may fail undoes the whole transaction
	}
	if _, undo := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+name); undo != nil {
		return errors.Join(undo, err)
	}
	return err
}
