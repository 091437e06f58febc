// Package cli holds the verbs of the program settle.
//
// Exit codes: 0 settled or nothing to do; 1 infrastructure failed or busy, safe to run again; 2 wrong use or setup, do
// not retry; 3 an invariant is violated, a person must look. Several at once: 2 before 1 before 3.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	_ "time/tzdata" // the zone of the cutoff must be known on images without zone files

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
	shop "github.com/jajeong/jajeong/internal/users"
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

	SettleTimeZone string           `name:"settle-time-zone" env:"SETTLE_TIME_ZONE" default:"Asia/Seoul" help:"Whose midnight is the cutoff. Default ${default}."`
	SettleSchedule string           `name:"settle-schedule" env:"SETTLE_SCHEDULE" default:"0 0 * * *" placeholder:"CRON" help:"When settle schedule settles, in that zone. Default ${default}."`
	SettleParallel int              `name:"parallel" env:"SETTLE_PARALLEL" default:"8" placeholder:"N" help:"How many coupons are settled at once, 1 to 12. Default ${default}."`
	ShutdownGrace  time.Duration    `name:"shutdown-grace" env:"SHUTDOWN_GRACE" default:"25s" placeholder:"DURATION" help:"How long a settlement in hand may go on after SIGTERM. Default ${default}."`
	Lang           string           `name:"lang" enum:"ko,en,auto" default:"auto" placeholder:"LANG" help:"Language of what people read: ko or en; auto is that of LANG. Default ${default}."`
	Version        kong.VersionFlag `help:"Print the version."`

	Migrate  migrateCmd  `cmd:"" help:"Bring the database schema up to date."`
	Run      runCmd      `cmd:"" help:"Settle every due coupon once. Bare, it is the nightly run."`
	Schedule scheduleCmd `cmd:"" help:"Stay and settle every night; catches up the nights it missed."`
	DLQ      dlqCmd      `cmd:"" name:"dlq" help:"Applications under review: list them, try them again, or end them."`
	Coupon   couponCmd   `cmd:"" name:"coupon" help:"Coupons: list, show, create and change them."`
	Verify   verifyCmd   `cmd:"" help:"Check every invariant; exits 3 when one is violated."`
	Explain  explainCmd  `cmd:"" help:"What is known of one user and one coupon, and one sentence to read out."`
	Runs     runsCmd     `cmd:"" help:"The runs there were, the newest first."`
	Show     showCmd     `cmd:"" help:"What one run did, coupon by coupon."`
	Report   reportCmd   `cmd:"" help:"What became of the applications of a day or a month: for finance."`

	Completion completionCmd `cmd:"" help:"Complete verbs and flags in bash, zsh or fish."`
}

// Check tells what is impossible about the program's own settings.
func (c *cli) Check() (problems []error) {
	zone, err := time.LoadLocation(c.SettleTimeZone)
	if err != nil || c.SettleTimeZone == "" || c.SettleTimeZone == "Local" {
		problems = append(problems, wrong(words{"SETTLE_TIME_ZONE=%q은(는) Asia/Seoul 같은 시간대가 아닙니다", "SETTLE_TIME_ZONE=%q is not a time zone such as Asia/Seoul"}, c.SettleTimeZone))
		zone = time.UTC
	}
	if _, err := schedule.Parse(c.SettleSchedule, zone); err != nil {
		problems = append(problems, wrong(words{"SETTLE_SCHEDULE=%q은(는) 0 0 * * * 같은 cron 식이 아닙니다: %v", "SETTLE_SCHEDULE: %[2]v"}, c.SettleSchedule, err))
	}
	if c.SettleParallel < 1 || c.SettleParallel > maxParallel {
		problems = append(problems, wrong(words{"SETTLE_PARALLEL이 %d입니다. 1부터 %d까지 가능합니다", "SETTLE_PARALLEL is %d: want 1 to %d"}, c.SettleParallel, maxParallel))
	}
	if c.ShutdownGrace <= 0 {
		problems = append(problems, wrong(words{"SHUTDOWN_GRACE가 %s입니다. 25s처럼 0보다 긴 시간을 주세요", "SHUTDOWN_GRACE is %s: want a duration above zero such as 25s"}, c.ShutdownGrace))
	}
	return problems
}

// verb is one command of settle.
type verb interface {
	run(ctx context.Context, p *program) error
}

