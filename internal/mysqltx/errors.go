package mysqltx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// kind is what an error means for a transaction.
type kind uint8

const (
	transient kind = iota + 1 // the whole transaction may succeed another time
	away                      // the same: the connection is refused or lost
	readOnly                  // the same on another connection: this one leads to a server that takes no writes
	duplicate                 // a row with this key exists
	badRow                    // one row cannot be stored; the others can
	check                     // a CHECK is violated: of user_coupon as badRow, of coupon an invariant that MySQL itself guards
	fatal                     // repeating cannot help
	own                       // an error of the program: what it expected of MySQL or Redis is not so
)

// kindOf decides by number, never by text. A number that is not listed is fatal.
func kindOf(err error) kind {
	var numbered *mysql.MySQLError
	var lost *connectionError
	switch {
	case isSetup(err): // also where it shows as the connection is opened: the server is not away
		return fatal
	case errors.As(err, &numbered):
		return kindOfNumber(numbered.Number)
	case errors.As(err, &lost), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return away
	case isInfrastructure(err):
		return transient
	default:
		return own
	}
}

func kindOfNumber(number uint16) kind {
	switch number {
	case 1205, 3572, 1467, // lock wait ran out; NOWAIT found it locked; ran out before AUTO_INCREMENT's lock
		1213, 1020, 3101: // deadlock; changed since read; rolled back by group replication
		return transient
	case 1047, 1053, 1927, // node not ready; server shutting down; connection killed
		3032, 4031, // server takes no connections; session given up since it was idle
		1040, 1203: // too many connections
		return away
	case 1290, 1792, 1836: // read-only, as after a failover
		return readOnly
	case 1062:
		return duplicate
	case 1264, 1292, 1366, 1406, 1644: // out of range, wrong value, too long, SIGNAL of a trigger
		return badRow
	case 3819, 4025: // CHECK violated, in MySQL's and MariaDB's words
		return check
	default:
		return fatal
	}
}

// isInfrastructure reports whether an error without number is of the driver, the network, the system or another server.
func isInfrastructure(err error) bool {
	var network net.Error
	var errno syscall.Errno
	var path *fs.PathError
	if errors.As(err, &network) || errors.As(err, &errno) || errors.As(err, &path) {
		return true
	}
	var server interface{ Infrastructure() bool } // of its adapter
	if errors.As(err, &server) {
		return server.Infrastructure()
	}
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		sql.ErrConnDone, sql.ErrTxDone, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.As(err, new(*Away)) || errors.As(err, new(*CommitUnknown)) || errors.As(err, new(*Interrupted))
}

// isSetup asks the error itself: an adapter knows its server's errors.
func isSetup(err error) bool {
	var setup interface{ Setup() bool }
	return errors.As(err, &setup) && setup.Setup()
}

// repeatable reports whether the whole transaction may succeed another time.
func repeatable(err error) bool {
	if errors.As(err, new(*coupon.Error)) {
		return false
	}
	switch kindOf(err) {
	case transient, away, readOnly, duplicate:
		return true
	case badRow, check, fatal, own:
		return false
	default:
		return false
	}
}

// refuses reports whether MySQL is not there, or does not do what it is for. Any other answer shows that it lives.
func refuses(err error) bool {
	return err != nil && (kindOf(err) == away || kindOf(err) == readOnly)
}

// ClassOf is the class of any error.
func ClassOf(err error) coupon.Class {
	var classed *coupon.Error
	if errors.As(err, &classed) {
		return classed.Class
	}
	if isSetup(err) {
		return coupon.Setup
	}
	switch kindOf(err) {
	case transient, away, readOnly:
		return coupon.Infrastructure
	case fatal, badRow:
		return coupon.Setup
	case check, duplicate, own: // a duplicate that outlived every attempt
		return coupon.Invariant
	default:
		return coupon.Invariant
	}
}

// IsDuplicate reports whether a row with the same key exists.
func IsDuplicate(err error) bool { return err != nil && kindOf(err) == duplicate }

// IsBadRow reports whether one of the rows that were inserted cannot be stored. A CHECK there is about a row, too.
func IsBadRow(err error) bool {
	return err != nil && (kindOf(err) == badRow || kindOf(err) == check)
}

// IsCheck reports whether a CHECK of the table is violated.
func IsCheck(err error) bool { return err != nil && kindOf(err) == check }

// IsLockWait reports whether another session held the row or the table for longer than a statement waits.
func IsLockWait(err error) bool {
	var numbered *mysql.MySQLError
	return errors.As(err, &numbered) && (numbered.Number == 1205 || numbered.Number == 3572 || numbered.Number == 1467)
}

// IsAway reports whether MySQL cannot be reached at all: it refused all attempts, and then everything.
func IsAway(err error) bool {
	var refused *Away
	return errors.As(err, &refused) && kindOf(refused.Err) == away
}

// connectionError is any error on a connection that broke, or none that could be made.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// Away is an error of a server that refuses everything.
type Away struct{ Err error }

func (e *Away) Error() string { return e.Err.Error() }
func (e *Away) Unwrap() error { return e.Err }

// CommitUnknown is a COMMIT whose reply was lost, where MySQL could not be asked since whether it happened. Nothing may be
// moved until that is known; the next run finds out.
type CommitUnknown struct{ Err error }

func (e *CommitUnknown) Error() string { return e.In(text.English) }

// In implements text.Localized.
func (e *CommitUnknown) In(l text.Language) string { return l.Sprintf(text.CommitUnknown, e.Err) }

func (e *CommitUnknown) Unwrap() error { return e.Err }

// Interrupted is work that ended because its context did.
type Interrupted struct {
	Cause         error // of the context
	Err           error // of the work
	CommitUnknown bool  // else the transaction in hand was rolled back
}

func (e *Interrupted) Error() string { return e.In(text.English) }

// In implements text.Localized.
func (e *Interrupted) In(l text.Language) string {
	if e.CommitUnknown {
		return l.Sprintf(text.StoppedUnknown, e.Cause, e.Err)
	}
	return l.Sprintf(text.StoppedInHand, e.Cause, e.Err)
}

func (e *Interrupted) Unwrap() []error { return []error{e.Cause, e.Err} }
