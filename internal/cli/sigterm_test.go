package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// hangs is when a program that was told to stop with a grace of a second is taken for one that hangs. It must stay
// below the two minutes after which a read from MySQL gives up by itself.
const hangs = 40 * time.Second

// night is a world in which users 1, 2 and 3 stood in each line before the last midnight, for two seats.
type night struct {
	*world
	coupons []coupon.CouponID
}

func newNight(w *world, coupons int) *night {
	n := &night{world: w}
	midnight := calendar.DefaultCutoff(w.now(), w.settler().Zone)
	w.users(1, 2, 3)
	for range coupons {
		couponID := w.couponBetween(2, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
		for i, member := range []string{"1", "2", "3"} {
			w.stand(couponID, member, midnight.Add(time.Duration(i-5)*time.Minute))
		}
		n.coupons = append(n.coupons, couponID)
	}
	return n
}

// requireUntouched demands that nothing has happened to the coupons.
func (n *night) requireUntouched(coupons ...coupon.CouponID) {
	n.t.Helper()
	for _, couponID := range coupons {
		require.Empty(n.t, n.issued(couponID), "coupon %d", couponID)
		require.Equal(n.t, []string{"1", "2", "3"}, n.waiting(couponID), "coupon %d", couponID)
	}
}

// requireRepaired demands that one more run settles all that was left.
func (n *night) requireRepaired() {
	n.t.Helper()
	code, _, stderr := n.settle("run")
	require.Zero(n.t, code, stderr)
	for _, couponID := range n.coupons {
		require.Equal(n.t, []coupon.UserID{1, 2}, n.issued(couponID))
		require.Equal(n.t, []coupon.UserID{3}, n.outcome(couponID, "NOT_SELECTED"))
		require.Empty(n.t, n.waiting(couponID))
	}
	n.verify()
}

// awaitTurn returns when some session waits for the row of that coupon, which this test holds.
func (w *world) awaitTurn(couponID coupon.CouponID) {
	w.t.Helper()
	testenv.Eventually(w.t, hangs, "a session waits for the coupon", func() bool { return w.turns(couponID) > 0 })
}

// awaitNobody returns when no session waits any more: also none that an ended program has left behind at the server.
func (w *world) awaitNobody(couponID coupon.CouponID) {
	w.t.Helper()
	testenv.Eventually(w.t, hangs, "nobody waits for the coupon", func() bool { return w.turns(couponID) == 0 })
}

func (w *world) turns(couponID coupon.CouponID) int {
	w.t.Helper()
	lock := fmt.Sprintf("WHERE c.id = %d FOR UPDATE", couponID)
	return testenv.Sessions(w.t, w.db, func(s testenv.Session) bool {
		return s.Command == "Query" && strings.HasSuffix(s.Statement, lock)
	})
}

// running is the program on its way, in this process: to be told so that it has heard when stop returns.
type running struct {
	t              *testing.T
	cancel         context.CancelCauseFunc
	ended          chan struct{}
	code           int
	stdout, stderr bytes.Buffer
}

func (w *world) begin(args ...string) *running {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{t: w.t, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.code = run(ctx, append(args, w.servers...), &r.stdout, &r.stderr)
	}()
	return r
}

func (r *running) stop() { r.cancel(errors.New("terminated signal received")) }

func (r *running) end() {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(hangs):
		r.t.Fatal("the program hangs")
	}
}

func TestARunToldToStopFinishesWhatIsInHandAndSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 4)
	release := n.lock(n.coupons[1])
	r := n.begin("run", "--parallel=1")
	n.awaitTurn(n.coupons[1]) // the first is settled, the second in hand
	r.stop()
	release()
	r.end()
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr.String(), "stopped by a signal: terminated signal received")
	require.Contains(t, r.stderr.String(), "of 4 coupons")
	require.Contains(t, r.stderr.String(), "coupon 2: ")
	require.Contains(t, r.stderr.String(), "safe to run again")

	require.Equal(t, []coupon.UserID{3}, n.outcome(n.coupons[0], "NOT_SELECTED"))
	require.Equal(t, []coupon.UserID{1, 2}, n.issued(n.coupons[1]), "the transaction in hand")
	require.Empty(t, n.outcome(n.coupons[1], "NOT_SELECTED"), "the transaction behind it")
	n.requireUntouched(n.coupons[2:]...)
	require.Len(t, n.ids("SELECT id FROM settlement_run WHERE status = 'FAILED' AND finished_at IS NOT NULL"), 1)
	n.requireRepaired()
}

func TestARunToldToStopBeforeItBeginsMovesNothing(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 2)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("terminated signal received"))
	var stderr bytes.Buffer
	require.Equal(t, 1, run(ctx, append([]string{"run"}, n.servers...), io.Discard, &stderr))
	require.Contains(t, stderr.String(), "0 of 2 coupons")
	n.requireUntouched(n.coupons...)
	n.requireRepaired()
}

