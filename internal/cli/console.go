package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/console"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/overview"
	"github.com/jajeong/jajeong/internal/signin"
)

type consoleCmd struct {
	Listen          string `name:"listen" env:"CONSOLE_LISTEN" default:":8083" placeholder:"HOST:PORT"`
	AdminListen     string `name:"admin-listen" env:"ADMIN_LISTEN" placeholder:"HOST:PORT"`
	KeysFile        string `name:"receipt-keys-file" env:"RECEIPT_KEYS_FILE" type:"path" placeholder:"FILE"`
	signin.Settings `embed:""`
}

func (c *consoleCmd) Validate() error {
	problems := []error{connect.CheckListen("CONSOLE_LISTEN", c.Listen)}
	if c.AdminListen != "" {
		problems = append(problems, connect.CheckListen("ADMIN_LISTEN", c.AdminListen))
	}
	return errors.Join(problems...)
}

// consoleTimeouts leave time for a page (20 s) and for a file of a large coupon (2 min).
var consoleTimeouts = ops.Timeouts{Header: 5 * time.Second, Read: 15 * time.Second, Write: 150 * time.Second}

// maxConsoleConnections is far above what the persons of a company need.
const maxConsoleConnections = 1000

func (c *consoleCmd) run(ctx context.Context, p *program) error {
	s, err := p.openToStay(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	own := p.ownFlags()
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	registry := prometheus.NewRegistry()
	pages := console.New(working, console.Config{
		Run:    func(ctx context.Context, call console.Call) int { return p.onPageRun(ctx, s, own, call) },
		SignIn: c.Settings.Open(p.logger.Named("sign-in"), p.Now),
		DB:     s.MySQL,
		Reads: &overview.Reader{DB: s.MySQL, Store: s.store, Users: s.users, Now: p.Now, Zone: s.zone.Get,
			Next: p.timetable().Next},
		Zone: s.zone.Get, Now: p.Now, Logger: p.logger, Metrics: registry, Version: p.Process.Version,
	})
	defer pages.Close()
	defer stop() // runs before Close, which waits for the jobs: they finish what is in hand
	if c.AdminListen != "" {
		registry.MustRegister(s.Servers.Metrics(), s.store.Metrics())
		closeAdmin, err := ops.New(ops.Config{MySQL: connect.WholeDatabase{DB: s.MySQL}, Registry: registry}).Serve(ctx,
			c.AdminListen, p.logger)
		if err != nil {
			return fmt.Errorf("%w: free the port, or set ADMIN_LISTEN to another", err)
		}
		defer closeAdmin()
	}
	return c.serve(ctx, p, pages)
}

// serve serves the pages until ctx ends, and then answers the requests in flight.
func (c *consoleCmd) serve(ctx context.Context, p *program, pages http.Handler) error {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen for the console: %w: free the port, or set CONSOLE_LISTEN to another", err)
	}
	idle := ops.Idle{IsProxy: c.KeepsIdle, Now: p.Now}
	server := ops.NewServer(pages, idle.Within(consoleTimeouts), p.logger)
	p.logger.Info("listening", zap.Stringer("console", listener.Addr()))
	failed := make(chan error, 1)
	go func() {
		failed <- server.Serve(idle.Listen(ops.Limit(listener, maxConsoleConnections, new(atomic.Int64))))
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the console: %w", err)
	case <-ctx.Done():
	}
	p.logger.Info("stopping", zap.Duration("grace", p.Grace))
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Grace)
	defer cancel()
	return server.Shutdown(ending)
}

// ownFlags are the settings of this program as flags, for the verbs that run on pages.
func (p *program) ownFlags() (flags []string) {
	for _, f := range p.parsed.Model.Flags {
		if !f.Set || f.Name == "help" || f.Name == "lang" || f.Name == "version" {
			continue
		}
		value := fmt.Sprint(f.Target.Interface())
		if list, ok := f.Target.Interface().([]string); ok {
			value = strings.Join(list, ",")
		}
		flags = append(flags, "--"+f.Name+"="+value)
	}
	return flags
}

// onPageRun runs a verb for a page of the console. It shares the connections of the console.
func (p *program) onPageRun(ctx context.Context, s *servers, own []string, call console.Call) int {
	args := append([]string{}, call.Args...)
	if c, ok := p.parsed.Selected().Target.Addr().Interface().(*consoleCmd); ok && c.KeysFile != "" &&
		args[0] == "receipt" {
		args = append(args, "--receipt-keys-file="+c.KeysFile)
	}
	stdout, stderr := output.NewStream(call.Stdout), output.NewStream(call.Stderr)
	child := &program{cli: new(cli), onPage: true, signIn: call.SignIn, shared: s.sharedWith(), logger: p.logger,
		Locale: output.Locale{Language: call.Language},
		Process: Process{Args: append(args, own...), Stdin: new(bytes.Buffer), Stdout: stdout, Stderr: stderr,
			Version: p.Process.Version, Now: p.Now, Grace: p.Grace}}
	code := child.parseAndRun(ctx)
	if err := stdout.Failure(); err != nil && code == exitDone {
		return exitInfrastructure
	}
	return code
}
