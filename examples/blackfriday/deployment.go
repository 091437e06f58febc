package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/testenv"
)

const (
	database = "jajeong"
	// stopWithin is for a program that was told to end; it takes milliseconds.
	stopWithin = 10 * time.Second
)

// deployment is the product on servers of its own. The zero value has started nothing.
type deployment struct {
	redis   *testenv.Redis
	mysql   *testenv.MySQL
	rdb     *redis.Client
	db      *sql.DB
	bin     string
	pods    []*pod
	started int // pods so far, for their names
}

// start starts the servers and builds the programs meanwhile. After an error, too, stop cleans up.
func (d *deployment) start(ctx context.Context, s *screen) (err error) {
	began := time.Now()
	s.say("Starting redis-server and mariadbd, building apply-api and settle (the first build takes up to a minute) …")
	if d.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{}); err != nil {
		return err
	}
	d.rdb = redis.NewClient(&redis.Options{Addr: d.redis.Addr()})
	// A server's folder is removed even if this process is killed, so the programs are put there, and what a build that
	// is interrupted leaves behind.
	d.bin = filepath.Join(d.redis.Dir(), "bin")
	if err := errors.Join(os.Mkdir(d.bin, 0o700), os.Setenv("GOTMPDIR", d.redis.Dir())); err != nil {
		return err
	}

	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		d.mysql, err = testenv.StartMySQL(workCtx, testenv.MySQLOptions{})
		return err
	})
	for _, program := range []string{"./cmd/apply-api", "./cmd/settle"} {
		work.Go(func() error {
			_, err := testenv.BuildBinary(workCtx, d.bin, program)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	if d.db, err = sql.Open("mysql", d.mysql.DSN("")); err != nil {
		return err
	}
	var version string
	if err := d.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("ask the database for its version: %w", err)
	}
	if _, err := d.db.ExecContext(ctx, "CREATE DATABASE "+database+" CHARACTER SET utf8mb4"); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	if err := d.db.Close(); err != nil {
		return err
	}
	if d.db, err = sql.Open("mysql", d.mysql.DSN(database)); err != nil {
		return err
	}
	info, err := d.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask Redis for its version: %w", err)
	}
	s.say("Redis %s and %s are up, apply-api and settle are built: %.1f seconds.",
		info["Server"]["redis_version"], version, time.Since(began).Seconds())
	s.say("They run as private child processes in temporary folders and leave nothing behind.")
	return nil
}

// settings are the whole environment of the programs: none of the caller's can lead them elsewhere.
func (d *deployment) settings() []string {
	return []string{
		"MYSQL_DSN=" + d.mysql.DSN(database), "REDIS_ADDRS=" + d.redis.Addr(),
		"SHUTDOWN_DELAY=0s", "APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0",
	}
}

// settle shows a command and runs it as a person at a shell would.
func (d *deployment) settle(ctx context.Context, s *screen, args ...string) error {
	line := "$ settle"
	for _, arg := range args {
		if strings.Contains(arg, " ") {
			arg = strconv.Quote(arg)
		}
		line += " " + arg
	}
	s.show(line)
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "settle"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.settings(), s.Writer, s.Writer
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it rolls back what is in hand
	cmd.WaitDelay = stopWithin
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("settle %s: %w", args[0], err)
	}
	return nil
}

// stop ends everything that was started.
func (d *deployment) stop() error {
	errs := []error{d.stopPods()}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.rdb != nil {
		errs = append(errs, d.rdb.Close())
	}
	if d.mysql != nil {
		errs = append(errs, d.mysql.Stop())
	}
	if d.redis != nil {
		errs = append(errs, d.redis.Stop())
	}
	return errors.Join(errs...)
}
