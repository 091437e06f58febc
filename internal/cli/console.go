package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/adminapi"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/console"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
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
	APIListen       string `name:"admin-api-listen" env:"ADMIN_API_LISTEN" default:":8084" placeholder:"HOST:PORT"`
	APIKeysFile     string `name:"admin-keys-file" env:"ADMIN_KEYS_FILE" type:"path" placeholder:"FILE"`
	signin.Settings `embed:""`
}

func (c *consoleCmd) Validate() error {
	problems := []error{connect.CheckListen("CONSOLE_LISTEN", c.Listen)}
	if c.AdminListen != "" {
		problems = append(problems, connect.CheckListen("ADMIN_LISTEN", c.AdminListen))
	}
	if c.APIKeysFile != "" {
		problems = append(problems, connect.CheckListen("ADMIN_API_LISTEN", c.APIListen))
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
	verbs := verb.Of(p.parsed.Model)
	run := func(ctx context.Context, call verb.Call) verb.Answer { return p.onPage(ctx, s, c.KeysFile, call) }
	jobs, lists := job.NewRunner(working, mysqltx.New(s.MySQL), p.logger), new(httpapi.Lists)
	defer jobs.Wait()
	pages := console.New(console.Config{
		Verbs: verbs, Run: run,
		SignIn: c.Settings.Open(p.logger.Named("sign-in"), p.Now),
		DB:     s.MySQL, Jobs: jobs, Lists: lists,
		Reads: &overview.Reader{DB: s.MySQL, Store: s.store, Users: s.users, Now: p.Now, Zone: s.zone.Get,
			Next: p.timetable().Next},
		Zone: s.zone.Get, Now: p.Now, Logger: p.logger, Metrics: registry, Version: p.Process.Version,
	})
	var beside sync.WaitGroup
	defer func() { stop(); beside.Wait() }()
	beside.Go(func() { job.Clean(working, s.MySQL, p.logger) })
	ports := []consolePort{{"console", "CONSOLE_LISTEN", c.Listen, pages, c.KeepsIdle}}
	if c.APIKeysFile != "" {
		keys, err := adminapi.LoadKeys(c.APIKeysFile)
		if err != nil {
			return err
		}
		api := adminapi.New(adminapi.Config{Verbs: verbs, Run: run, Keys: keys, Jobs: jobs, Lists: lists,
			Quickly: job.Quickly, DB: s.MySQL, Now: p.Now, Logger: p.logger, Metrics: registry})
		ports = append(ports, consolePort{"api", "ADMIN_API_LISTEN", c.APIListen, api, ops.IsInside})
		beside.Go(func() { keys.Watch(working, p.logger) })
	}
	defer stop() // runs before Wait: the jobs finish what is in hand
	if c.AdminListen != "" {
		registry.MustRegister(s.Servers.Metrics(), s.store.Metrics())
		closeAdmin, err := ops.New(ops.Config{MySQL: connect.WholeDatabase{DB: s.MySQL}, Registry: registry}).Serve(ctx,
			c.AdminListen, p.logger)
		if err != nil {
			return fmt.Errorf("%w: free the port, or set ADMIN_LISTEN to another", err)
		}
		defer closeAdmin()
	}
	return p.servePorts(ctx, ports)
}

// consolePort is a port of the console's process.
type consolePort struct {
	name, setting, listen string
	handler               http.Handler
	isProxy               func(netip.Addr) bool
}

// servePorts serves until ctx ends, and then answers the requests in flight.
func (p *program) servePorts(ctx context.Context, ports []consolePort) error {
	var listeners []net.Listener
	var listening []zap.Field
	for _, port := range ports {
		listener, err := net.Listen("tcp", port.listen)
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return fmt.Errorf("listen for the %s: %w: free the port, or set %s to another", port.name, err,
				port.setting)
		}
		listeners = append(listeners, listener)
		listening = append(listening, zap.Stringer(port.name, listener.Addr()))
	}
	p.logger.Info("listening", listening...)
	servers, failed := make([]*http.Server, len(ports)), make(chan error, len(ports))
	for i, port := range ports {
		idle := ops.Idle{IsProxy: port.isProxy, Now: p.Now}
		servers[i] = ops.NewServer(port.handler, idle.Within(consoleTimeouts), p.logger)
		go func() {
			failed <- servers[i].Serve(idle.Listen(ops.Limit(listeners[i], maxConsoleConnections, new(atomic.Int64))))
		}()
	}
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("serve the console: %w", err)
	case <-ctx.Done():
	}
	p.logger.Info("stopping", zap.Duration("grace", p.Grace))
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Grace)
	defer cancel()
	var closing errgroup.Group
	for _, server := range servers {
		closing.Go(func() error { return server.Shutdown(ending) })
	}
	return errors.Join(err, closing.Wait())
}

// onPage runs a verb for the console or the management API, with the settings and the connections of this process.
func (p *program) onPage(ctx context.Context, s *servers, keysFile string, call verb.Call) (answer verb.Answer) {
	stdout, stderr := output.NewStream(call.Stdout), output.NewStream(call.Stderr)
	answer.Wrong = map[string]string{}
	page := &program{cli: p.cli, forPage: true, wrong: answer.Wrong, printed: &answer.Errs, by: call.By,
		progress: call.Progress,
		shared:   s.sharedWith(), logger: p.logger,
		Locale: output.Locale{Language: call.Language, Zone: time.UTC},
		Process: Process{Stdin: cmp.Or[io.Reader](call.Stdin, new(bytes.Buffer)), Stdout: stdout, Stderr: stderr,
			Version: p.Process.Version, Now: p.Now, Grace: p.Grace}}
	values := maps.Clone(call.Values)
	delete(values, "file") // a caller names no file of this machine
	if call.Stdin != nil && call.Verb.TakesFile() {
		values["file"] = fromStdin
	}
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
