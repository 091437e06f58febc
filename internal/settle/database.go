package settle

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"
)

// Bounds of repeating. A server that restarts or fails over within some seconds is waited for; a coupon whose lock
// somebody keeps is given up after a minute, since each attempt waits 10 s for it.
const (
	attempts       = 7
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 4 * time.Second
)

// breakerPause is how long a server that refuses everything is left alone. After it one question decides for all.
const breakerPause = 10 * time.Second

// Database is MySQL with patience and a breaker: what fails for a moment is tried again, and a server that refuses
// everything is not asked by every coupon of a run, nor by the next run, as often as by the first.
type Database struct {
	pool    *sql.DB
	breaker *gobreaker.CircuitBreaker[struct{}]
	refusal atomic.Pointer[error] // the last one, for whoever the breaker turns away
}

// NewDatabase takes a pool that connect has opened: the forced session settings matter.
func NewDatabase(pool *sql.DB, logger *zap.Logger) *Database {
	return &Database{pool: pool, breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      breakerPause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 0 },
		IsSuccessful: func(err error) bool { return !isRefusal(err) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			logger.Info("breaker of mysql", zap.Stringer("from", from), zap.Stringer("to", to))
		},
	})}
}

// isRefusal: the server is not there, or does not do what it is for. Any other answer shows that it lives.
func isRefusal(err error) bool {
	if err == nil {
		return false
	}
	class := classifyError(err)
	return class == away || class == readOnly
}

// querier is a connection, in a transaction or not.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// transact runs work in one transaction, and all of it again after an error that repeating can cure. A COMMIT whose
// reply was lost is such an error: work must begin by locking the coupon, which waits for the lost transaction to
// end one way or the other, and then find out what is recorded already. When the attempts end otherwise than in success
// after that, the error is a *CommitUnknown.
func (d *Database) transact(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) error) error {
	var unknown *CommitUnknown
	err := d.attempt(ctx, func(ctx context.Context, conn *sql.Conn) error {
		err := transactOn(ctx, conn, work)
		errors.As(err, &unknown)
		return err
	})
	if err == nil || unknown == nil || errors.As(err, &unknown) {
		return err
	}
	return &CommitUnknown{err}
}

// do runs work outside a transaction. It may run more than once.
func (d *Database) do(ctx context.Context, work func(ctx context.Context, q querier) error) error {
	return d.attempt(ctx, func(ctx context.Context, conn *sql.Conn) error { return work(ctx, conn) })
}

// insist is do for what must be tried once even where the breaker is open.
func (d *Database) insist(ctx context.Context, work func(ctx context.Context, q querier) error) error {
	onConn := func(ctx context.Context, conn *sql.Conn) error { return work(ctx, conn) }
	if d.breaker.State() == gobreaker.StateOpen {
		return d.attemptOnce(ctx, onConn)
	}
	return d.series(ctx, onConn)
}

// attempt runs work until it succeeds, repeating cannot help, or attempts are spent. Where it was refused to the last,
// the server is asked whether it refuses everything; then the error is a *Refused, and the breaker opens.
func (d *Database) attempt(ctx context.Context, work func(ctx context.Context, conn *sql.Conn) error) error {
	var refused *Refused
	if d.breaker.State() != gobreaker.StateClosed && errors.As(d.ask(ctx), &refused) {
		return refused
	}
	err := d.series(ctx, work)
	if isRefusal(err) && ctx.Err() == nil && errors.As(d.ask(ctx), &refused) {
		return &Refused{err}
	}
	return err // if refused, then by its own bad luck: others may fare better
}

// ask has the breaker ask the server whether it takes writes, or say what it knows. Several ask at once only while the
// breaker is closed.
func (d *Database) ask(ctx context.Context) error {
	for n := 1; ; n++ {
		_, err := d.breaker.Execute(func() (struct{}, error) {
			err := d.attemptOnce(ctx, func(ctx context.Context, conn *sql.Conn) error { return touch(ctx, conn) })
			if isRefusal(err) {
				d.refusal.Store(&err)
			}
			return struct{}{}, err
		})
		switch {
		case errors.Is(err, gobreaker.ErrTooManyRequests) && n < attempts: // another is asking
			if err := Wait(ctx, backoff(n)); err != nil {
				return err
			}
		case errors.Is(err, gobreaker.ErrTooManyRequests), errors.Is(err, gobreaker.ErrOpenState):
			return &Refused{fmt.Errorf("mysql refuses everything and is left alone for %s: %w", breakerPause, *d.refusal.Load())}
		case isRefusal(err):
			return &Refused{err}
		default:
			return err
		}
	}
}

// series runs work on a connection of its own each time.
func (d *Database) series(ctx context.Context, work func(ctx context.Context, conn *sql.Conn) error) error {
	for n := 1; ; n++ {
		err := d.attemptOnce(ctx, work)
		if err != nil && ctx.Err() != nil {
			return toldToStop(ctx, err)
		}
		if n == attempts || !repeatable(err) {
			return err
		}
		if Wait(ctx, backoff(n)) != nil {
			return toldToStop(ctx, err)
		}
	}
}

// toldToStop says what became of what was in hand.
func toldToStop(ctx context.Context, err error) error {
	var unknown *CommitUnknown
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return err // nobody told: the time for this was over
	case errors.As(err, &unknown):
		return told(StoppedUnknown, context.Cause(ctx), err)
	default:
		return told(StoppedInHand, context.Cause(ctx), err)
	}
}

func (d *Database) attemptOnce(ctx context.Context, work func(ctx context.Context, conn *sql.Conn) error) (err error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return &connectionError{fmt.Errorf("connect to mysql: %w", err)}
	}
	defer func() { // after a panic too
		if ctx.Err() != nil {
			go conn.Close() // it waits for what may hang on this connection
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
	case classifyError(err) == readOnly:
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // throws it away
	}
	return err
}

// lastWords is how long a COMMIT or ROLLBACK may still take when ctx has ended. They know no ctx, and a server that
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

// isBroken asks the connection itself: not every error of a broken one says that it is.
func isBroken(conn *sql.Conn) bool {
	return conn.Raw(func(c any) error {
		if v, ok := c.(driver.Validator); ok && !v.IsValid() {
			return driver.ErrBadConn
		}
		return nil
	}) != nil
}

func transactOn(ctx context.Context, conn *sql.Conn, work func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = bounded(ctx, tx.Rollback) }() // for a panic: the connection could not be given back with it open
	if err := work(ctx, tx); err != nil {
		// Whatever failed, all of it goes: a lock wait that ran out has undone only its own statement.
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
	case classifyError(err) == away, isBroken(conn):
		return &CommitUnknown{fmt.Errorf("commit: %w", err)}
	default:
		return fmt.Errorf("commit: %w", err)
	}
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
