// Command blackfriday shows Jajeong on this machine: 50,000 people apply for three coupons, a settlement issues the
// coupons in order of arrival, and a checker proves the result.
//
// It starts redis-server, a MySQL server, two pods of apply-api and the program settle as child processes, and removes
// them at its end. Run it from the repository: go run ./examples/blackfriday
//
// Exit codes: 0 everything was settled and every invariant holds; 1 anything else; 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// maxDuration leaves time for a first build on a slow machine. The demo itself takes seconds.
const maxDuration = 3 * time.Minute

const (
	exitDone        = 0
	exitFailed      = 1
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	os.Exit(run(ctx, os.Stdout, os.Stderr))
}

func run(ctx context.Context, stdout, stderr io.Writer) int {
	limited, cancel := context.WithTimeoutCause(ctx, maxDuration, fmt.Errorf("not done within %v", maxDuration))
	defer cancel()
	d := &demo{screen: newScreen(stdout)}
	err := d.run(limited)
	stopErr := d.stop()
	switch {
	case err == nil && stopErr == nil:
		return exitDone
	case ctx.Err() != nil && stopErr == nil:
		fmt.Fprintf(stderr, "\nblackfriday: %v; all servers and programs are stopped and removed\n", context.Cause(ctx))
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "\nblackfriday:", errors.Join(err, stopErr))
	return exitFailed
}

// demo is the whole demonstration and what it has found out so far.
type demo struct {
	*screen
	deployment
	coupons []coupon
	answers map[uint64]answer // the first answer to each user
}

// run runs the demonstration. An unexpected result ends it with an error.
func (d *demo) run(ctx context.Context) error {
	began := time.Now()
	d.say("Jajeong queues applications in Redis and issues the coupons at midnight in MySQL. This demo plays one day in " +
		"seconds on real servers, and checks that no application is lost, that no user gets a coupon twice, and that the first " +
		"applicants get the coupons. Lines with $ are commands.")
	for _, chapter := range []struct {
		english, korean string
		show            func(context.Context) error
	}{
		{"Start the servers and the programs", "서버와 프로그램 시작", d.showStart},
		{"Create three coupons and 50,000 people", "쿠폰 세 가지와 5만 명", d.showCoupons},
		{"One person applies twice, on two pods", "한 사람이 두 번 신청", d.showFirst},
		{"Everybody applies at the same time", "모두가 동시에 신청", d.showRush},
		{"Midnight comes early: the settlement", "앞당긴 자정: 정산", d.showSettlement},
		{"Applications under review: the dead-letter queue (DLQ)", "검토 중인 신청: DLQ", d.showUnderReview},
		{"The answers to people who apply again", "다시 신청한 사람이 받는 응답", d.showAfterwards},
		{"A second settlement changes nothing", "다시 정산해도 그대로입니다", d.showRepetition},
		{"The proof: every invariant is checked", "검증: 모든 불변식 확인", d.showProof},
	} {
		d.heading(chapter.english, chapter.korean)
		if err := chapter.show(ctx); err != nil {
			return d.withPodLogs(err)
		}
	}
	d.say("All of it took %.1f seconds.", time.Since(began).Seconds())
	d.heading("What to try next", "직접 해 보기")
	d.say("docker compose up --build   the same programs with dashboards; the log of `demo` has commands to try")
	d.say("make build                  bin/apply-api and bin/settle, for your own Redis and MySQL: README.md")
	d.say("make bench-settle           the settlement beside plain INSERT and LOAD DATA, on this machine")
	d.say("docs/operators.md           what to do each day, and when something fails · docs/operators.ko.md")
	return nil
}
