// Package cli implements the verbs of the program settle. DESIGN §6 explains the exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // container images may have no zone files, and SETTLE_TIME_ZONE must load there, too

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/cli/completion"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	shop "github.com/jajeong/jajeong/internal/users"
	"github.com/jajeong/jajeong/internal/view"
)

const (
	exitDone           = 0
	exitInfrastructure = 1
	exitUse            = 2
	exitInvariant      = 3
)

// maxParallel leaves eight of the 32 MySQL connections for heartbeats and run records, because a worker takes two.
const maxParallel = 12

type cli struct {
	connect.MySQLSettings `embed:""`
	connect.RedisSettings `embed:""`
	connect.LogSettings   `embed:""`
	shop.Settings         `embed:""`
	Candidates            candidates.Options `embed:""`

	SettleSchedule string `name:"settle-schedule" env:"SETTLE_SCHEDULE" default:"0 0 * * *" placeholder:"CRON"`
	SettleParallel int    `name:"parallel" env:"SETTLE_PARALLEL" default:"8" placeholder:"N"`
	RequireDurable bool   `name:"require-durable" env:"SETTLE_REQUIRE_DURABLE"`
	Lang           string `name:"lang" enum:"ko,en,auto" default:"auto" placeholder:"LANG"`
	Version        kong.VersionFlag

	Migrate migrateCmd `cmd:""`
	Run     runCmd     `cmd:""`
	Serve   serveCmd   `cmd:""`
	DLQ     dlqCmd     `cmd:"" name:"dlq"`
	Coupon  couponCmd  `cmd:"" name:"coupon"`
	Verify  verifyCmd  `cmd:""`
	Restore restoreCmd `cmd:""`
	Events  eventsCmd  `cmd:""`
	Explain explainCmd `cmd:""`
	Runs    runsCmd    `cmd:""`
	Show    showCmd    `cmd:""`
	Report  reportCmd  `cmd:""`
	User    userCmd    `cmd:""`
	Receipt receiptCmd `cmd:""`
	Purge   purgeCmd   `cmd:""`

	Approvals approvalsCmd `cmd:""`
	Approve   approveCmd   `cmd:""`
	Policy    policyCmd    `cmd:""`
	Console   consoleCmd   `cmd:""`

	Completion completion.Command `cmd:""`
}

func (c *cli) Validate() error {
	_, err := schedule.Parse(c.SettleSchedule)
	return errors.Join(
		refuse(err != nil, text.WrongSchedule, err),
		refuse(c.SettleParallel < 1 || c.SettleParallel > maxParallel, text.WrongParallel, c.SettleParallel,
			maxParallel))
}

type runner interface {
	run(ctx context.Context, p *program) error
}

// reader is a verb that gets open connections to MySQL and Redis. A verb that is no reader opens what it needs itself.
type reader interface {
	read(ctx context.Context, p *program, s *servers) error
}

// program holds what every verb needs: its settings, arguments, streams, language and log.
type program struct {
	*cli
	Process
	output.Locale
	forPage  bool               // the verb runs in the process of the console
	wrong    map[string]string  // what is wrong with single values, for a page; nil at a terminal
	printed  *[]error           // the errors that were printed, for the management API; nil at a terminal
	by       signin.Person      // who is signed in at the console, or the key of the management API
	progress func(done, of int) // is told how far a long run is; nil: nobody is
	shared   *servers           // connections of the console; nil: the verb opens its own
	logger   *zap.Logger
	selected any // the struct of the verb
	parsed   *kong.Context
}

// note keeps errors for the management API.
func (p *program) note(errs ...error) {
	if p.printed != nil {
		*p.printed = append(*p.printed, errs...)
	}
}

func (p *program) view() view.View   { return view.View{Locale: p.Locale, W: p.Stdout} }
func (p *program) errors() view.View { return view.View{Locale: p.Locale, W: p.Stderr} }

func (p *program) warn(m text.Message, args ...any) { p.errors().Println(m, args...) }

type Process struct {
	Args           []string // command line without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        string
	Now            func() time.Time
	HandOverTime   time.Duration // see candidates.Options; tests set it
	Grace          time.Duration // how long an open settlement, and a page, may continue after ctx has ended
}

// Grace is the grace period of the program. Kubernetes kills a container 30 s after SIGTERM unless told otherwise. A
// settlement takes about a second; if it waits for a lock for longer, it is rolled back, and the next run settles the
// coupon.
const Grace = 25 * time.Second

