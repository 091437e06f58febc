// Command blackfriday shows Jajeong on this machine, in the language of the locale. It tells one of two stories, or
// leaves everything to you:
//
//	go run ./examples/blackfriday         50,000 people apply for three coupons, which a settlement issues at midnight
//	go run ./examples/blackfriday rush    50,000 people press at 14:00:00, and 1,000 coupons are issued at once
//	go run ./examples/blackfriday try     a page, the console and the APIs with sample data, until Ctrl-C
//
// In both stories, the first eligible applicants get the coupons, and a checker proves the result. The command starts
// redis-server, a MySQL server, apply-api, wallet-api, settle and others as child processes, and removes them at its
// end. Run it from the repository.
//
// Exit codes: 0 the story ended well and every invariant holds, or try was ready and Ctrl-C has ended it; 1 anything
// else; 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// maxDuration ends a demo that hangs. A first build takes minutes, the demo itself seconds.
const maxDuration = 30 * time.Minute

const (
	exitDone        = 0
	exitFailed      = 1
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	l := text.LanguageOf(nil, os.Getenv)
	d := &demo{screen: newScreen(stdout, l)}
	show, known := map[string]func(context.Context) error{
		"":     func(ctx context.Context) error { return d.tell(ctx, d.blackFriday()) },
		"rush": func(ctx context.Context) error { return d.tell(ctx, d.rush()) },
		"try":  d.try,
	}[strings.Join(args, " ")]
	if !known {
		fmt.Fprintln(stderr, "blackfriday:", l.Sprintf(text.DemoNoSuchStory, strings.Join(args, " ")))
		return exitFailed
	}
	err := show(ctx)
	stopErr := d.stop()
	switch {
	case err == nil && stopErr == nil:
		if ctx.Err() != nil {
			d.say(text.TryStopped)
		}
		return exitDone
	case ctx.Err() != nil && stopErr == nil:
		fmt.Fprintln(stderr, "\n"+l.Sprintf(text.DemoInterrupted))
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "\nblackfriday:", text.In(l, errors.Join(err, stopErr)))
	return exitFailed
}

// demo is the whole demonstration and what it has found out so far.
type demo struct {
	*screen
	deployment
	coupons []coupon
	answers map[uint64]answer // the first answer to each user
	opens   time.Time         // when the coupon of the rush opens
}

type story struct {
	introduction text.Message
	chapters     []chapter
}

type chapter struct {
	title text.Message
	show  func(context.Context) error
}

func (d *demo) blackFriday() story {
	return story{text.DemoBlackFriday, []chapter{
		{text.DemoStart, d.showStart},
		{text.DemoCoupons, d.showCoupons},
		{text.DemoFirst, d.showFirst},
		{text.DemoApplications, d.showApplications},
		{text.DemoSettlement, d.showSettlement},
		{text.DemoReview, d.showUnderReview},
		{text.DemoAfterwards, d.showAfterwards},
		{text.DemoRepetition, d.showRepetition},
		{text.DemoCheckout, d.showCheckout},
		{text.DemoService, d.showCustomerService},
		{text.DemoEvents, d.showEvents},
		{text.DemoProof, d.showProof},
	}}
}

// tell runs the chapters of a story. An unexpected result ends it with an error.
func (d *demo) tell(ctx context.Context, told story) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDuration, fmt.Errorf("not done within %v", maxDuration))
	defer cancel()
	began := time.Now()
	d.say(told.introduction)
	for _, chapter := range told.chapters {
		d.heading(chapter.title)
		if err := chapter.show(ctx); err != nil {
			return d.withPodLogs(err)
		}
	}
	d.say(text.DemoTook, seconds(time.Since(began)))
	d.heading(text.DemoNext)
	for _, next := range []struct {
		command string
		about   text.Message
	}{
		{"make try", text.DemoNextTry},
		{"make demo · make rush", text.DemoNextStories},
		{"docker compose up --build", text.DemoNextCompose},
		{"make build", text.DemoNextBuild},
		{"make bench SUBJECT=settle", text.DemoNextBench},
		{map[text.Language]string{text.Korean: "docs/operators.ko.md", text.English: "docs/operators.md"}[d.language],
			text.DemoNextOperator},
	} {
		d.write(fmt.Sprintf("%-28s%s\n", next.command, next.about.In(d.language)))
	}
	return nil
}
