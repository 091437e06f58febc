package settle

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// refusals are the rows that MySQL refused in one transaction.
type refusals struct {
	failures []coupon.Failure
	anew     int       // number of rows refused for the first time, in all transactions of the settlement so far
	allowed  int       // greatest permitted value of anew
	night    time.Time // cutoff of the run if it tries a refused row once for each cutoff, else zero
}

// newRefusals allows 100 newly refused rows, and one more per hundred seats. More mean a broken trigger or schema.
func (r run) newRefusals(seats, anew int) refusals {
	refused := refusals{anew: anew, allowed: 100 + seats/100}
	if r.rules.triesOnce {
		refused.night = r.cutoff
	}
	return refused
}

// insert inserts applications in order and returns those that were stored. The others become failures.
func (r *refusals) insert(ctx context.Context, tx *sql.Tx, before int, all []coupon.Application,
	insert func(stored int, part []coupon.Application) error) ([]coupon.Application, error) {
	found := refusals{anew: r.anew, allowed: r.allowed, night: r.night}
	stored, err := mysqltx.InsertGood(ctx, tx, before, all, insert, found.note)
	var many *tooManyRefused
	switch {
	case err == nil:
		r.failures, r.anew = append(r.failures, found.failures...), found.anew
	case errors.As(err, &many):
		many.before = slices.DeleteFunc(slices.Concat(r.failures, found.failures),
			func(f coupon.Failure) bool { return !f.RefusedBefore() })
	}
	return stored, err
}

// note turns a refused row into a failure. Only a row that no earlier settlement refused counts towards the limit.
func (r *refusals) note(a coupon.Application, why error) error {
	f := coupon.Failure{Application: a, Cause: coupon.CauseBadRow, Retryable: true, Row: true, Night: r.night,
		Note: why.Error()}
	if numbered, ok := errors.AsType[*mysql.MySQLError](why); ok {
		f.Note = numbered.Error() // without the words that this program has added
	}
	r.failures = append(r.failures, f)
	if f.RefusedBefore() {
		return nil
	}
	if r.anew++; r.anew > r.allowed {
		return &coupon.Error{Class: coupon.Setup, Err: &tooManyRefused{allowed: r.allowed, last: a.User(), why: why}}
	}
	return nil
}

// of returns a failure for each of the applications whose user has a refused row.
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

// tooManyRefused is an error in the schema or in a trigger, because so many rows cannot all be wrong.
type tooManyRefused struct {
	allowed int
	last    coupon.UserID
	why     error
	before  []coupon.Failure // rows refused in the failed transaction that earlier settlements had refused too
}

func (e *tooManyRefused) Error() string { return e.In(text.English) }

func (e *tooManyRefused) In(l text.Language) string {
	return l.Sprintf(text.TooManyRefused, e.allowed, e.last, e.why)
}

func (e *tooManyRefused) Unwrap() error { return e.why }
