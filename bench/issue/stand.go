package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

// setup describes the coupons of one measurement.
type setup struct {
	coupons, seats int // seats of each coupon
	users          int // numbered from 1
	interval       time.Duration
	idle           bool // nobody presses: the pod's refresh of the catalog does not run
}

// stand is one contender with a new Redis and a new database.
type stand struct {
	setup
	contender contender
	stage     *stage
	redis     *testenv.Redis
	rdb       *redis.Client    // for INFO
	db        *sql.DB          // for preparations and the watcher
	servers   *connect.Servers // for the presses: clients as the programs of the product have them
	dsn       string
	press     press
	workers   []*exec.Cmd
	ends      []func()
}

// open starts the servers and workers of a contender.
func (s *stage) openStand(ctx context.Context, c contender, of setup) (v *stand, err error) {
	v = &stand{setup: of, contender: c, stage: s}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", c.name, err)
			v.close()
		}
	}()
	if v.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return v, err
	}
	v.atEnd(func() { _ = v.redis.Stop() })
	v.rdb = redis.NewClient(&redis.Options{Addr: v.redis.Addr()})
	v.atEnd(func() { _ = v.rdb.Close() })
	db, name, drop, err := s.Fresh(ctx, of.coupons, of.seats)
	if err != nil {
		return v, err
	}
	v.db, v.dsn = db, s.DSN(name)
	v.atEnd(drop)
	if err := v.addUsers(ctx); err != nil {
		return v, err
	}
	v.servers, err = connect.Open(&connect.MySQLSettings{MySQLDSN: v.dsn}, connect.Settling,
		&connect.RedisSettings{RedisAddrs: []string{v.redis.Addr()}}, zap.NewNop())
	if err != nil {
		return v, err
	}
	v.atEnd(v.servers.Close)
	if v.press, err = c.open(ctx, v); err != nil {
		return v, err
	}
	for range c.workers {
		if err := v.addWorker(ctx); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (v *stand) atEnd(end func()) { v.ends = append(v.ends, end) }

// close ends the workers first, and then the servers.
func (v *stand) close() {
	v.stopWorkers()
	for _, end := range slices.Backward(v.ends) {
		end()
	}
	v.ends = nil
}

// addUsers makes the users known to the shop. Only Jajeong reads them.
func (v *stand) addUsers(ctx context.Context) error {
	reader, writer := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(writer, 1<<20)
		for user := 1; user <= v.users; user++ {
			fmt.Fprintln(out, user)
		}
		_ = writer.CloseWithError(out.Flush())
	}()
	const handler = "users"
	mysql.RegisterReaderHandler(handler, func() io.Reader { return reader })
	defer mysql.DeregisterReaderHandler(handler)
	if _, err := v.db.ExecContext(ctx, "SET GLOBAL local_infile = 1"); err != nil {
		return fmt.Errorf("allow LOAD DATA LOCAL: %w", err)
	}
	if _, err := v.db.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+handler+"' INTO TABLE `user` (id)"); err != nil {
		return fmt.Errorf("load users: %w", err)
	}
	return nil
}

const endWithin = 10 * time.Second

func (v *stand) addWorker(ctx context.Context) error {
	cmd, err := v.contender.worker(ctx, v, len(v.workers))
	if err != nil {
		return err
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + v.stage.dir}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	v.workers = append(v.workers, cmd)
	return nil
}

// killWorkers ends the first n workers with SIGKILL.
func (v *stand) killWorkers(n int) {
	for _, cmd := range v.workers[:n] {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	v.workers = slices.Delete(v.workers, 0, n)
}

// stopWorkers lets the workers finish what is in hand.
func (v *stand) stopWorkers() {
	for _, cmd := range v.workers {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range v.workers {
		late := time.AfterFunc(endWithin, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
	}
	v.workers = nil
}

// workVerb makes this program a worker of a contender.
const workVerb = "work"

// wiring has the addresses that a worker reads from stdin.
type wiring struct{ Redis, DSN, Place string }

// own is the bench itself as a worker.
func own(ctx context.Context, v *stand, name, place string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(wiring{Redis: v.redis.Addr(), DSN: v.dsn, Place: place})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, workVerb, name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	_, err = in.Write(line)
	return cmd, err
}

// work runs a worker until SIGTERM or the end of stdin, which comes with the end of the bench at the latest.
func work(ctx context.Context, name string, stdin io.Reader) error {
	run := map[string]func(ctx context.Context, s *connect.Servers, w wiring) error{streamWorker: readStream, tasksWorker: handleTasks}[name]
	if run == nil {
		return fmt.Errorf("%s: unknown worker %q", workVerb, name)
	}
	var w wiring
	if err := json.NewDecoder(stdin).Decode(&w); err != nil {
		return fmt.Errorf("read wiring: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	servers, err := connect.Open(&connect.MySQLSettings{MySQLDSN: w.DSN}, connect.Settling,
		&connect.RedisSettings{RedisAddrs: []string{w.Redis}}, zap.NewNop())
	if err != nil {
		return err
	}
	defer servers.Close()
	return run(ctx, servers, w)
}
