package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
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

// night is a world in which users 1, 2 and 3 applied for two seats of each coupon before the last midnight.
type night struct {
	*world
	midnight time.Time
	coupons  []coupon.CouponID
}

func newNight(w *world, coupons int) *night {
	n := &night{world: w, midnight: calendar.DefaultCutoff(w.Now(), w.atNoon())}
	midnight := n.midnight
	w.AddUsers(1, 2, 3)
	for range coupons {
		couponID := w.AddCouponBetween(2, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
		for i, member := range []string{"1", "2", "3"} {
			w.ApplyAt(couponID, member, midnight.Add(time.Duration(i-5)*time.Minute))
		}
		n.coupons = append(n.coupons, couponID)
	}
	return n
}

// requireUntouched requires that the coupons are not settled.
func (n *night) requireUntouched(coupons ...coupon.CouponID) {
	n.T.Helper()
	for _, couponID := range coupons {
		require.Empty(n.T, n.Issued(couponID), "coupon %d", couponID)
		require.Equal(n.T, []string{"1", "2", "3"}, n.Waiting(couponID), "coupon %d", couponID)
	}
}

// requireRepaired requires that one more run settles the rest.
func (n *night) requireRepaired() {
	n.T.Helper()
	succeeds(n.T)(n.settle("run"))
	for _, couponID := range n.coupons {
		require.Equal(n.T, []coupon.UserID{1, 2}, n.Issued(couponID))
		require.Equal(n.T, []coupon.UserID{3}, n.Outcome(couponID, "NOT_SELECTED"))
		require.Empty(n.T, n.Waiting(couponID))
	}
	n.verify()
}

// awaitTurn waits until a session waits for the row of the coupon, which the test has locked.
func (w *world) awaitTurn(couponID coupon.CouponID) {
	w.T.Helper()
	testenv.Eventually(w.T, "a session waits for the coupon", func() bool { return w.turns(couponID) > 0 })
}

// awaitNobody waits until no session waits, including sessions that an ended process has left at the server.
func (w *world) awaitNobody(couponID coupon.CouponID) {
	w.T.Helper()
	testenv.Eventually(w.T, "no session waits for the coupon", func() bool { return w.turns(couponID) == 0 })
}

func (w *world) turns(couponID coupon.CouponID) int {
	w.T.Helper()
	lock := fmt.Sprintf("WHERE c.id = %d FOR UPDATE", couponID)
	return testenv.Sessions(w.T, w.DB, func(s testenv.Session) bool {
		return s.Command == "Query" && strings.HasSuffix(s.Statement, lock)
	})
}

// running is the program in this process. When stop returns, the program has received the signal.
type running struct {
	t              testing.TB
	cancel         context.CancelCauseFunc
	ended          chan struct{}
	code           int
	stdout, stderr outputSoFar
}

// outputSoFar can be read while the program runs.
type outputSoFar struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (o *outputSoFar) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.Write(p)
}

func (o *outputSoFar) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.String()
}

func (w *world) begin(args ...string) *running { return w.beginWithin(Grace, args...) }

// beginWithin begins a verb that has so long to end after stop.
func (w *world) beginWithin(grace time.Duration, args ...string) *running {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{t: w.T, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.code = Run(ctx, Process{Args: append(args, w.servers...), Stdin: strings.NewReader(""), Stdout: &r.stdout,
			Stderr:  &r.stderr,
			Version: "test", Now: time.Now, Grace: grace})
	}()
	return r
}

func (r *running) stop() { r.cancel(errors.New("terminated signal received")) }

func (r *running) end() {
	r.t.Helper()
	testenv.Receive(r.t, "the program ends", r.ended)
}

