package mysqltx

import (
	"context"
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

// kind is what an error means for a transaction.
type kind uint8

const (
	transient kind = iota + 1 // the whole transaction may succeed if it is repeated
	away                      // the connection is refused or lost; a repetition may succeed
	readOnly                  // the server accepts no writes; a repetition on another connection may succeed
	duplicate                 // a row with this key exists
	badRow                    // one row cannot be stored; other rows can
	check                     // a CHECK is violated: on user_coupon a bad row, on coupon a broken invariant
	fatal                     // a repetition cannot help
	own                       // the program itself raised the error: data in MySQL or Redis is not as expected
)

// kindOf goes by the error's number, never by its text. An unlisted number is fatal.
func kindOf(err error) kind {
	numbered, hasNumber := errors.AsType[*mysql.MySQLError](err)
	_, lost := errors.AsType[*connectionError](err)
	switch {
	case errors.As(err, new(*rowError)):
		return badRow
	case isSetup(err): // even if it occurs while connecting: the server is not away
		return fatal
	case hasNumber:
		return kindOfNumber(numbered)
	case lost, errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return away
	case isConnecting(err):
		if isInfrastructure(err) && !isWrongNetworkSetting(err) {
			return away
		}
		return fatal // for example, the server's certificate is for another name
	case isInfrastructure(err):
		return transient
	default:
		return own
	}
}

func kindOfNumber(err *mysql.MySQLError) kind {
	switch err.Number {
	case 1205, 3572, 1467, // lock wait timeout; row locked, with NOWAIT; timeout of the AUTO_INCREMENT lock
		1213, 1020, 3101, // deadlock; row changed since it was read; rolled back by group replication
		1317, 1028, // KILL QUERY, also during a sort
		3, 1021, 1026, 1030, 1114, // disk full, as various parts of the server report it
		1226: // the account has reached its limit of connections or statements
		return transient
	case 1047, 1053, 1927, // node not in its cluster; server shutting down; connection killed
		1180,       // error during COMMIT: the others in a cluster of Galera may have the transaction
		3032, 4031, // server is in offline mode; session closed after being idle
		1040, 1203: // too many connections
		return away
	case 1290, 1792, 1836: // read-only, as after a failover
		return readOnly
	case 1062:
		return duplicate
	case 1265, 1366, 1644, // wrong value; SIGNAL by a trigger
		1048, 1172, 1242, 1451, 1452: // in a trigger: NULL not allowed, more than one row, foreign key violated
		return badRow
	case 3819, 4025: // CHECK violated, on MySQL and on MariaDB
		return check
	}
	switch class := err.SQLState[:2]; string(class) {
	case "22", "45": // value that cannot be stored or computed; SIGNAL with its own number
		return badRow
	default:
		return fatal
	}
}

// isInfrastructure reports whether an error comes from the driver, the network, the system or another server.
func isInfrastructure(err error) bool {
	if errors.As(err, new(net.Error)) || errors.As(err, new(syscall.Errno)) || errors.As(err, new(*fs.PathError)) {
		return true
	}
	var server interface{ Infrastructure() bool } // packages candidates and text have such errors
	if errors.As(err, &server) {
		return server.Infrastructure()
	}
	return slices.ContainsFunc([]error{
		context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		sql.ErrConnDone, sql.ErrTxDone, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer,
	}, func(known error) bool { return errors.Is(err, known) }) ||
		errors.As(err, new(*Away)) || errors.As(err, new(*CommitUnknown)) || errors.As(err, new(*Interrupted))
}

// isConnecting reports whether an error occurred while a connection was being opened.
func isConnecting(err error) bool {
	var connecting interface{ Connecting() } // an error of package connect
	return errors.As(err, &connecting)
}

// isWrongNetworkSetting reports whether a network error comes from a wrong setting. Repeating cannot help then.
func isWrongNetworkSetting(err error) bool {
	return errors.As(err, new(net.UnknownNetworkError)) || errors.As(err, new(*net.AddrError))
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
	default: // includes a duplicate that remained after all attempts
		return coupon.Invariant
	}
}

// Advice returns what to do about an error. It is empty if nothing is known or the error's own text says it.
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
	var redis interface{ RedisRefuses() bool } // an error of package rediserr
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

// MayNotWrite reports whether the account lacks a right, or the server takes no writes.
func MayNotWrite(err error) bool {
	var numbered *mysql.MySQLError
	if !errors.As(err, &numbered) {
		return false
	}
	switch numbered.Number {
	case 1142, 1143, 1665: // no right to a table, or to a column; the binary log has the wrong format
		return true
	default:
		return IsReadOnly(err)
	}
}

// IsReadOnly reports whether the server takes no writes.
func IsReadOnly(err error) bool { return err != nil && kindOf(err) == readOnly }

func IsDuplicate(err error) bool { return err != nil && kindOf(err) == duplicate }

// IsBadRow reports whether MySQL cannot store one of the inserted rows, for example because of a CHECK.
func IsBadRow(err error) bool {
	return err != nil && (kindOf(err) == badRow || kindOf(err) == check)
}

// DuplicateAsBadRow turns a duplicate into a bad row, where only a trigger that writes elsewhere can have caused it.
func DuplicateAsBadRow(err error) error {
	if IsDuplicate(err) {
		return &rowError{err}
	}
	return err
}

type rowError struct{ error }

func (e *rowError) Unwrap() error { return e.error }

func IsCheck(err error) bool { return err != nil && kindOf(err) == check }

// IsLockWait reports whether the statement gave up because another session held a lock for too long.
func IsLockWait(err error) bool {
	numbered, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (numbered.Number == 1205 || numbered.Number == 3572 || numbered.Number == 1467)
}

// IsAway reports whether MySQL cannot be reached at all. A server that merely accepts no writes is not away.
func IsAway(err error) bool {
	refused, ok := errors.AsType[*Away](err)
	return ok && kindOf(refused.Err) == away
}

type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// Away is the error after MySQL has refused all attempts and then a simple write too.
type Away struct{ Err error }

func (e *Away) Error() string { return e.Err.Error() }
func (e *Away) Unwrap() error { return e.Err }

// CommitUnknown means that the reply to COMMIT was lost. No application may be moved until the result is known.
type CommitUnknown struct{ Err error }

func (e *CommitUnknown) Error() string { return e.In(text.English) }

func (e *CommitUnknown) In(l text.Language) string { return l.Sprintf(text.CommitUnknown, e.Err) }

func (e *CommitUnknown) Unwrap() error { return e.Err }

type Interrupted struct {
	Cause         error // why the context ended
	Err           error // the error of the interrupted work
	CommitUnknown bool  // the reply to COMMIT was lost; false: the transaction was rolled back
}

func (e *Interrupted) Error() string { return e.In(text.English) }

func (e *Interrupted) In(l text.Language) string {
	if e.CommitUnknown {
		return l.Sprintf(text.StoppedUnknown, e.Cause, e.Err)
	}
	return l.Sprintf(text.StoppedInHand, e.Cause, e.Err)
}

func (e *Interrupted) Unwrap() []error { return []error{e.Cause, e.Err} }
