package settle

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// class is what an error of MySQL means for a settlement.
type class int

const (
	transient class = iota // the whole transaction again
	readOnly               // the same on another connection: this one leads to a server that no longer takes writes
	duplicate              // somebody recorded the same row meanwhile: classify the page again
	badRow                 // one row cannot be stored; the rest can
	fatal                  // repeating cannot help
	violated               // an invariant that the database itself guards would break
)

// classify error numbers, never texts. A number that is not listed is fatal; an error without number comes from the
// driver or the network and is transient.
func classifyError(err error) class {
	var numbered *mysql.MySQLError
	if !errors.As(err, &numbered) {
		return transient
	}
	switch numbered.Number {
	case 1205, 3572, // lock wait ran out; NOWAIT found it locked
		1213, 1020, 3101, // deadlock; changed since read; rolled back by group replication
		1047, 1053, 1927, // node not ready; server shutting down; connection killed
		1040, 1203: // too many connections
		return transient
	case 1290, 1792, 1836: // read-only, as after a failover
		return readOnly
	case 1062:
		return duplicate
	case 1264, 1292, 1366, 1406, 1644: // out of range, wrong value, too long, SIGNAL of a trigger
		return badRow
	case 3819, 4025: // CHECK violated, in MySQL's and MariaDB's words; all CHECKs are on coupon
		return violated
	default:
		return fatal
	}
}

// Class is what an error means to whoever started the run.
type Class int

const (
	Infrastructure Class = iota // a server failed or is busy: safe to run again
	Setup                       // wrong use or setup: repeating cannot help
	Invariant                   // a promise is broken: a person must look
)

// Error is a failure that knows its class. Its text tells what to do where that is not plain.
type Error struct {
	Class Class
	err   error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// ErrorClass is the class of any error of this package; one without a class is Infrastructure: safe to run again.
func ErrorClass(err error) Class {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.Class
	}
	var setup interface{ Setup() bool } // of an adapter: it knows its server's errors
	if errors.As(err, &setup) && setup.Setup() {
		return Setup
	}
	var numbered *mysql.MySQLError
	if !errors.As(err, &numbered) {
		return Infrastructure
	}
	switch classifyError(err) {
	case violated, duplicate: // a duplicate that outlived every attempt
		return Invariant
	case fatal, badRow:
		return Setup
	default:
		return Infrastructure
	}
}

func setupError(format string, args ...any) error {
	return &Error{Setup, fmt.Errorf(format, args...)}
}

// SafeToRunAgain is the advice for failures of infrastructure.
const SafeToRunAgain = "Nothing is lost: it is safe to run again."

// Advice says what to do about an error, in one sentence; empty where its text says it.
func Advice(err error) string {
	var classed *Error
	if errors.As(err, &classed) {
		return ""
	}
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		switch numbered.Number {
		case 1146, 1054:
			return "The database lacks a table or column: run `settle migrate`."
		case 1044, 1045, 1049, 1142, 1698:
			return "MySQL refuses this user or database: check MYSQL_DSN and the grants."
		}
	}
	if ErrorClass(err) == Infrastructure {
		return SafeToRunAgain
	}
	return ""
}

// errBusy: somebody else holds the coupon's row for longer than a settlement may take.
var errBusy = errors.New("busy: another settlement or session holds this coupon's row; nothing was moved, run again")

// Bounds of repeating a transaction. With the server's lock wait of 10 s a busy coupon is given up after a minute.
const (
	transactionAttempts = 6
	firstBackoff        = 50 * time.Millisecond
	longestBackoff      = 2 * time.Second
)

// transact runs work in one transaction, and all of it again after an error that repeating can cure. A COMMIT whose
// reply was lost is such an error: work must begin by locking the coupon, which waits for the lost transaction to
// end one way or the other, and then find out what is recorded already.
func transact(ctx context.Context, db *sql.DB, work func(ctx context.Context, tx *sql.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := transactOnce(ctx, db, work)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("told to stop, what was in hand is rolled back: %w", errors.Join(context.Cause(ctx), err))
		}
		if err == nil || attempt == transactionAttempts || !repeatable(err) {
			return err
		}
		if err := Wait(ctx, backoff(attempt)); err != nil {
			return err
		}
	}
}

func repeatable(err error) bool {
	if class := ErrorClass(err); class == Setup {
		return false
	}
	var classed *Error
	if errors.As(err, &classed) {
		return false
	}
	switch classifyError(err) {
	case transient, readOnly, duplicate:
		return true
	default:
		return false
	}
}

func transactOnce(ctx context.Context, db *sql.DB, work func(ctx context.Context, tx *sql.Tx) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to mysql: %w", err)
	}
	defer func() {
		if err != nil && discardsConnection(err) {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // for a panic: the connection could not be given back with it open
	if err := work(ctx, tx); err != nil {
		// Whatever failed, all of it goes: a lock wait that ran out has undone only its own statement.
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			return errors.Join(err, fmt.Errorf("roll back: %w", undo))
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// discardsConnection: the connection is broken, or leads to a server that no longer takes writes.
func discardsConnection(err error) bool {
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		return classifyError(err) == readOnly
	}
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) || errors.As(err, &network)
}

// backoff doubles with every attempt, half of it by chance so that runs that collided do not meet again.
func backoff(attempt int) time.Duration {
	full := min(firstBackoff<<(attempt-1), longestBackoff)
	return full/2 + rand.N(full/2)
}

// Wait returns when d has passed, or with the cause when ctx has ended.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
