package mysqltx

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// kind is the meaning of an error for a transaction.
type kind uint8

const (
	transient kind = iota + 1 // the whole transaction may succeed another time
	away                      // the same: the connection is refused or lost
	readOnly                  // the same on another connection: the server of this one accepts no writes
	duplicate                 // a row with this key exists
	badRow                    // one row cannot be stored; the others can
	check                     // a CHECK is violated: of user_coupon as badRow, of coupon an invariant that MySQL itself guards
	fatal                     // repeating cannot help
	own                       // an error of the program: MySQL or Redis is not as expected
)

// kindOf decides by number, never by text. A number that is not listed is fatal.
func kindOf(err error) kind {
	numbered, hasNumber := errors.AsType[*mysql.MySQLError](err)
	_, lost := errors.AsType[*connectionError](err)
	switch {
	case errors.As(err, new(*rowError)):
		return badRow
	case isSetup(err): // also while the connection is opened: the server is not away
		return fatal
	case hasNumber:
		return kindOfNumber(numbered)
	case lost, errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return away
	case isConnecting(err):
		if isInfrastructure(err) && !isWrongNetworkSetting(err) {
			return away
		}
		return fatal // such as a certificate for another name
	case isInfrastructure(err):
		return transient
	default:
		return own
	}
}

func kindOfNumber(err *mysql.MySQLError) kind {
	switch err.Number {
	case 1205, 3572, 1467, // lock wait ran out; NOWAIT found it locked; ran out before AUTO_INCREMENT's lock
		1213, 1020, 3101, // deadlock; changed since read; rolled back by group replication
		1317, 1028, // KILL QUERY, also during a sort
		3, 1021, 1026, 1030, 1114, // disk full: of a file, the server, a write, the storage engine, a table
		1226: // an account's limit of connections or statements
		return transient
	case 1047, 1053, 1927, // node not ready; server shutting down; connection killed
		3032, 4031, // server takes no connections; session given up since it was idle
		1040, 1203: // too many connections
		return away
	case 1290, 1792, 1836: // read-only, as after a failover
		return readOnly
	case 1062:
		return duplicate
	case 1265, 1366, 1644, // wrong value; SIGNAL of a trigger
		1048, 1172, 1242, 1451, 1452: // in a trigger: NULL, more rows than one, a foreign key
		return badRow
	case 3819, 4025: // CHECK violated, in MySQL's and MariaDB's words
		return check
	}
	switch class := err.SQLState[:2]; string(class) {
	case "22", "45": // a value that cannot be stored or computed; SIGNAL with a number of its own
		return badRow
	default:
		return fatal
	}
}

// isInfrastructure reports an error of the driver, the network, the system or another server.
func isInfrastructure(err error) bool {
	if errors.As(err, new(net.Error)) || errors.As(err, new(syscall.Errno)) || errors.As(err, new(*fs.PathError)) {
		return true
	}
	var server interface{ Infrastructure() bool } // of its adapter
	if errors.As(err, &server) {
		return server.Infrastructure()
	}
	return slices.ContainsFunc([]error{
		context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		sql.ErrConnDone, sql.ErrTxDone, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer,
	}, func(known error) bool { return errors.Is(err, known) }) ||
		errors.As(err, new(*Away)) || errors.As(err, new(*CommitUnknown)) || errors.As(err, new(*Interrupted))
}

// isConnecting reports an error of opening a connection.
func isConnecting(err error) bool {
	var connecting interface{ Connecting() } // of package connect
	return errors.As(err, &connecting)
}

// isWrongNetworkSetting reports an error of the network that repeating cannot cure.
func isWrongNetworkSetting(err error) bool {
	return errors.As(err, new(tls.AlertError)) || errors.As(err, new(net.UnknownNetworkError)) || errors.As(err, new(*net.AddrError))
}

func isSetup(err error) bool {
	var setup interface{ Setup() bool }
	return errors.As(err, &setup) && setup.Setup()
}