// Run runs the verb that the arguments name and returns the exit code.
func Run(ctx context.Context, process Process) int {
	out, errs := output.NewStream(process.Stdout), output.NewStream(process.Stderr)
	process.Stdout, process.Stderr = out, errs
	p := &program{cli: new(cli), Process: process,
		Locale: output.Locale{Language: text.LanguageOf(process.Args, os.Getenv), Zone: time.UTC}}
	code := p.parseAndRun(ctx)
	if err := out.Failure(); err != nil {
		p.warn(text.OutputNotWritten, err)
		if code != exitUse {
			code = exitInfrastructure
		}
	}
	return code
}

func (p *program) parseAndRun(ctx context.Context) int {
	if len(p.Args) > 0 && p.Args[0] == "help" { // settle help coupon close
		p.Args = append(slices.Clone(p.Args[1:]), "--help")
	}
	selected, err := connect.Parse(p.cli, connect.Program{Name: "settle", Language: p.Language},
		p.Args, p.Stdout, p.Stderr, variables(p.Process.Version), kong.PostBuild(completion.Answer))
	if errors.Is(err, connect.ErrHelp) {
		return exitDone
	}
	if err == nil {
		p.parsed, p.logger = selected, p.Logger(p.Stderr)
		command := selected.Selected().Target.Addr().Interface()
		_, reads := command.(reader)
		p.MySQLSettings.RequireDurable = p.RequireDurable && !reads
		if err = noKey(command); err == nil {
			err = p.run(ctx, command)
		}
	}
	return p.ended(err)
}

// variables are what the tags of verbs refer to.
func variables(version string) kong.Vars {
	causes := []string{}
	for _, cause := range append(slices.Clone(coupon.Causes), history.UnknownCause) {
		causes = append(causes, string(cause))
	}
	return kong.Vars{"version": version, "log_level": "warn", "causes": strings.Join(causes, ",")}
}

// ended prints the error that a verb has ended with, if there is one, and returns the exit code.
func (p *program) ended(err error) int {
	if err == nil {
		return exitDone
	}
	p.printErrors(err)
	return exitCode(err)
}

func (p *program) timetable() *schedule.Timetable {
	timetable, _ := schedule.Parse(p.SettleSchedule) // no error: Validate has parsed this schedule
	return timetable
}

func (p *program) nextNight(after time.Time) time.Time { return p.timetable().Next(after, p.Zone) }

// printErrors prints the errors, then each different piece of advice once, and returns the classes of the errors.
func (p *program) printErrors(errs ...error) (classes []coupon.Class) {
	p.note(errs...)
	var advice []text.Message
	for _, err := range errs {
		for line := range strings.Lines(text.In(p.Language, err)) {
			fmt.Fprintln(p.Stderr, "settle:", strings.TrimSpace(line))
		}
		classes = append(classes, classOf(err))
		if text.IsMissing(err) {
			output.SetNotFound(p.Stderr)
		}
		if err.Error() != "" && !errors.As(err, new(*connect.SettingError)) { // a SettingError says itself what to do
			advice = append(advice, mysqltx.Advice(err))
		}
	}
	for i, a := range advice {
		if a != (text.Message{}) && !slices.Contains(advice[:i], a) {
			p.warn(a)
		}
	}
	return classes
}

func (p *program) run(ctx context.Context, selected any) error {
	p.selected = selected
	reads, ok := selected.(reader)
	if !ok {
		return selected.(runner).run(ctx, p)
	}
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return reads.read(ctx, p, s)
}

// exitError is an exit code whose cause has already been printed, so its own text is empty.
type exitError int

func (exitError) Error() string { return "" }

func exitCode(err error) int {
	var code exitError
	if !errors.As(err, &code) {
		errors.As(worst(classOf(err)), &code)
	}
	return int(code)
}

func classOf(err error) coupon.Class {
	if errors.As(err, new(*connect.SettingError)) {
		return coupon.Setup
	}
	return mysqltx.ClassOf(err)
}

// worst returns the exit code for several failures; nil if there is no failure.
func worst(classes ...coupon.Class) error {
	for _, exit := range []struct {
		class coupon.Class
		code  exitError
	}{{coupon.Setup, exitUse}, {coupon.Infrastructure, exitInfrastructure}, {coupon.Invariant, exitInvariant}} {
		if slices.Contains(classes, exit.class) {
			return exit.code
		}
	}
	return nil
}
