// Command blackfriday shows Jajeong on this machine. It tells one of two stories:
//
//	go run ./examples/blackfriday         50,000 people apply for three coupons, which a settlement issues at midnight
//	go run ./examples/blackfriday rush    50,000 people press at 14:00:00, and 1,000 coupons are issued at once
//
// In both, the first eligible applicants get the coupons, and a checker proves the result. The command starts
// redis-server, a MySQL server, two pods of apply-api, wallet-api, settle and a consumer of events as child processes, and removes them at its
// end. Run it from the repository.
//
// Exit codes: 0 the story ended well and every invariant holds; 1 anything else; 130 interrupted.
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
	d := &demo{screen: newScreen(stdout)}
	told, known := map[string]story{"": d.blackFriday(), "rush": d.rush()}[strings.Join(args, " ")]
	if !known {
		fmt.Fprintf(stderr, "blackfriday: %q is no story: want none, or rush\n", strings.Join(args, " "))
		return exitFailed
	}
	limited, cancel := context.WithTimeoutCause(ctx, maxDuration, fmt.Errorf("not done within %v", maxDuration))
	defer cancel()
	err := d.tell(limited, told)
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
	opens   time.Time         // when the coupon of the rush opens
}

type story struct {
	introduction string
	chapters     []chapter
}

type chapter struct {
	english, korean string
	show            func(context.Context) error
}

func (d *demo) blackFriday() story {
	return story{"Jajeong queues applications in Redis and issues the coupons at midnight in MySQL. This demo plays one day in " +
		"seconds on real servers, and checks that no application is lost, that no user gets a coupon twice, and that the first " +
		"applicants get the coupons. Lines with $ are commands.", []chapter{
		{"Start the servers and the programs", "서버와 프로그램 시작", d.showStart},
		{"Create three coupons and 50,000 people", "쿠폰 세 가지와 5만 명", d.showCoupons},
		{"One person applies twice, on two pods", "한 사람이 두 번 신청", d.showFirst},
		{"Everybody applies at the same time", "모두가 동시에 신청", d.showApplications},
		{"Midnight comes early: the settlement", "앞당긴 자정: 정산", d.showSettlement},
		{"Applications under review: the dead-letter queue (DLQ)", "검토 중인 신청: DLQ", d.showUnderReview},
		{"The answers to people who apply again", "다시 신청한 사람이 받는 응답", d.showAfterwards},
		{"A second settlement changes nothing", "다시 정산해도 그대로입니다", d.showRepetition},
		{"At checkout: reserve, use, give back", "결제에서 쿠폰 사용: 예약, 사용 확정, 사용 취소", d.showCheckout},
		{"What customer service sees", "고객센터에서 보는 기록", d.showCustomerService},
		{"The rest of the shop: events", "다른 서비스에 전달되는 이벤트", d.showEvents},
		{"The proof: every invariant is checked", "검증: 모든 불변식 확인", d.showProof},
	}}
}

// tell runs the chapters of a story. An unexpected result ends it with an error.
func (d *demo) tell(ctx context.Context, told story) error {
	began := time.Now()
	d.say("%s", told.introduction)
	for _, chapter := range told.chapters {
		d.heading(chapter.english, chapter.korean)
		if err := chapter.show(ctx); err != nil {
			return d.withPodLogs(err)
		}
	}
	d.say("All of it took %.1f seconds.", time.Since(began).Seconds())
	d.heading("What to try next", "직접 해 보기")
	d.say("docker compose up --build   the same programs with dashboards; the log of `demo` has commands to try")
	d.say("make demo · make rush       the two stories: coupons at midnight, and coupons at once")
	d.say("make build                  the programs in bin/, for your own Redis and MySQL: README.md")
	d.say("make bench-settle           the settlement beside plain INSERT and LOAD DATA, on this machine")
	d.say("docs/operators.md           what to do each day, and when something fails · docs/operators.ko.md")
	return nil
}
