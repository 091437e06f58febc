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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
	"github.com/jajeong/jajeong/internal/text"
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
	bin   string // folder of the programs
	pods  []*pod
	serve []*pod // processes of `settle serve`

	wallets  []*pod // processes of wallet-api
	consoles []*pod // processes of `settle console`
	page     *process.Server
	key      string // of the service checkout
}

// products are the programs of the product, as packages of this module.
var products = []string{"./cmd/apply-api", "./cmd/wallet-api", "./cmd/settle"}

func (d *demo) showStart(ctx context.Context) error {
	return d.startServers(ctx, append(slices.Clone(products), "./examples/consumer")...)
}

// startServers starts the servers, builds the programs and migrates the database. After an error, stop still has to be
// called.
func (d *demo) startServers(ctx context.Context, packages ...string) (err error) {
	var names []string
	for _, pkg := range packages {
		names = append(names, path.Base(pkg))
	}
	d.say(text.DemoStarting, strings.Join(names, ", "))
	w := d.newWait(append([]string{"MySQL"}, names...)...)
	defer w.end()
	if d.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{}); err != nil {
		return err
	}
	w.over("", text.DemoUp, "Redis")
	// The folder of a server is removed even if this process is killed, with the temporary files of an interrupted
	// build.
	if err := os.Setenv("GOTMPDIR", d.redis.Dir()); err != nil {
		return err
	}
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error { return d.startMySQL(workCtx, w) })
	for i, pkg := range packages {
		work.Go(func() error {
			program, err := testenv.KeepBinary(workCtx, pkg)
			if err != nil {
				return err
			}
			if i == 0 {
				d.bin = filepath.Dir(program)
			}
			w.over(names[i], text.DemoBuilt, names[i])
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	w.end()
	d.say(text.DemoEnvironment)
	return d.run(ctx, "migrate")
}

// startMySQL starts the database server, and makes a database.
func (d *demo) startMySQL(ctx context.Context, w *wait) (err error) {
	if d.mysql, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{}); err != nil {
		return err
	}
	server, err := sql.Open("mysql", d.mysql.DSN(""))
	if err != nil {
		return err
	}
	defer server.Close()
	var version string
	if err := server.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if _, err := server.ExecContext(ctx, "CREATE DATABASE "+database+" CHARACTER SET utf8mb4"); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	w.over("MySQL", text.DemoUp, "MySQL ("+version+")")
	d.db, err = sql.Open("mysql", d.mysql.DSN(database))
	return err
}

// settings are the whole environment of the programs, so that the settings of the caller cannot lead them elsewhere.
func (d *demo) settings() []string {
	return []string{
		"LC_ALL=" + string(d.language),
		"MYSQL_DSN=" + d.mysql.DSN(database), "REDIS_ADDRS=" + d.redis.Addr(),
		"SHUTDOWN_DELAY=0s", "APPLY_LISTEN=127.0.0.1:0", "ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0",
		"WALLET_LISTEN=127.0.0.1:0", "CONSOLE_LISTEN=127.0.0.1:0", "SERVICE_KEYS_FILE=" + d.keysFile(),
		"EVENT_SINK=redis",
	}
}

// settle runs a verb of settle and returns what it prints on standard output.
func (d *demo) settle(ctx context.Context, args ...string) ([]byte, error) {
	output, _, err := d.settleAll(ctx, args...)
	return output, err
}

// settleAll runs a verb of settle and returns what it prints on standard output and on standard error.
func (d *demo) settleAll(ctx context.Context, args ...string) (output, notes []byte, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "settle"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.settings(), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // settle rolls back its open transaction
	cmd.WaitDelay = stopWithin
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("settle %s: %w\n%s%s", args[0], err, &stdout, &stderr)
	}
	return stdout.Bytes(), stderr.Bytes(), nil
}

// run shows a verb of settle, runs it and shows what it prints.
func (d *demo) run(ctx context.Context, args ...string) error {
	_, err := d.shown(ctx, args...)
	return err
}

// shown does the same as run, and returns what settle prints on standard output.
func (d *demo) shown(ctx context.Context, args ...string) (string, error) {
	d.command(append([]string{"settle"}, args...)...)
	output, notes, err := d.settleAll(ctx, args...)
	d.printed(string(output) + string(notes))
	return string(output), err
}

// settleJSON runs a verb of settle for the demo's own checks, and decodes its JSON.
func (d *demo) settleJSON(ctx context.Context, result any, args ...string) error {
	output, err := d.settle(ctx, append(args, "--output", "json")...)
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
	if d.page != nil {
		errs = append(errs, d.page.Stop())
	}
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

// pod is one process of apply-api, of wallet-api, of `settle serve` or of `settle console`.
type pod struct {
	name string
	*testenv.Program
}

// startPod returns when the pod listens. The pod may not be ready yet.
func (d *demo) startPod(ctx context.Context) error {
	p, err := d.start(ctx, fmt.Sprintf("pod %d", len(d.pods)+1), "apply-api")
	if err == nil {
		d.pods = append(d.pods, p)
	}
	return err
}

func (d *demo) startServe(ctx context.Context, tasks string) error {
	p, err := d.start(ctx, fmt.Sprintf("settle serve %d", len(d.serve)+1), "settle", "serve", "--tasks", tasks)
	if err == nil {
		d.serve = append(d.serve, p)
	}
	return err
}

func (d *demo) startWallet(ctx context.Context) error {
	p, err := d.start(ctx, "wallet-api", "wallet-api")
	if err == nil {
		d.wallets = append(d.wallets, p)
	}
	return err
}

func (d *demo) start(ctx context.Context, name, program string, args ...string) (*pod, error) {
	cmd := exec.Command(filepath.Join(d.bin, program), args...)
	cmd.Env = d.settings()
	// In a process group of its own the pod does not get Ctrl-C. This process sends it SIGTERM instead, once. If the
	// demo is killed, the next write of the pod to its log fails and ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started, err := testenv.StartProgram(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &pod{name, started}, nil
}

func (d *deployment) programs() []*pod { return slices.Concat(d.pods, d.serve, d.wallets, d.consoles) }

func (d *deployment) withPodLogs(err error) error {
	for _, p := range d.programs() {
		if warning := p.LastWarning(); warning != "" {
			err = fmt.Errorf("%w\nlast warning of %s: %s", err, p.name, warning)
		}
	}
	return err
}

// stopPods stops all programs of the product, and demands the exit code 0 of each.
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
	d.pods, d.serve, d.wallets, d.consoles = nil, nil, nil, nil
	return err
}