func TestWhatDoesNotFinishWithinTheGraceIsRolledBack(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 3)
	for _, c := range []struct {
		verb string
		code int
	}{{"run", 1}, {"schedule", 0}} {
		release := n.lock(n.coupons[1])
		ctx, cancel := context.WithTimeout(t.Context(), hangs)
		cmd := exec.CommandContext(ctx, testenv.Build(t, "./cmd/settle"),
			append([]string{c.verb, "--parallel=1", "--shutdown-grace=1s"}, n.servers...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		n.awaitTurn(n.coupons[1])
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		require.NoError(t, ctx.Err(), "%s hangs", c.verb)
		cancel()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), stderr.String())
		require.Contains(t, stderr.String(), "stopped by a signal")
		require.Contains(t, stderr.String(), "terminated signal received; the open transaction was rolled back")
		if c.verb == "run" {
			require.Contains(t, stderr.String(), "coupon 2: stopped by a signal")
			require.Contains(t, stderr.String(), "of 3 coupons")
			require.Contains(t, stderr.String(), "safe to run again")
		}
		n.requireUntouched(n.coupons[1:]...)
		release()
		n.awaitNobody(n.coupons[1])
	}
	require.Len(t, n.ids("SELECT id FROM settlement_run WHERE status = 'FAILED' AND finished_at IS NOT NULL"), 2)
	n.requireRepaired()
}

func TestAFrozenMySQLDoesNotKeepAProgramThatIsToldToStop(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	n := newNight(newWorldWith(t, testenv.RedisFor(t), *jajeongtest.DatabaseOn(t, server)), 2)
	for verb, code := range map[string]int{"run": 1, "schedule": 0} {
		release := n.lock(n.coupons[1])
		r := n.begin(verb, "--parallel=1", "--shutdown-grace=1s")
		n.awaitTurn(n.coupons[1])
		require.NoError(t, server.Freeze())
		r.stop()
		r.end()
		require.NoError(t, server.Thaw())
		release()
		n.awaitNobody(n.coupons[1])
		require.Equal(t, code, r.code, verb)
		require.Contains(t, r.stderr.String(), "the open transaction was rolled back", verb)
		if verb == "run" {
			require.Contains(t, r.stderr.String(), "of 2 coupons")
			require.Contains(t, r.stderr.String(), "end run", "nobody could write down how it ended")
		}
		n.requireUntouched(n.coupons[1])
	}
	n.requireRepaired()
}

func TestASecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 1)
	release := n.lock(n.coupons[0])
	cmd := exec.Command(testenv.Build(t, "./cmd/settle"), append([]string{"run", "--shutdown-grace=1h"}, n.servers...)...)
	require.NoError(t, cmd.Start())
	n.awaitTurn(n.coupons[0])
	var ended atomic.Bool
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = cmd.Wait()
		ended.Store(true)
	}()
	// Two signals that the program has not looked at yet are one.
	testenv.Eventually(t, hangs, "a further signal ends it", func() bool {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return ended.Load()
	})
	<-waited
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), "exited with %d", status.ExitStatus())
	require.Equal(t, syscall.SIGTERM, status.Signal())
	release()
	n.requireUntouched(n.coupons...)
	n.requireRepaired()
}

// The settlement in hand is finished. The next run settles the rest.
func TestSIGTERMInTheMiddleOfANight(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 2)
	release := n.lock(n.coupons[0]) // the night waits here
	cmd := exec.Command(testenv.Build(t, "./cmd/settle"), append([]string{"schedule", "--parallel=1"}, n.servers...)...)
	cmd.Env = os.Environ()
	logs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	n.awaitTurn(n.coupons[0])
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	lines := bufio.NewScanner(logs)
	for lines.Scan() && !strings.Contains(lines.Text(), `"msg":"stopping"`) {
	}
	release()
	for lines.Scan() { // to its end, as Wait wants it
	}
	require.NoError(t, cmd.Wait())
	require.Equal(t, []coupon.UserID{1, 2}, n.issued(n.coupons[0]), "what was in hand is finished")
	n.requireUntouched(n.coupons[1]) // nothing else was begun
	n.requireRepaired()
}

func TestHowFarItCameDoesNotCountWhatIsInHand(t *testing.T) {
	t.Parallel()
	for _, finishes := range []bool{true, false} {
		t.Run(fmt.Sprint("finishes ", finishes), func(t *testing.T) {
			t.Parallel()
			n := newNight(newWorld(t), 4)
			release := n.lock(n.coupons[1])
			r := n.begin("run", "--parallel=1", "--shutdown-grace=1s")
			n.awaitTurn(n.coupons[1])
			r.stop()
			if finishes {
				release()
			}
			r.end()
			require.Contains(t, r.stderr.String(), "1 of 4 coupons", "only the first is settled")
			require.Equal(t, 1, strings.Count(r.stderr.String(), "safe to run again"), "said once")
		})
	}
}

func TestAScheduleToldToStopSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 3)
	n.lock(n.coupons[1])
	r := n.begin("schedule", "--parallel=1", "--shutdown-grace=1s")
	n.awaitTurn(n.coupons[1])
	r.stop()
	r.end()
	require.Contains(t, r.stderr.String(), "1 of 3 coupons")
}