func TestRun_StoppedFinishesOpenTransaction(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 3)
	release := n.Lock(n.coupons[1])
	r := n.begin("run", "--parallel=1")
	n.awaitTurn(n.coupons[1]) // the first is settled, the second one is open
	r.stop()
	release()
	r.end()
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr.String(), "stopped by a signal: terminated signal received")
	require.Contains(t, r.stderr.String(), "1 of 3 coupons")
	require.Contains(t, r.stderr.String(), "coupon 2: ")
	require.Equal(t, 1, strings.Count(r.stderr.String(), "safe to run again"))

	require.Equal(t, []coupon.UserID{3}, n.Outcome(n.coupons[0], "NOT_SELECTED"))
	require.Equal(t, []coupon.UserID{1, 2}, n.Issued(n.coupons[1]), "by the open transaction")
	require.Empty(t, n.Outcome(n.coupons[1], "NOT_SELECTED"), "the next transaction was not begun")
	n.requireUntouched(n.coupons[2:]...)
	require.Len(t, n.IDs("SELECT id FROM settlement_run WHERE status = 'FAILED' AND finished_at IS NOT NULL"), 1)
	n.requireRepaired()
}

func TestStop_RollsBackAfterGrace(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 3)
	for _, c := range []struct {
		verb string
		code int
	}{{"run", 1}, {"serve", 0}} {
		release := n.Lock(n.coupons[1])
		r := n.beginWithin(time.Second, c.verb, "--parallel=1")
		n.awaitTurn(n.coupons[1])
		r.stop()
		r.end()
		require.Equal(t, c.code, r.code, r.stderr.String())
		require.Contains(t, r.stderr.String(), "stopped by a signal")
		require.Contains(t, r.stderr.String(), "terminated signal received; the open transaction was rolled back")
		require.Contains(t, r.stderr.String(), "1 of 3 coupons")
		if c.verb == "run" {
			require.Contains(t, r.stderr.String(), "coupon 2: stopped by a signal")
			require.Equal(t, 1, strings.Count(r.stderr.String(), "safe to run again"))
		}
		n.requireUntouched(n.coupons[1:]...)
		release()
		n.awaitNobody(n.coupons[1])
	}
	require.Len(t, n.IDs("SELECT id FROM settlement_run WHERE status = 'FAILED' AND finished_at IS NOT NULL"), 2)
	n.requireRepaired()
}

func TestStop_DespiteFrozenMySQL(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	n := newNight(newWorldWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)}), 2)
	for verb, code := range map[string]int{"run": 1, "serve": 0} {
		release := n.Lock(n.coupons[1])
		r := n.beginWithin(time.Second, verb, "--parallel=1")
		n.awaitTurn(n.coupons[1])
		require.NoError(t, server.Freeze())
		r.stop()
		r.end()
		require.NoError(t, server.Thaw())
		release()
		n.awaitNobody(n.coupons[1])
		require.Equal(t, code, r.code, verb)
		require.Contains(t, r.stderr.String(), "the open transaction was rolled back", verb)
		require.NotContains(t, r.stderr.String(), "i/o timeout", "it did not wait for the timeout of reads from MySQL")
		if verb == "run" {
			require.Contains(t, r.stderr.String(), "of 2 coupons")
			require.Contains(t, r.stderr.String(), "end run", "the end of the run could not be recorded")
		}
		n.requireUntouched(n.coupons[1])
	}
	n.requireRepaired()
}

func TestStop_SecondSignalEndsProcess(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 1)
	release := n.Lock(n.coupons[0])
	cmd := exec.Command(testenv.Build(t, "./cmd/settle"), append([]string{"run"}, n.servers...)...)
	require.NoError(t, cmd.Start())
	n.awaitTurn(n.coupons[0])
	var ended atomic.Bool
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = cmd.Wait()
		ended.Store(true)
	}()
	// Two signals before the program reads the first count as one.
	testenv.Eventually(t, "a further signal ends it", func() bool {
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

func TestServe_SIGTERMFinishesOpenSettlement(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 2)
	release := n.Lock(n.coupons[0]) // the run waits here
	cmd := exec.Command(testenv.Build(t, "./cmd/settle"), append([]string{"serve", "--parallel=1"}, n.servers...)...)
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
	for lines.Scan() { // to its end, as Wait requires
	}
	require.NoError(t, cmd.Wait())
	require.Equal(t, []coupon.UserID{1, 2}, n.Issued(n.coupons[0]), "the open settlement is finished")
	n.requireUntouched(n.coupons[1])
	n.requireRepaired()
}
