package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// pageAttempts bounds classifying a page again because somebody gave its users the coupon by hand meanwhile.
const pageAttempts = 3

// badRowsAllowed is how many rows of a settlement may be refused by the database for the first time before the fault is
// taken to lie elsewhere: a few users with something odd about them must not stop a coupon, a broken trigger or schema
// must. Rows that were refused in earlier settlements are known, and do not add up with those of this one.
func badRowsAllowed(seats int) int { return 100 + seats/100 }

// store inserts applications in order, and finds those whose row the database refuses: they become failures, everybody
// else is stored. seated is how many were stored before: they have the seats before these. A statement that fails undoes
// itself; only for taking the applications apart is a savepoint needed, to undo the parts that were stored.
func (s *settlement) store(ctx context.Context, tx *sql.Tx, seated int, all []coupon.Application, insert func(seated int, part []coupon.Application) error) (stored []coupon.Application, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	if err = insert(seated, all); !mysqltx.IsBadRow(err) {
		return all, err
	}
	apart, anew := len(s.unstorable), s.refusedAnew
	why := err
	err = mysqltx.WithinSavepoint(ctx, tx, "whole", func() (err error) {
		stored, err = s.isolate(seated, all, why, insert)
		return err
	})
	if errors.As(err, new(*tooManyRefused)) {
		s.inVain = slices.DeleteFunc(s.unstorable, func(f coupon.Failure) bool { return !f.RefusedBefore() })
		s.unstorable = nil
	} else if err != nil {
		s.unstorable, s.refusedAnew = s.unstorable[:apart], anew
	}
	return stored, err
}

// isolate inserts a part of which some row is refused: each half, and again the halves of a half that is refused, down to
// the one row.
func (s *settlement) isolate(seated int, part []coupon.Application, why error,
	insert func(seated int, part []coupon.Application) error) (stored []coupon.Application, err error) {
	if len(part) == 1 {
		return nil, s.setApart(part[0], why)
	}
	for _, half := range [][]coupon.Application{part[:len(part)/2], part[len(part)/2:]} {
		before := seated + len(stored)
		err := insert(before, half)
		if mysqltx.IsBadRow(err) {
			half, err = s.isolate(before, half, err, insert)
		}
		if err != nil {
			return nil, err
		}
		stored = append(stored, half...)
	}
	return stored, nil
}

// setApart notes whose row cannot be stored; too many that never were refused before are a fault of something else.
func (s *settlement) setApart(a coupon.Application, why error) error {
	f := coupon.Failure{Application: a, Cause: coupon.CauseBadRow, Retryable: true, Row: true, Message: serverSays(why)}
	if s.run.Trigger == coupon.Cron {
		f.Night = s.run.cutoff
	}
	s.unstorable = append(s.unstorable, f)
	if f.RefusedBefore() {
		return nil
	}
	s.refusedAnew++
	if allowed := badRowsAllowed(s.coupon.TotalQuantity); s.refusedAnew > allowed {
		return &coupon.Error{Class: coupon.Setup, Err: &tooManyRefused{allowed, a.User(), why}}
	}
	return nil
}

// tooManyRefused rows are no fault of the rows.
type tooManyRefused struct {
	allowed int
	last    uint64 // user
	why     error
}

func (e *tooManyRefused) Error() string {
	return fmt.Sprintf("more than %d rows cannot be stored, the last one of user %d; none of them was, and the fault must lie elsewhere: %v", e.allowed, e.last, e.why)
}

func (e *tooManyRefused) Unwrap() error { return e.why }

// noteInVain counts the attempts at rows that were refused before, when those of others made the settlement fail: it may
// fail so every night, and these must not be tried for ever.
func (s *settlement) noteInVain(ctx context.Context) error {
	_, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, s.inVain)
	return err
}

// serverSays is the error in the server's own words, without what the program was about.
func serverSays(err error) string {
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		return numbered.Error()
	}
	return err.Error()
}
