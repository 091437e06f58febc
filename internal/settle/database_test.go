package settle

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// turnstile leads to MySQL, or to a listener that counts whoever comes and hangs up.
type turnstile struct {
	driver.Connector // to MySQL
	nowhere          driver.Connector
	shut             atomic.Bool
	turned           atomic.Int64
}

func newTurnstile(t *testing.T) *turnstile {
	config, err := mysql.ParseDSN(testenv.MySQLFor(t).DSN)
	require.NoError(t, err)
	config.Logger = &mysql.NopLogger{}
	s := &turnstile{}
	s.Connector, err = mysql.NewConnector(config)
	require.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.turned.Add(1)
			_ = conn.Close()
		}
	}()
	config = config.Clone()
	config.Addr = listener.Addr().String()
	s.nowhere, err = mysql.NewConnector(config)
	require.NoError(t, err)
	return s
}

func (s *turnstile) Connect(ctx context.Context) (driver.Conn, error) {
	if s.shut.Load() {
		return s.nowhere.Connect(ctx)
	}
	return s.Connector.Connect(ctx)
}

// asks counts how many connections are turned away while n ask at once, and returns their errors.
func (s *turnstile) asks(ctx context.Context, d *Database, n int) (turned int64, answers []error) {
	before := s.turned.Load()
	answers = make([]error, n)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = d.do(ctx, func(ctx context.Context, q querier) error {
				var one int
				return q.QueryRowContext(ctx, "SELECT 1").Scan(&one)
			})
		})
	}
	all.Wait()
	return s.turned.Load() - before, answers
}

// Time is the bubble's: the pauses pass at once.
func TestTheBreakerSparesAServerThatRefuses(t *testing.T) {
	t.Parallel()
	s := newTurnstile(t)
	synctest.Test(t, func(t *testing.T) {
		pool := sql.OpenDB(s)
		defer pool.Close()
		d := NewDatabase(pool, zap.NewNop())
		refused := func(turned int64, n int) {
			t.Helper()
			got, answers := s.asks(t.Context(), d, n)
			require.Equal(t, turned, got)
			for _, err := range answers {
				require.Error(t, err)
				require.Equal(t, away, classifyError(err), "whoever is turned away is so by MySQL's refusal: %v", err)
				require.Equal(t, SafeToRunAgain, Advice(err))
			}
		}
		s.shut.Store(true)
		refused(attempts+1, 1) // the last one asks the server itself
		refused(0, 1)
		refused(0, 20)
		require.NoError(t, Wait(t.Context(), breakerPause-1))
		refused(0, 20)
		require.NoError(t, Wait(t.Context(), 2))
		refused(1, 1) // a single connection finds out
		refused(0, 20)
		require.NoError(t, Wait(t.Context(), breakerPause+1))
		refused(1, 20) // for all that ask meanwhile

		s.shut.Store(false)
		refused(0, 1) // nobody looks before the pause is over
		require.NoError(t, Wait(t.Context(), breakerPause+1))
		_, answers := s.asks(t.Context(), d, 20)
		for _, err := range answers {
			require.NoError(t, err)
		}
	})
}

// An answer that is no refusal shows that the server lives.
func TestTheBreakerStaysClosedWhileTheServerAnswers(t *testing.T) {
	t.Parallel()
	s := newTurnstile(t)
	synctest.Test(t, func(t *testing.T) {
		pool := sql.OpenDB(s)
		defer pool.Close()
		d := NewDatabase(pool, zap.NewNop())
		for number, want := range map[uint16]int{1205: attempts, 1213: attempts, 1062: attempts, 1146: 1, 1644: 1, 4025: 1} {
			tried := 0
			err := d.do(t.Context(), func(context.Context, querier) error { tried++; return &mysql.MySQLError{Number: number} })
			require.Error(t, err)
			require.Equal(t, want, tried, number)
			_, answers := s.asks(t.Context(), d, 1)
			require.NoError(t, answers[0], number)
		}
		// Nor does it open when the run was told to stop.
		s.shut.Store(true)
		ctx, stop := context.WithCancelCause(t.Context())
		stop(errors.New("SIGTERM"))
		_, answers := s.asks(ctx, d, 1)
		require.ErrorContains(t, answers[0], "SIGTERM")
		s.shut.Store(false)
		_, answers = s.asks(t.Context(), d, 1)
		require.NoError(t, answers[0])
	})
}

// A connection to a server that takes no writes would be used again, and lead there again.
func TestAConnectionThatTakesNoWritesIsThrownAway(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	s.DB.pool.SetMaxOpenConns(1)
	var used []uint64
	err := s.DB.do(t.Context(), func(ctx context.Context, q querier) error {
		var id uint64
		if err := q.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return err
		}
		used = append(used, id)
		if len(used) == 1 {
			if _, err := q.ExecContext(ctx, "START TRANSACTION READ ONLY"); err != nil {
				return err
			}
		}
		_, err := q.ExecContext(ctx, "UPDATE coupon SET name = 'd'")
		require.Equal(t, len(used) == 1, err != nil && classifyError(err) == readOnly, err)
		return err
	})
	require.NoError(t, err)
	require.Len(t, used, 2)
	require.NotEqual(t, used[0], used[1])
}

// MySQL tells a session that it was given up, where MariaDB only hangs up. Either way another one does the work.
func TestASessionThatTheServerGaveUpIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	var used []uint64
	err := s.DB.transact(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		var id uint64
		if err := tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return err
		}
		used = append(used, id)
		if len(used) == 1 {
			if _, err := tx.ExecContext(ctx, "SET SESSION wait_timeout = 1"); err != nil {
				return err
			}
			testenv.Eventually(t, 20*time.Second, "the server gives the session up", func() bool {
				return testenv.Sessions(t, s.DB.pool, func(s testenv.Session) bool { return s.ID == id }) == 0
			})
		}
		_, err := tx.ExecContext(ctx, "UPDATE coupon SET name = 'd'")
		return err
	})
	require.NoError(t, err)
	require.Len(t, used, 2)
	require.NotEqual(t, used[0], used[1])
}

// After a panic the connection is free for others.
func TestAPanicKeepsNoConnection(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	s.DB.pool.SetMaxOpenConns(1)
	for range 3 {
		require.Panics(t, func() {
			_ = s.DB.transact(t.Context(), func(context.Context, *sql.Tx) error { panic("a bug") })
		})
	}
	require.NoError(t, s.DB.do(t.Context(), func(context.Context, querier) error { return nil }))
}

// A connection that is lost each time, on a server that lives, is nobody else's trouble.
func TestTheBreakerStaysClosedForWhoeverHasBadLuck(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	err := s.DB.do(t.Context(), func(context.Context, querier) error { return driver.ErrBadConn })
	require.Error(t, err)
	require.False(t, isAway(err))
	require.Equal(t, coupon.Infrastructure, ErrorClass(err))
	require.NoError(t, s.DB.do(t.Context(), func(context.Context, querier) error { return nil }))
}

func TestWhoeverDoesNotKnowWhetherItCommittedIsNotBusy(t *testing.T) {
	t.Parallel()
	r := &Result{}
	r.conclude(&CommitUnknown{&mysql.MySQLError{Number: 1205}}, 0)
	require.Equal(t, coupon.Failed, r.Status)
	require.NotContains(t, r.Error, "nothing was moved")
	r.conclude(&mysql.MySQLError{Number: 1205}, 0)
	require.Equal(t, coupon.Busy, r.Status)
}
