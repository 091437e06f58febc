package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// refusals are the rows that MySQL refused in one transaction.
type refusals struct {
	failures []coupon.Failure
	anew     int       // refused for the first time, in this transaction and in earlier ones of the settlement
	allowed  int       // of anew
	night    time.Time // the cutoff of a nightly run; zero: of no nightly run
}

// newRefusals allows so many rows to be refused for the first time: 100, and one for each hundred seats. A few users with
// something odd about them must not stop a coupon; a broken trigger or schema must.
func (r run) newRefusals(seats, anew int) refusals {
	refused := refusals{anew: anew, allowed: 100 + seats/100}
	if r.Trigger == coupon.Cron {
		refused.night = r.cutoff
	}
	return refused
}

// insertPart inserts part of a list, of which so many were stored before.
type insertPart func(stored int, part []coupon.Application) error

// insert inserts applications in order and returns those that were stored; the others become failures. A statement that
// fails undoes itself: only to take the list apart is a savepoint needed, which undoes the parts that were stored.
func (r *refusals) insert(ctx context.Context, tx *sql.Tx, before int, all []coupon.Application, insert insertPart) (stored []coupon.Application, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	why := insert(before, all)
	if !mysqltx.IsBadRow(why) {
		return all, why
	}
	found := refusals{anew: r.anew, allowed: r.allowed, night: r.night}
	err = mysqltx.WithinSavepoint(ctx, tx, "whole", func() (err error) {
		stored, err = found.halve(before, all, why, insert)
		return err
	})
	var many *tooManyRefused
	switch {
	case err == nil:
		r.failures, r.anew = append(r.failures, found.failures...), found.anew
	case errors.As(err, &many):
		many.before = slices.DeleteFunc(slices.Concat(r.failures, found.failures), func(f coupon.Failure) bool { return !f.RefusedBefore() })
	}
	return stored, err
}

// halve inserts the halves of a part with a refused row, and the halves of a half that is refused, down to the one row.
func (r *refusals) halve(before int, part []coupon.Application, why error, insert insertPart) (stored []coupon.Application, err error) {
	if len(part) == 1 {
		return nil, r.note(part[0], why)
	}
	for _, half := range [][]coupon.Application{part[:len(part)/2], part[len(part)/2:]} {
		at := before + len(stored)
		err := insert(at, half)
		if mysqltx.IsBadRow(err) {
			half, err = r.halve(at, half, err, insert)
		}
		if err != nil {
			return nil, err
		}
		stored = append(stored, half...)
	}
	return stored, nil
}

// note makes a refused row a failure. Rows that earlier settlements met do not count as anew.
func (r *refusals) note(a coupon.Application, why error) error {
	f := coupon.Failure{Application: a, Cause: coupon.CauseBadRow, Retryable: true, Row: true, Night: r.night, Message: serverSays(why)}
	r.failures = append(r.failures, f)
	if f.RefusedBefore() {
		return nil
	}
	if r.anew++; r.anew > r.allowed {
		return &coupon.Error{Class: coupon.Setup, Err: &tooManyRefused{allowed: r.allowed, last: a.User(), why: why}}
	}
	return nil
}

// of are the failures of further applications of users whose rows were refused.
func (r *refusals) of(further []coupon.Application) (failures []coupon.Failure) {
	for _, a := range further {
		at := slices.IndexFunc(r.failures, func(f coupon.Failure) bool { return f.User() == a.User() })
		if at >= 0 {
			f := r.failures[at]
			f.Application = a
			failures = append(failures, f)
		}
	}
	return failures
}

// tooManyRefused rows are no fault of the rows.
type tooManyRefused struct {
	allowed int
	last    coupon.UserID
	why     error
	before  []coupon.Failure // rows that were refused in earlier settlements, and in the transaction that failed
}

func (e *tooManyRefused) Error() string {
	return fmt.Sprintf("more than %d rows cannot be stored, the last one of user %d; none of them was, and the fault must lie elsewhere: %v", e.allowed, e.last, e.why)
}

func (e *tooManyRefused) Unwrap() error { return e.why }

// serverSays is the error in the server's own words, without what the program was about.
func serverSays(err error) string {
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		return numbered.Error()
	}
	return err.Error()
}
