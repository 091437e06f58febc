// Command bench measures the product beside other ways to do the same: one subject at a time, see docs/bench. What is
// compared takes turns on the same servers. The results are figures and ratios for a reader; no test depends on a
// time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/bench/applicants"
	"github.com/jajeong/jajeong/bench/apply"
	"github.com/jajeong/jajeong/bench/events"
	"github.com/jajeong/jajeong/bench/issue"
	"github.com/jajeong/jajeong/bench/journal"
	"github.com/jajeong/jajeong/bench/live"
	"github.com/jajeong/jajeong/bench/redeem"
	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/settle"
	"github.com/jajeong/jajeong/bench/stage"
)

// subject is what one verb measures. open registers its flags.
type subject struct {
	name, about string
	open        func(*stage.Options) func(context.Context, *stage.Stage) (tables string, err error)
	charts      report.Charts
}

var subjects = []subject{
	{"apply", "the API beside handlers without it: at the peak, below it, under ten times the load", apply.New,
		apply.Charts},
	{"settle", "a whole settlement beside LOAD DATA and INSERTs", settle.New, settle.Charts},
	{"issue", "issuing at once beside a Redis Stream, SKIP LOCKED and asynq", issue.New, issue.Charts},
	{"redeem", "using coupons at checkout beside a Redis lock and SELECT … FOR UPDATE", redeem.New, redeem.Charts},
	{"events", "publishing events beside a bare XADD and a bare producer of Kafka", events.New, nil},
	{"journal", "the journal beside plain INSERTs, what others lose beside it, and restores", journal.New, nil},
	{"live", "20,000 users wait on streams, beside polling and a plain server with Pub/Sub", live.New, live.Charts},
}

var roles = []stage.Roles{applicants.Roles, apply.Roles, live.Roles, issue.Roles}

// gcPercent is that of the product's programs.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	_ = mysql.SetLogger(&mysql.NopLogger{}) // broken connections are expected while MySQL is away
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 2 && args[0] == stage.WorkVerb {
		for _, of := range roles {
			if work := of[args[1]]; work != nil {
				return work(ctx, json.NewDecoder(stdin), stdout, stderr)
			}
		}
	}
	for _, s := range subjects {
		if len(args) > 0 && s.name == args[0] {
			return s.measure(ctx, args[1:], stdout)
		}
	}
	usage := "usage: bench SUBJECT [-page PAGE.md] [flags]; bench SUBJECT -help\n"
	for _, s := range subjects {
		usage += fmt.Sprintf("  %-8s %s\n", s.name, s.about)
	}
	return errors.New(usage)
}

func (s subject) measure(ctx context.Context, args []string, stdout io.Writer) (err error) {
	o := stage.NewOptions(s.name)
	page := o.String("page", "a `page` of docs/bench that has a place for the tables of this command")
	run := s.open(o)
	if err := o.Parse(args); err != nil {
		return err
	}
	on, err := stage.Open(ctx)
	if err != nil {
		return err
	}
	defer on.Close()
	facts, err := on.Facts(ctx)
	if err != nil {
		return err
	}
	stage.Say("%s", facts)
	others := on.WatchOthers()
	tables, err := run(ctx, on)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s Other programs used %.1f cores meanwhile.\n\n%s", facts, others(), tables)
	fmt.Fprint(stdout, text)
	if *page == "" {
		return nil
	}
	return report.Keep(*page, o.Command("page"), text, s.charts)
}
