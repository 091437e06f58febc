// Package mysqltx runs work on MySQL, repeats it after transient errors, and classifies errors.
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

// Bounds of repetition. A failover takes some seconds. Seven waits of 10 s for a row lock take about a minute.
const (
	maxAttempts  = 7
	fewAttempts  = 2 // enough to look up a transaction whose COMMIT got no reply
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 4 * time.Second
	jitter       = 50 // percent; runs that collided should not collide again
)

// DB runs work on a pool of connections. While MySQL is away, it makes only one attempt at each piece of work.
type DB struct {
	pool     *sql.DB
	attempts uint64
	away     atomic.Bool // MySQL refused the last operation
}

func New(pool *sql.DB) *DB { return &DB{pool: pool, attempts: maxAttempts} }

// NewBrief returns a DB that makes two attempts, for callers that soon come again by themselves.
func NewBrief(pool *sql.DB) *DB { return &DB{pool: pool, attempts: fewAttempts} }

// Pool returns the pool, for statements that are tried only once, such as heartbeats.
func (d *DB) Pool() *sql.DB { return d.pool }

type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Do runs work in one transaction and repeats it after a transient error; the first attempt is 1. The reply to COMMIT
// may be lost: work must first lock a row that every transaction of its kind locks and, from attempt 2 on, look up
// whether it is recorded. If a reply was lost and no later attempt succeeds, the error is a *CommitUnknown.
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

// OnConn is Do without a transaction.
func (d *DB) OnConn(ctx context.Context, work func(ctx context.Context, q Querier, attempt int) error) error {
	return d.repeat(ctx, func(ctx context.Context, conn *sql.Conn,
		attempt int) error {
		return work(ctx, conn, attempt)
	})
}

// Once is OnConn without repetition.
func (d *DB) Once(ctx context.Context, work func(ctx context.Context, q Querier) error) error {
	return d.once(ctx, func(ctx context.Context, conn *sql.Conn) error { return work(ctx, conn) })
}

// repeat runs work until it succeeds, a repetition cannot help, or the attempts are used up. The error is an *Away if
// MySQL refused the last attempt and then a simple write too.
func (d *DB) repeat(ctx context.Context, work func(ctx context.Context, conn *sql.Conn, attempt int) error) error {
	retries := d.attempts - 1
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

// interrupted wraps the error of work that a request to stop ended. A deadline is not such a request.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	return &Interrupted{Cause: context.Cause(ctx), Err: err, CommitUnknown: errors.As(err, new(*CommitUnknown))}
}

func (d *DB) once(ctx context.Context, work func(ctx context.Context, conn *sql.Conn) error) (err error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { // also after a panic
		if ctx.Err() != nil {
			go conn.Close() // Close waits for a statement that may hang
			return
		}
		_ = conn.Close()
	}()
	err = work(ctx, conn)
	if err != nil && ctx.Err() == nil && isBroken(conn) {
		return &connectionError{err}
	}
	return err
}

const takesWritesSQL = "UPDATE settlement_run SET heartbeat_at = heartbeat_at WHERE id = 0"

// takesWrites fails if the server accepts no writes. Its statement changes no row.
func takesWrites(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, takesWritesSQL)
	return err
}

// meanwhile bounds all calls of another server between two statements of a transaction. It is half of the time after
// which MySQL ends a session without statements, whose locks are then lost.
const meanwhile = 10 * time.Second

// Meanwhile returns the context for such calls. They fail, too, in a process that was frozen and no longer has its
// locks.
func Meanwhile(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, meanwhile)
}

// lastWords is how long a COMMIT or ROLLBACK may go on after the end of ctx, which cannot cancel them.
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

// isBroken asks the driver whether the connection is broken, because the error may not show it.
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
	defer func() { _ = bounded(ctx, tx.Rollback) }() // also after a panic: else the connection cannot be closed
	if err := work(tx); err != nil {
		// Always roll back the whole transaction: after a lock wait timeout, MySQL has undone only one statement.
		if undo := bounded(ctx, tx.Rollback); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			return errors.Join(err, fmt.Errorf("roll back: %w", undo))
		}
		return err
	}
	return commit(ctx, conn, tx)
}

func commit(ctx context.Context, conn *sql.Conn, tx *sql.Tx) error {
	err := bounded(ctx, tx.Commit)
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