// program is what a verb works with.
type program struct {
	*cli
	zone           *time.Location
	language       language
	logger         *zap.Logger
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
}

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
	out, errs := &stream{to: process.Stdout}, &stream{to: process.Stderr}
	args := process.Args
	process.Stdout, process.Stderr = out, errs
	code := runVerb(ctx, process)
	if err := out.failure(); err != nil {
		fmt.Fprintln(errs, languageOf(args).say(words{"settle: 출력을 다 쓰지 못했습니다: %v. 이미 한 일은 그대로입니다. 같은 변경을 다시 하기 전에 확인하세요",
			"settle: the output could not be written: %v. What was done is done: look before you repeat a change"}, err))
		code = exitCode(worstCode(map[int]bool{code: true, exitInfrastructure: true}))
	}
	return code
}

func runVerb(ctx context.Context, process Process) int {
	var c cli
	args, stdout, stderr := process.Args, process.Stdout, process.Stderr
	speaks := languageOf(args)
	selected, err := connect.Parse(&c, "settle",
		"Settles first-come-first-served coupons: who applied, in order, becomes who holds one.",
		args, stdout, stderr, []string{"APPLY_", "SETTLE_"}, kong.Vars{"version": process.Version, "log_level": "warn"},
		kong.PostBuild(answersShells))
	if errors.Is(err, connect.ErrHelp) {
		return exitDone
	}
	if err == nil {
		p := &program{cli: &c, language: speaks, logger: c.Logger(stderr), stdin: process.Stdin, stdout: stdout, stderr: stderr, now: process.Now}
		p.zone, _ = time.LoadLocation(c.SettleTimeZone) // Check has loaded it before
		err = selected.Selected().Target.Addr().Interface().(verb).run(ctx, p)
	}
	if err == nil {
		return exitDone
	}
	if text := speaks.tell(err); text != "" {
		for line := range strings.Lines(text) {
			fmt.Fprintln(stderr, "settle:", strings.TrimSpace(line))
		}
		if advice := advice(err); advice != "" {
			fmt.Fprintln(stderr, speaks.advise(advice))
		}
	}
	return exitCode(err)
}

// exitError carries the exit code of what has been told already.
type exitError int

func (exitError) Error() string { return "" }

func exitCode(err error) int {
	var told exitError
	if errors.As(err, &told) {
		return int(told)
	}
	return codeOf(classOf(err))
}

// useError is wrong use that shows only while a verb works.
type useError struct{ error }

// classOf is what an error of any package means to whoever started the program.
func classOf(err error) coupon.Class {
	var setting *connect.SettingError
	if errors.As(err, &setting) || errors.As(err, new(useError)) || errors.As(err, new(*wrongUse)) || errors.Is(err, ledger.ErrNoCoupon) || errors.Is(err, history.ErrNoRun) {
		return coupon.Setup
	}
	return mysqltx.ClassOf(err)
}

// advice is what to do about an error of a server; wrong settings say it themselves.
func advice(err error) string {
	if classOf(err) == coupon.Setup && mysqltx.ClassOf(err) != coupon.Setup {
		return ""
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

// worst is the exit code of several failures: what must not be retried first, then what may be.
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

// servers are what a verb works on: MySQL, and the store in Redis.
type servers struct {
	*connect.Servers
	store *candidates.Store
	users *shop.Directory
}

// open connects a verb to its servers.
func (p *program) open() (*servers, error) {
	both, err := connect.Open(&p.MySQLSettings, &p.RedisSettings, p.logger)
	if err != nil {
		return nil, err
	}
	both.Insist()
	store, err := candidates.NewStore(both.Redis, p.Candidates)
	if err != nil {
		both.Close()
		return nil, err
	}
	return &servers{both, store, p.Settings.Directory()}, nil
}

// settler is a settler with its servers.
type settler struct {
	*settle.Settler
	*servers
}

// openSettler connects a verb that settles to its servers.
func (p *program) openSettler(ctx context.Context) (*settler, error) {
	s, err := p.openWriting(ctx)
	if err != nil {
		return nil, err
	}
	one, err := settle.New(settle.Config{
		DB: mysqltx.New(s.MySQL), Clock: s.store, Door: s.store, Line: s.store, DLQ: s.store,
		Catalog: catalog.Snapshot{Store: s.store}, Auditor: &ledger.Ledger{Store: s.store, Users: s.users}, Users: s.users, Metrics: settle.NewMetrics(p.now),
		Zone: p.zone, Now: p.now, Logger: p.logger, Grace: p.ShutdownGrace, Parallel: p.SettleParallel,
	})
	return &settler{one, s}, err
}