func repeatable(err error) bool {
	if errors.As(err, new(*coupon.Error)) {
		return false
	}
	switch kindOf(err) {
	case transient, away, readOnly, duplicate:
		return true
	default:
		return false
	}
}

// refuses reports whether MySQL is away or accepts no writes.
func refuses(err error) bool {
	return err != nil && (kindOf(err) == away || kindOf(err) == readOnly)
}

func ClassOf(err error) coupon.Class {
	if classed, ok := errors.AsType[*coupon.Error](err); ok {
		return classed.Class
	}
	switch kindOf(err) {
	case transient, away, readOnly:
		return coupon.Infrastructure
	case fatal, badRow:
		return coupon.Setup
	default: // also a duplicate after every attempt
		return coupon.Invariant
	}
}

// Advice returns the remedy of an error; it is empty if the error's text has it.
func Advice(err error) text.Message {
	if errors.As(err, new(*coupon.Error)) {
		return text.Message{}
	}
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		switch numbered.Number {
		case 1146, 1054:
			return text.AdviseMigrate
		case 1044, 1045, 1049, 1142, 1698:
			return text.AdviseGrants
		}
	}
	var redis interface{ RedisRefuses() bool } // of its adapter
	switch {
	case isConnecting(err) && !isSetup(err) && kindOf(err) == fatal:
		return text.AdviseConnection
	case errors.As(err, &redis) && redis.RedisRefuses():
		return text.AdviseRedis
	case ClassOf(err) == coupon.Infrastructure:
		return text.AdviseRunAgain
	default:
		return text.Message{}
	}
}

func IsDuplicate(err error) bool { return err != nil && kindOf(err) == duplicate }

// IsBadRow reports whether one of the inserted rows cannot be stored, by a CHECK too.
func IsBadRow(err error) bool {
	return err != nil && (kindOf(err) == badRow || kindOf(err) == check)
}

// DuplicateAsBadRow makes a duplicate a fault of the row: a trigger has found the row of another table.
func DuplicateAsBadRow(err error) error {
	if IsDuplicate(err) {
		return &rowError{err}
	}
	return err
}

type rowError struct{ error }

func (e *rowError) Unwrap() error { return e.error }

func IsCheck(err error) bool { return err != nil && kindOf(err) == check }

// IsLockWait reports whether another session held the row or the table for too long.
func IsLockWait(err error) bool {
	numbered, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (numbered.Number == 1205 || numbered.Number == 3572 || numbered.Number == 1467)
}

// IsAway reports whether MySQL cannot be reached at all: it refused all attempts, and then everything.
func IsAway(err error) bool {
	refused, ok := errors.AsType[*Away](err)
	return ok && kindOf(refused.Err) == away
}

type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// Away is an error of a server that refuses every statement.
type Away struct{ Err error }

func (e *Away) Error() string { return e.Err.Error() }
func (e *Away) Unwrap() error { return e.Err }

// CommitUnknown is a COMMIT whose reply was lost. No application may be moved until the next run has looked up the result.
type CommitUnknown struct{ Err error }

func (e *CommitUnknown) Error() string { return e.In(text.English) }

func (e *CommitUnknown) In(l text.Language) string { return l.Sprintf(text.CommitUnknown, e.Err) }

func (e *CommitUnknown) Unwrap() error { return e.Err }

type Interrupted struct {
	Cause         error // of the context
	Err           error // of the work
	CommitUnknown bool  // else the transaction was rolled back
}

func (e *Interrupted) Error() string { return e.In(text.English) }

func (e *Interrupted) In(l text.Language) string {
	if e.CommitUnknown {
		return l.Sprintf(text.StoppedUnknown, e.Cause, e.Err)
	}
	return l.Sprintf(text.StoppedInHand, e.Cause, e.Err)
}

func (e *Interrupted) Unwrap() []error { return []error{e.Cause, e.Err} }
