// Package mysqltx runs work on MySQL, repeats what repeating can cure, and decides what an error of MySQL means.
package mysqltx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sethvargo/go-retry"
)

// Bounds of repeating. A server that restarts or fails over within some seconds is waited for. A row lock that another
// session keeps is given up after a minute, because each attempt waits 10 s for it.
const (
	maxAttempts  = 7
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 4 * time.Second
	jitter       = 50 // percent, so that runs that collided do not meet again
)

// DB runs work on a pool, which package connect must have opened: the forced session settings matter. Once MySQL is away,
// each further piece of work is tried only once, until one succeeds.
type DB struct {
	pool *sql.DB
	away atomic.Bool // MySQL refused everything when it was last asked
}

// New returns a DB that has not found MySQL away.
func New(pool *sql.DB) *DB { return &DB{pool: pool} }

// Pool is for statements that are tried once and matter to nobody's outcome, such as heartbeats.
func (d *DB) Pool() *sql.DB { return d.pool }

// Querier is a connection, in a transaction or not.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Do runs work in one transaction, and all of it again after an error that repeating can cure. attempt counts from 1.
//
// A COMMIT whose reply was lost is such an error. Therefore work must begin with the lock of a row that every transaction of
// its kind takes: the lock waits until the lost transaction has ended one way or the other. Then work of attempt 2 and
// later must look up whether it is recorded already. If the attempts end otherwise than in success after that, the error is a
// *CommitUnknown.
func (d *DB) Do(ctx context.Context, work func(ctx context.Context, tx *sql.Tx, attempt int) error) error {
	var unknown *CommitUnknown
	err := d.repeat(ctx, func(ctx context.Context, conn *sql.Conn, attempt int) error {
		err := transact(ctx, conn, func(tx *sql.Tx) error { return work(ctx, tx, attempt) })
		errors.As(err, &unknown)
		return err
	})
	if err == nil || unknown == nil || errors.As(err, &unknown) {
		return err
	}
	return &CommitUnknown{err}
}

// OnConn runs work on a connection outside a transaction, and again after an error that repeating can cure. attempt counts
// from 1.
func (d *DB) OnConn(ctx context.Context, work func(ctx context.Context, q Querier, attempt int) error) error {
	return d.repeat(ctx, func(ctx context.Context, conn *sql.Conn, attempt int) error { return work(ctx, conn, attempt) })
}

// Once runs work on a connection outside a transaction, without repetition.
func (d *DB) Once(ctx context.Context, work func(ctx context.Context, q Querier) error) error {
	return d.once(ctx, func(ctx context.Context, conn *sql.Conn) error { return work(ctx, conn) })
}

// repeat runs work until it succeeds, repeating cannot help, or the attempts are spent. Where MySQL refused the last
// attempt, the server is asked whether it refuses everything: only then is MySQL away, and the error an *Away. Otherwise the
// work itself loses its connections.
func (d *DB) repeat(ctx context.Context, work func(ctx context.Context, conn *sql.Conn, attempt int) error) error {
	retries := uint64(maxAttempts - 1)
	if d.away.Load() {
		retries = 0
	}
	backoff := retry.WithCappedDuration(maxBackoff, retry.NewExponential(firstBackoff))
	backoff = retry.WithMaxRetries(retries, retry.WithJitterPercent(jitter, backoff))
	attempt, last := 0, error(nil)
	_ = retry.Do(ctx, backoff, func(ctx context.Context) error {
		attempt++
		last = d.once(ctx, func(ctx context.Context, conn *sql.Conn) error { return work(ctx, conn, attempt) })
		if last != nil && ctx.Err() == nil && repeatable(last) {
			return retry.RetryableError(last)
		}
		return last
	})
	if attempt == 0 {
		last = context.Cause(ctx)
	}
	switch {
	case last != nil && ctx.Err() != nil:
		return interrupted(ctx, last)
	case !refuses(last):
		d.away.Store(false)
		return last
	case d.away.Load(), refuses(d.once(ctx, takesWrites)):
		d.away.Store(true)
		return &Away{last}
	default:
		return last
	}
}

// interrupted says what became of the work in hand. A deadline that ran out is no request to stop.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	return &Interrupted{Cause: context.Cause(ctx), Err: err, CommitUnknown: errors.As(err, new(*CommitUnknown))}
}

func (d *DB) once(ctx context.Context, work func(ctx context.Context, conn *sql.Conn) error) (err error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return &connectionError{fmt.Errorf("connect to mysql: %w", err)}
	}
	defer func() { // after a panic too
		if ctx.Err() != nil {
			go conn.Close() // it waits for a statement that may hang
			return
		}
		_ = conn.Close()
	}()
	err = work(ctx, conn)
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case isBroken(conn):
		return &connectionError{err}
	case kindOf(err) == readOnly:
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool throws it away
	}
	return err
}

const takesWritesSQL = "UPDATE settlement_run SET heartbeat_at = heartbeat_at WHERE id = 0"

// takesWrites changes nothing. A server that takes no writes refuses it all the same.
func takesWrites(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, takesWritesSQL); err != nil {
		return fmt.Errorf("ask mysql: %w", err)
	}
	return nil
}

// lastWords is how long a COMMIT or ROLLBACK may still take when ctx has ended. Neither takes a context, and a server that
// hangs would keep the process beyond its grace.
const lastWords = time.Second

func bounded(ctx context.Context, statement func() error) error {
	done := make(chan error, 1)
	go func() { done <- statement() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case err := <-done:
		return err
	case <-last.C:
		return &connectionError{errors.New("mysql does not answer")}
	}
}

// isBroken asks the connection itself: not every error of a broken connection says so.
func isBroken(conn *sql.Conn) bool {
	return conn.Raw(func(c any) error {
		if v, ok := c.(driver.Validator); ok && !v.IsValid() {
			return driver.ErrBadConn
		}
		return nil
	}) != nil
}

func transact(ctx context.Context, conn *sql.Conn, work func(tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = bounded(ctx, tx.Rollback) }() // after a panic the connection cannot be given back with it open
	if err := work(tx); err != nil {
		// The whole transaction goes: a lock wait that ran out has undone only its own statement.
		if undo := bounded(ctx, tx.Rollback); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			return errors.Join(err, fmt.Errorf("roll back: %w", undo))
		}
		return err
	}
	err = bounded(ctx, tx.Commit)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, sql.ErrTxDone)): // COMMIT was never sent
		return fmt.Errorf("commit: %w", err)
	case kindOf(err) == away, isBroken(conn):
		return &CommitUnknown{fmt.Errorf("commit: %w", err)}
	default:
		return fmt.Errorf("commit: %w", err)
	}
}
