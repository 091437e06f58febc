package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
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
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
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
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	registry := prometheus.NewRegistry()
	pages := console.New(working, console.Config{
		Verbs: verb.Of(p.parsed.Model),
		Run: func(ctx context.Context, call verb.Call) verb.Answer {
			return p.onPage(ctx, s, c.KeysFile, call)
		},
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

// onPage runs a verb for the console, with the settings and the connections of this process.
func (p *program) onPage(ctx context.Context, s *servers, keysFile string, call verb.Call) (answer verb.Answer) {
	stdout, stderr := output.NewStream(call.Stdout), output.NewStream(call.Stderr)
	answer.Wrong = map[string]string{}
	page := &program{cli: p.cli, forPage: true, wrong: answer.Wrong, printed: &answer.Errs, by: call.By,
		shared: s.sharedWith(), logger: p.logger,
		Locale: output.Locale{Language: call.Language, Zone: time.UTC},
		Process: Process{Stdin: new(bytes.Buffer), Stdout: stdout, Stderr: stderr, Version: p.Process.Version,
			Now: p.Now, Grace: p.Grace}}
	values := maps.Clone(call.Values)
	if keysFile != "" && call.Verb.Has("receipt-keys-file") {
		values["receipt-keys-file"] = keysFile
	}
	command := call.Verb.New()
	if err := connect.Fill(command, values, variables(p.Process.Version)); err != nil {
		answer.Invalid = true
		answer.Exit = page.ended(page.wrongFields(err))
	} else {
		answer.Exit = page.ended(page.run(ctx, command))
	}
	if stdout.Failure() != nil && answer.Exit == exitDone {
		answer.Exit = exitInfrastructure
	}
	return answer
}

// wrongFields moves the errors about single values to p.wrong. The exit code stays.
func (p *program) wrongFields(err error) error {
	others := []error{exitError(exitUse)}
	for _, problem := range text.Split(err) {
		if about, ok := errors.AsType[*text.FieldError](problem); ok && p.wrong[about.Field] == "" {
			p.wrong[about.Field] = about.In(p.Language)
		} else {
			others = append(others, problem)
		}
	}
	return errors.Join(others...)
}
