package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/testenv"
)

const (
	database = "jajeong"
	podCount = 2
	// stopWithin is for a program after SIGTERM. It takes milliseconds.
	stopWithin = 10 * time.Second
)

// deployment is the product on servers of its own. The zero value has started nothing.
type deployment struct {
	redis *testenv.Redis
	mysql *testenv.MySQL
	db    *sql.DB
	bin   string
	pods  []*pod
	serve []*pod // processes of `settle serve`

	wallets []*pod // processes of wallet-api
}

func (d *demo) showStart(ctx context.Context) error {
	began := time.Now()
	d.say("Starting Redis and a MySQL server, building apply-api, wallet-api and settle (the first time a few minutes) …")
	if err := d.startServers(ctx); err != nil {
		return err
	}
	var version string
	if err := d.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	d.say("Redis and the MySQL server (%s) are up after %.1f seconds.", version, time.Since(began).Seconds())
	d.command("settle", "migrate")
	_, err := d.settle(ctx, "migrate")
	return err
}

// startServers starts the servers and builds the programs. After an error, stop still has to be called.
func (d *deployment) startServers(ctx context.Context) (err error) {
	if d.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{}); err != nil {
		return err
	}
	// The folder of a server is removed even if this process is killed. So it also holds the programs and the temporary
	// files of an interrupted build.
	d.bin = filepath.Join(d.redis.Dir(), "bin")
	if err := errors.Join(os.Mkdir(d.bin, 0o700), os.Setenv("GOTMPDIR", d.redis.Dir())); err != nil {
		return err
	}
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		d.mysql, err = testenv.StartMySQL(workCtx, testenv.MySQLOptions{})
		return err
	})
	for _, program := range []string{"./cmd/apply-api", "./cmd/wallet-api", "./cmd/settle", "./examples/consumer"} {
		work.Go(func() error {
			_, err := testenv.BuildBinary(workCtx, d.bin, program)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	server, err := sql.Open("mysql", d.mysql.DSN(""))
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := server.ExecContext(ctx, "CREATE DATABASE "+database+" CHARACTER SET utf8mb4"); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	d.db, err = sql.Open("mysql", d.mysql.DSN(database))
	return err
}

// settings are the whole environment of the programs, so that the settings of the caller cannot lead them elsewhere.
func (d *deployment) settings() []string {
	return []string{
		"MYSQL_DSN=" + d.mysql.DSN(database), "REDIS_ADDRS=" + d.redis.Addr(),
		"SHUTDOWN_DELAY=0s", "APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0", "SETTLE_ADMIN_LISTEN=127.0.0.1:0",
		"WALLET_LISTEN=127.0.0.1:0", "WALLET_ADMIN_LISTEN=127.0.0.1:0", "SERVICE_KEYS_FILE=" + d.keysFile(), "EVENT_SINK=redis",
	}
}

// command shows a command as a person would type it.
func (s *screen) command(words ...string) {
	for i, word := range words {
		if strings.Contains(word, " ") {
			words[i] = strconv.Quote(word)
		}
	}
	_, _ = fmt.Fprintln(s.out, "$ "+strings.Join(words, " "))
}

// settle runs a verb of settle and returns what it prints on standard output.
func (d *deployment) settle(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "settle"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.settings(), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // settle rolls back its open transaction
	cmd.WaitDelay = stopWithin
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("settle %s: %w\n%s%s", args[0], err, &stdout, &stderr)
	}
	return stdout.Bytes(), nil
}

// settleJSON shows a verb of settle, runs it and decodes its JSON.
func (d *demo) settleJSON(ctx context.Context, result any, args ...string) error {
	args = append(args, "--output", "json")
	d.command(append([]string{"settle"}, args...)...)
	output, err := d.settle(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(output, result); err != nil {
		return fmt.Errorf("read the output of settle %s: %w", args[0], err)
	}
	return nil
}

// stop ends everything that was started.
func (d *deployment) stop() error {
	errs := []error{d.stopPods()}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.mysql != nil {
		errs = append(errs, d.mysql.Stop())
	}
	if d.redis != nil {
		errs = append(errs, d.redis.Stop())
	}
	return errors.Join(errs...)
}

// pod is one process of apply-api, of wallet-api, or of `settle serve`.
type pod struct {
	name string
	*testenv.Program
}

// startPod returns when the pod listens. The pod may not be ready yet.
func (d *deployment) startPod(ctx context.Context) error {
	p, err := d.start(ctx, fmt.Sprintf("pod %d", len(d.pods)+1), "apply-api")
	if err == nil {
		d.pods = append(d.pods, p)
	}
	return err
}

func (d *deployment) startServe(ctx context.Context, tasks string) error {
	p, err := d.start(ctx, fmt.Sprintf("settle serve %d", len(d.serve)+1), "settle", "serve", "--tasks", tasks)
	if err == nil {
		d.serve = append(d.serve, p)
	}
	return err
}

func (d *deployment) startWallet(ctx context.Context) error {
	p, err := d.start(ctx, "wallet-api", "wallet-api")
	if err == nil {
		d.wallets = append(d.wallets, p)
	}
	return err
}

func (d *deployment) start(ctx context.Context, name, program string, args ...string) (*pod, error) {
	cmd := exec.Command(filepath.Join(d.bin, program), args...)
	cmd.Env = d.settings()
	// In a process group of its own the pod does not get Ctrl-C. This process sends it SIGTERM instead, once. If the demo is
	// killed, the next write of the pod to its log fails and ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started, err := testenv.StartProgram(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &pod{name, started}, nil
}

func (d *deployment) programs() []*pod { return slices.Concat(d.pods, d.serve, d.wallets) }

func (d *deployment) withPodLogs(err error) error {
	for _, p := range d.programs() {
		if warning := p.LastWarning(); warning != "" {
			err = fmt.Errorf("%w\nlast warning of %s: %s", err, p.name, warning)
		}
	}
	return err
}

// stopPods stops the pods, wallet-api and `settle serve`, and demands the exit code 0 of each.
func (d *deployment) stopPods() error {
	var errs []error
	for _, p := range d.programs() {
		if err := p.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.name, err))
		}
	}
	err := errors.Join(errs...)
	if err != nil {
		err = d.withPodLogs(err)
	}
	d.pods, d.serve, d.wallets = nil, nil, nil
	return err
}
