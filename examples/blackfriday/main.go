// Command blackfriday is a black Friday on this machine, from the opening to the proof: 50,000 people apply for three
// coupons, the settlement gives the seats to the first of them, and every promise is checked afterwards.
//
// Everything in it is real: redis-server, mariadbd, two pods of apply-api over HTTP and the settle program, started as
// private child processes and gone afterwards, however it ends. Run it from the repository: go run ./examples/blackfriday
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

// A run takes seconds; the rest is for a first build on a slow machine.
const doneWithin = 3 * time.Minute

const (
	exitDone        = 0
	exitFailed      = 1
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Stdout, os.Stderr))
}

func run(ctx context.Context, stdout, stderr io.Writer) int {
	limited, cancel := context.WithTimeoutCause(ctx, doneWithin, fmt.Errorf("not done within %v", doneWithin))
	defer cancel()
	d := &deployment{}
	err := blackFriday(limited, newScreen(stdout), d)
	stopErr := d.stop()
	switch {
	case err == nil && stopErr == nil:
		return exitDone
	case ctx.Err() != nil && stopErr == nil:
		fmt.Fprintf(stderr, "\nblackfriday: %v; what it had started is stopped and removed\n", context.Cause(ctx))
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "\nblackfriday:", errors.Join(err, stopErr))
	return exitFailed
}

// blackFriday is the whole story; whatever is not as promised ends it with an error.
func blackFriday(ctx context.Context, s *screen, d *deployment) error {
	began := time.Now()
	s.heading("Real servers, the programs as they are shipped", "실제 서버와 배포용 프로그램")
	if err := d.start(ctx, s); err != nil {
		return err
	}

	s.heading("The schema", "데이터베이스 스키마")
	if err := d.settle(ctx, s, "migrate"); err != nil {
		return err
	}

	s.heading("Three coupons, fifty thousand people", "쿠폰 세 가지, 오만 명")
	coupons, err := createCoupons(ctx, d.db)
	if err != nil {
		return err
	}
	if err := createUsers(ctx, d.db); err != nil {
		return err
	}
	s.showCoupons(coupons)

	s.heading("The doors open: two pods of apply-api", "신청 시작: apply-api 두 대")
	for range podCount {
		if err := d.startPod(ctx, s); err != nil {
			return err
		}
	}
	front := newStorefront(d.pods)
	defer front.client.CloseIdleConnections()
	first, err := front.awaitOpen(ctx, coupons)
	if err != nil {
		return d.withPodLogs(err)
	}
	if err := showFirst(ctx, s, front, first); err != nil {
		return err
	}

	s.heading("Everybody at once", "모두가 한꺼번에")
	places, err := rush(ctx, s, front, coupons, first)
	if err != nil {
		return d.withPodLogs(err)
	}

	s.heading("Midnight, brought forward: the first in line get the seats", "자정 정산: 먼저 온 순서대로")
	if err := d.settle(ctx, s, "run", "--cutoff", "now", "--operator", "kim", "--reason", "black friday demo"); err != nil {
		return err
	}
	if err := showWinners(ctx, s, d, coupons, places); err != nil {
		return err
	}

	s.heading("Who could not be settled: the dead-letter queue", "발급할 수 없는 신청: DLQ")
	if err := showUnderReview(ctx, s, d, coupons); err != nil {
		return err
	}

	s.heading("Nobody is lost", "사라진 신청은 없습니다")
	if err := showBalance(ctx, s, d, coupons); err != nil {
		return err
	}

	s.heading("What people hear when they ask again", "다시 신청하면 듣는 대답")
	if err := showAfterwards(ctx, s, d, front, coupons[0]); err != nil {
		return err
	}

	s.heading("The same settlement once more changes nothing", "다시 실행해도 아무것도 바뀌지 않습니다")
	if err := settleAgain(ctx, s, d, coupons); err != nil {
		return err
	}

	s.heading("The proof", "검증")
	if err := d.stopPods(); err != nil {
		return err
	}
	s.say("Both pods were told to end with SIGTERM and exited with 0.")
	if err := d.settle(ctx, s, "verify"); err != nil {
		return err
	}
	s.say("\nEvery invariant holds. From nothing to the proof in %.1f seconds. 모든 약속을 지켰습니다.", time.Since(began).Seconds())
	return nil
}
