// Package cli holds the verbs of the program settle.
//
// Exit codes: 0 settled or nothing to do; 1 infrastructure failed or busy, safe to run again; 2 wrong use or setup, do
// not retry; 3 an invariant is violated, a person must look. Of several failures 2 takes precedence over 1, and 1 over 3.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // the zone of the cutoff must be known on images without zone files

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/cli/completion"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
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

// maxParallel leaves connections of the pool of 32 for heartbeats and records: each coupon takes two.
const maxParallel = 12

type cli struct {
	connect.MySQLSettings `embed:""`
	connect.RedisSettings `embed:""`
	connect.LogSettings   `embed:""`
	shop.Settings         `embed:""`
	Candidates            candidates.Options `embed:""`

	SettleTimeZone string        `name:"settle-time-zone" env:"SETTLE_TIME_ZONE" default:"Asia/Seoul"`
	SettleSchedule string        `name:"settle-schedule" env:"SETTLE_SCHEDULE" default:"0 0 * * *" placeholder:"CRON"`
	SettleParallel int           `name:"parallel" env:"SETTLE_PARALLEL" default:"8" placeholder:"N"`
	ShutdownGrace  time.Duration `name:"shutdown-grace" env:"SHUTDOWN_GRACE" default:"25s" placeholder:"DURATION"`
	Lang           string        `name:"lang" enum:"ko,en,auto" default:"auto" placeholder:"LANG"`
	Version        kong.VersionFlag

	Migrate  migrateCmd  `cmd:""`
	Run      runCmd      `cmd:""`
	Schedule scheduleCmd `cmd:""`
	DLQ      dlqCmd      `cmd:"" name:"dlq"`
	Coupon   couponCmd   `cmd:"" name:"coupon"`
	Verify   verifyCmd   `cmd:""`
	Explain  explainCmd  `cmd:""`
	Runs     runsCmd     `cmd:""`
	Show     showCmd     `cmd:""`
	Report   reportCmd   `cmd:""`

	Completion completion.Command `cmd:""`
}

// Validate reports what is impossible about the program's own settings.
func (c *cli) Validate() error {
	zone, err := time.LoadLocation(c.SettleTimeZone)
	noZone := err != nil || c.SettleTimeZone == "" || c.SettleTimeZone == "Local"
	if noZone {
		zone = time.UTC
	}
	_, err = schedule.Parse(c.SettleSchedule, zone)
	return errors.Join(
		refuse(noZone, text.WrongTimeZone, c.SettleTimeZone),
		refuse(err != nil, text.WrongSchedule, err),
		refuse(c.SettleParallel < 1 || c.SettleParallel > maxParallel, text.WrongParallel, c.SettleParallel, maxParallel),
		refuse(c.ShutdownGrace <= 0, text.WrongGrace, c.ShutdownGrace))
}

// verb is one command of settle.
type verb interface {
	run(ctx context.Context, p *program) error
}

// reader is a verb that reads from MySQL and Redis.
type reader interface {
	read(ctx context.Context, p *program, s *servers) error
}

// program holds the settings and streams of a verb.
type program struct {
	*cli
	verb           string // its name, without those it is below
	zone           *time.Location
	language       text.Language
	logger         *zap.Logger
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
}

func (p *program) locale() output.Locale { return output.Locale{Language: p.language, Zone: p.zone} }

// sprintf formats a message in the language of the session.
func (p *program) sprintf(m text.Message, args ...any) string { return p.language.Sprintf(m, args...) }

// view prints results, errors prints what accompanies them.
func (p *program) view() view.View   { return view.View{Locale: p.locale(), W: p.stdout} }
func (p *program) errors() view.View { return view.View{Locale: p.locale(), W: p.stderr} }

// warn prints a message beside the results.
func (p *program) warn(m text.Message, args ...any) { p.errors().Println(m, args...) }

// Process is what the program gets from the process it runs in.
type Process struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        string
	Now            func() time.Time
}

// Run runs the verb that the arguments name and returns the exit code.
func Run(ctx context.Context, process Process) int {
	out, errs := output.NewStream(process.Stdout), output.NewStream(process.Stderr)
	args := process.Args
	process.Stdout, process.Stderr = out, errs
	code := runVerb(ctx, process)
	if err := out.Failure(); err != nil {
		fmt.Fprintln(errs, text.LanguageOf(args, os.Getenv).Sprintf(text.OutputNotWritten, err))
		if code != exitUse {
			code = exitInfrastructure
		}
	}
	return code
}

func runVerb(ctx context.Context, process Process) int {
	var c cli
	p := &program{cli: &c, language: text.LanguageOf(process.Args, os.Getenv), stdin: process.Stdin, stdout: process.Stdout, stderr: process.Stderr, now: process.Now}
	selected, err := connect.Parse(&c, connect.Program{Name: "settle", Prefixes: []string{"APPLY_", "SETTLE_"}, Language: p.language},
		process.Args, p.stdout, p.stderr, kong.Vars{"version": process.Version, "log_level": "warn"}, kong.PostBuild(completion.Answer))
	if errors.Is(err, connect.ErrHelp) {
		return exitDone
	}
	if err == nil {
		p.verb, p.logger = selected.Selected().Name, c.Logger(p.stderr)
		p.zone, _ = time.LoadLocation(c.SettleTimeZone) // Validate has loaded it
		err = p.run(ctx, selected.Selected().Target.Addr().Interface())
	}
	if err == nil {
		return exitDone
	}
	p.printError(err)
	return exitCode(err)
}

// printError prints an error with advice. An exit code prints nothing.
func (p *program) printError(err error) {
	printed := text.In(p.language, err)
	if printed == "" {
		return
	}
	for line := range strings.Lines(printed) {
		fmt.Fprintln(p.stderr, "settle:", strings.TrimSpace(line))
	}
	if advice := advice(err); advice != (text.Message{}) {
		p.warn(advice)
	}
}

func (p *program) run(ctx context.Context, selected any) error {
	reads, ok := selected.(reader)
	if !ok {
		return selected.(verb).run(ctx, p)
	}
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	return reads.read(ctx, p, s)
}

// exitError is an exit code whose cause has been printed.
type exitError int

func (exitError) Error() string { return "" }

func exitCode(err error) int {
	var code exitError
	if errors.As(err, &code) {
		return int(code)
	}
	return codeOf(classOf(err))
}

// classOf classifies an error of any package.
func classOf(err error) coupon.Class {
	var setting *connect.SettingError
	if errors.As(err, &setting) {
		return coupon.Setup
	}
	return mysqltx.ClassOf(err)
}

// advice is the advice about an error of a server; errors about settings contain theirs.
func advice(err error) text.Message {
	if classOf(err) == coupon.Setup && mysqltx.ClassOf(err) != coupon.Setup {
		return text.Message{}
	}
	return settle.Advice(err)
}

func codeOf(class coupon.Class) int {
	switch class {
	case coupon.Setup:
		return exitUse
	case coupon.Invariant:
		return exitInvariant
	default:
		return exitInfrastructure
	}
}

// worst is the exit code of several failures.
func worst(classes []coupon.Class) error {
	found := map[int]bool{}
	for _, class := range classes {
		found[codeOf(class)] = true
	}
	return worstCode(found)
}

func worstCode(found map[int]bool) error {
	for _, code := range []int{exitUse, exitInfrastructure, exitInvariant} {
		if found[code] {
			return exitError(code)
		}
	}
	return nil
}
