package settle

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
)

// class is what an error of MySQL means for a settlement.
type class int

const (
	transient class = iota // the whole transaction again
	away                   // the same: the connection is refused or lost
	readOnly               // the same on another connection: this one leads to a server that no longer takes writes
	duplicate              // somebody recorded the same row meanwhile: classify the page again
	badRow                 // one row cannot be stored; the rest can
	violated               // a CHECK: of user_coupon as badRow, of coupon an invariant that the database itself guards
	fatal                  // repeating cannot help
)

// classifyError decides by number, never by text. A number that is not listed is fatal; an error without number comes
// from the driver, the network or Redis.
func classifyError(err error) class {
	var numbered *mysql.MySQLError
	var lost *connectionError
	switch {
	case isSetup(err): // also where it shows as the connection is opened: the server is not away
		return fatal
	case errors.As(err, &numbered):
		return classifyNumber(numbered.Number)
	case errors.As(err, &lost), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return away
	default:
		return transient
	}
}

func classifyNumber(number uint16) class {
	switch number {
	case 1205, 3572, 1467, // lock wait ran out; NOWAIT found it locked; ran out before AUTO_INCREMENT's lock
		1213, 1020, 3101: // deadlock; changed since read; rolled back by group replication
		return transient
	case 1047, 1053, 1927, // node not ready; server shutting down; connection killed
		3032, 4031, // server takes nobody in; session given up since it was idle
		1040, 1203: // too many connections
		return away
	case 1290, 1792, 1836: // read-only, as after a failover
		return readOnly
	case 1062:
		return duplicate
	case 1264, 1292, 1366, 1406, 1644: // out of range, wrong value, too long, SIGNAL of a trigger
		return badRow
	case 3819, 4025: // CHECK violated, in MySQL's and MariaDB's words
		return violated
	default:
		return fatal
	}
}

// isBadRow is about inserting rows about users: a CHECK there is about a row of them, too.
func isBadRow(err error) bool {
	class := classifyError(err)
	return class == badRow || class == violated
}

// repeatable: the whole transaction may succeed another time.
func repeatable(err error) bool {
	var classed *Error
	if err == nil || errors.As(err, &classed) || ErrorClass(err) == coupon.Setup {
		return false
	}
	switch classifyError(err) {
	case transient, away, readOnly, duplicate:
		return true
	default:
		return false
	}
}

// connectionError: MySQL could not be reached, or the connection broke, whatever the error itself says.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// Refused: the server has been asked and refuses everything. Class away says that it cannot be reached.
type Refused struct{ err error }

func (e *Refused) Error() string { return e.err.Error() }
func (e *Refused) Unwrap() error { return e.err }

// isAway: MySQL cannot be reached at all.
func isAway(err error) bool {
	var refused *Refused
	return errors.As(err, &refused) && classifyError(err) == away
}

// CommitUnknown: the reply to COMMIT was lost, and MySQL could not be asked since whether it happened. Until that is
// known nothing may be moved; the next run finds out.
type CommitUnknown struct{ err error }

func (e *CommitUnknown) Error() string {
	return fmt.Sprintf("the reply to COMMIT was lost, and whether it happened could not be found out; the next run does: %s", e.err)
}
func (e *CommitUnknown) Unwrap() error { return e.err }

// Error is a failure that knows its class. Its text tells what to do where that is not plain.
type Error struct {
	Class coupon.Class
	err   error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// ErrorClass is the class of any error of this package; one without a class is Infrastructure: safe to run again.
func ErrorClass(err error) coupon.Class {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.Class
	}
	if isSetup(err) {
		return coupon.Setup
	}
	var numbered *mysql.MySQLError
	if !errors.As(err, &numbered) {
		return coupon.Infrastructure
	}
	switch classifyError(err) {
	case violated, duplicate: // a duplicate that outlived every attempt
		return coupon.Invariant
	case fatal, badRow:
		return coupon.Setup
	default:
		return coupon.Infrastructure
	}
}

// isSetup asks the error itself: an adapter knows its server's errors.
func isSetup(err error) bool {
	var setup interface{ Setup() bool }
	return errors.As(err, &setup) && setup.Setup()
}

// GapHeld: more applications of a coupon were accepted than can be found, and nobody has approved that these are lost.
type GapHeld struct {
	Gap      int64
	Account  ledger.Account
	Approved int64 // as many were missing in the preview that somebody approved
	Pinned   bool  // … if somebody has
}

func (e *GapHeld) Error() string {
	if e.Pinned {
		return fmt.Sprintf("held: %d of %d accepted applications cannot be found (%s), and %d when that was approved; nothing was issued. "+
			"Find out what Redis lost since, and look at the preview again", e.Gap, e.Account.Accepted, e.Account, e.Approved)
	}
	return fmt.Sprintf("held: %d of %d accepted applications cannot be found (%s); nothing was issued. "+
		"Find out what Redis lost, then release it with --accept-gap --operator and --reason", e.Gap, e.Account.Accepted, e.Account)
}

// CountHeld: the coupon's row says that other numbers of coupons were issued than there are. Who would count on it gives too many
// or too few.
type CountHeld struct {
	Coupon                coupon.CouponID
	Counted, Found, Seats int64 // issued_count, rows of user_coupon, total_quantity
}

func (e *CountHeld) Error() string {
	return fmt.Sprintf("held: issued_count of coupon %d says %d, but there are %d coupons, for %d seats; nothing was issued. "+
		"Find out who wrote to the tables, then set the count right with `settle coupon recount %d --operator … --reason …`",
		e.Coupon, e.Counted, e.Found, e.Seats, e.Coupon)
}

func setupError(format string, args ...any) error {
	return &Error{coupon.Setup, fmt.Errorf(format, args...)}
}

// What Advice says.
const (
	SafeToRunAgain = "It is safe to run again." // of failures of infrastructure; what the servers have lost it does not say
	AdviseMigrate  = "The database lacks a table or column: run `settle migrate`."
	AdviseGrants   = "MySQL refuses this user or database: check MYSQL_DSN and the grants."
	AdviseRedis    = "Redis refuses this user or command: check REDIS_USERNAME, REDIS_PASSWORD, the rights in docs/redis-users.acl and what else uses these keys."
)

// Advice says what to do about an error, in one sentence; empty where its text says it.
func Advice(err error) string {
	if errors.As(err, new(*Error)) {
		return ""
	}
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		switch numbered.Number {
		case 1146, 1054:
			return AdviseMigrate
		case 1044, 1045, 1049, 1142, 1698:
			return AdviseGrants
		}
	}
	var redis interface{ RedisRefuses() bool } // of its adapter
	switch {
	case errors.As(err, &redis) && redis.RedisRefuses():
		return AdviseRedis
	case ErrorClass(err) == coupon.Infrastructure:
		return SafeToRunAgain
	default:
		return ""
	}
}

// errBusy: somebody else holds the coupon's row, or alters its tables, for longer than a settlement waits.
var errBusy = told(CouponBusy)
