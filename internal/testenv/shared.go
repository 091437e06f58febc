package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv/hostile"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

// shared are the servers of this process. The first test that needs a server starts it. A failure is kept, because the
// other tests would only wait for the same failure.
var shared struct {
	mu       sync.Mutex
	redis    *Redis
	redisErr error
	mysql    *MySQL
	mysqlErr error

	mysqlOptions MySQLOptions
	others       []func() error // stop something else
}

// Main runs the tests, stops the shared servers and exits. For TestMain.
func Main(m *testing.M) { os.Exit(WithServers{m}.Run()) }

// WithServers stops the shared servers after the tests. For goleak.VerifyTestMain.
type WithServers struct{ *testing.M }

// Run runs the tests and returns the exit code.
func (w WithServers) Run() int {
	code := w.M.Run()
	if err := StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	return code
}

// MainHostile is Main with hostile.Globals as defaults of the shared database server, so that a session must set its
// own. A server in TEST_MYSQL_DSN stays as it is.
func MainHostile(m *testing.M) {
	shared.mysqlOptions.Init = hostile.Globals()
	Main(m)
}

// StopShared stops the shared servers, for a TestMain that does not call Main.
func StopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	var errs []error
	if shared.redis != nil {
		errs = append(errs, shared.redis.Stop())
	}
	if shared.mysql != nil {
		errs = append(errs, shared.mysql.Stop())
	} else {
		errs = append(errs, pool.dropAll(context.Background()))
	}
	for _, stop := range shared.others {
		errs = append(errs, stop())
	}
	shared.redis, shared.mysql, shared.others = nil, nil, nil
	return errors.Join(errs...)
}

// StopWithShared adds what else StopShared stops.
func StopWithShared(stop func() error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.others = append(shared.others, stop)
}

// RedisHandle is a test's share of a Redis.
type RedisHandle struct {
	Addrs  []string // more than one: a Cluster
	Prefix string   // for REDIS_KEY_PREFIX; no other test has it
	Client redis.UniversalClient
}

// RedisFor returns a share of the shared Redis, or of the servers in TEST_REDIS_ADDRS. At the end of the test, every
// key with the prefix is removed and the client is closed.
func RedisFor(t testing.TB) RedisHandle {
	t.Helper()
	h := RedisHandle{Addrs: redisAddrs(t), Prefix: "t" + randomName() + ":"}
	h.Client = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: h.Addrs})
	if err := h.Client.Ping(t.Context()).Err(); err != nil {
		h.Client.Close()
		t.Fatalf("testenv: reach Redis at %s: %v\n%s", strings.Join(h.Addrs, ","), err, RedisHint)
	}
	t.Cleanup(func() {
		ctx := process.PatientCleanUp(t)
		if err := errors.Join(removeKeys(ctx, h.Client, h.Prefix), h.Client.Close()); err != nil {
			t.Errorf("testenv: clean up Redis: %v", err)
		}
	})
	return h
}

func redisAddrs(t testing.TB) []string {
	t.Helper()
	NeedsServers(t)
	if addrs := os.Getenv("TEST_REDIS_ADDRS"); addrs != "" {
		return strings.Split(strings.ReplaceAll(addrs, " ", ""), ",")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.redis == nil && shared.redisErr == nil {
		shared.redis, shared.redisErr = StartRedis(Patient(t), RedisOptions{})
	}
	if shared.redisErr != nil {
		t.Fatalf("testenv: %v", shared.redisErr)
	}
	return []string{shared.redis.Addr()}
}

// MySQLHandle is a test's share of a database server.
type MySQLHandle struct {
	DSN string  // of the test's own database, which is empty
	DB  *sql.DB // open, in UTC
}

// poolSize is small enough for many tests in parallel within the server's max_connections.
const poolSize = 50

// MySQLFor returns an empty database of the test's own on the shared server, or on the one in
// TEST_MYSQL_DSN. It is dropped at the end of the test.
func MySQLFor(t testing.TB) MySQLHandle {
	t.Helper()
	at := mysqlServer(t)
	var err error
	if at.DBName, err = createDatabase(t.Context(), at); err != nil {
		t.Fatalf("testenv: %v\n%s", err, mysqlHint)
	}
	return openHandle(t, at, func(ctx context.Context) error { return dropDatabase(ctx, at) })
}

// openHandle opens a database. At the end of the test it closes it, and calls done.
func openHandle(t testing.TB, at *mysql.Config, done func(context.Context) error) MySQLHandle {
	t.Helper()
	h := MySQLHandle{DSN: at.FormatDSN()}
	t.Cleanup(func() {
		if h.DB != nil {
			h.DB.Close()
		}
		if err := done(process.PatientCleanUp(t)); err != nil {
			t.Errorf("testenv: clean up MySQL: %v", err)
		}
	})
	db, err := sql.Open("mysql", h.DSN)
	if err != nil {
		t.Fatalf("testenv: open database %s: %v", at.DBName, err)
	}
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	h.DB = db
	return h
}

func createDatabase(ctx context.Context, server *mysql.Config) (name string, err error) {
	name = "jajeong_test_" + randomName()
	if err := execAlone(ctx, server, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	return name, nil
}

func dropDatabase(ctx context.Context, at *mysql.Config) error {
	server := at.Clone()
	server.DBName = ""
	if err := execAlone(ctx, server, "DROP DATABASE "+at.DBName); err != nil {
		return fmt.Errorf("drop database, is a transaction of this test still open?: %w", err)
	}
	return nil
}

func mysqlServer(t testing.TB) *mysql.Config {
	t.Helper()
	NeedsServers(t)
	if dsn := os.Getenv("TEST_MYSQL_DSN"); dsn != "" {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			// The message must not contain the DSN, which has a password.
			t.Fatalf("testenv: parse TEST_MYSQL_DSN: %v", err)
		}
		inUTC(cfg)
		cfg.DBName = ""
		return cfg
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.mysql == nil && shared.mysqlErr == nil {
		shared.mysql, shared.mysqlErr = StartMySQL(Patient(t), shared.mysqlOptions)
	}
	if shared.mysqlErr != nil {
		t.Fatalf("testenv: %v", shared.mysqlErr)
	}
	return mysqlConfig(shared.mysql.Addr(), shared.mysql.user)
}

// lockWait is how many seconds a clean-up waits for transactions of a test that are still open. The server's default
// is a year.
const lockWait = "600"

// execAlone runs a statement on a connection of its own.
func execAlone(ctx context.Context, cfg *mysql.Config, statement string) error {
	cfg = cfg.Clone()
	cfg.Params["lock_wait_timeout"] = lockWait
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// PrivateRedis starts a Redis for this test alone, which may kill and freeze it.
func PrivateRedis(t testing.TB, opts RedisOptions) *Redis {
	t.Helper()
	return private(t, StartRedis, opts)
}

// PrivateMySQL starts a database server for this test alone, which may kill and freeze it.
func PrivateMySQL(t testing.TB, opts MySQLOptions) *MySQL {
	t.Helper()
	return private(t, StartMySQL, opts)
}

func private[S interface{ StopAfter(testing.TB) }, O any](t testing.TB, start func(context.Context, O) (S, error),
	opts O) S {
	t.Helper()
	NeedsServers(t)
	s, err := start(Patient(t), opts)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	s.StopAfter(t)
	return s
}
