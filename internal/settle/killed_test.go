package settle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// process is `settle run` as a process of its own, behind proxies.
type process struct {
	proxies []*faultproxy.Proxy
	cmd     *exec.Cmd
	logs    string // a file
	started chan struct{}
}

// start runs the program on a scene. The rule decides about every turn.
func (s *scene) start(parallel int, rule func(*process, faultproxy.Turn) faultproxy.Action) *process {
	s.T.Helper()
	p := &process{logs: filepath.Join(s.T.TempDir(), "stderr"), started: make(chan struct{})}
	logs, err := os.Create(p.logs)
	require.NoError(s.T, err)
	defer logs.Close()
	proxies, proxied := s.Proxied(func(turn faultproxy.Turn) faultproxy.Action { <-p.started; return rule(p, turn) })
	p.proxies = proxies
	p.cmd = exec.CommandContext(testenv.Patient(s.T), testenv.Build(s.T, "./cmd/settle"),
		append([]string{"run", "--cutoff=now", "--operator=kim", "--reason=test",
			"--log-level=debug", fmt.Sprintf("--parallel=%d", parallel)}, proxied.Flags(proxied.Job)...)...)
	p.cmd.Stderr = logs
	require.NoError(s.T, p.cmd.Start())
	close(p.started)
	return p
}

// kill is SIGKILL. No request passes any more.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	for _, proxy := range p.proxies {
		proxy.Down()
	}
}

// wait returns how the process ended.
func (p *process) wait() (code int, killed bool) {
	_ = p.cmd.Wait() // the state says it all
	for _, proxy := range p.proxies {
		proxy.Down() // the end of a connection may still be under way
		proxy.Turns()
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.ExitStatus(), status.Signaled() && status.Signal() == syscall.SIGKILL
}

// step is the last step of a settlement that the process has begun, empty before the first.
func (p *process) step() (last settle.Step) {
	said, _ := os.ReadFile(p.logs) // also asked in a rule, where no test can be failed
	for line := range bytes.Lines(said) {
		var entry struct {
			Msg  string      `json:"msg"`
			Step settle.Step `json:"step"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "step" {
			last = entry.Step
		}
	}
	return last
}

var allSteps = []settle.Step{settle.StepFence, settle.StepLock, settle.StepAccount, settle.StepIssue, settle.StepCount,
	settle.StepRecord, settle.StepCommit, settle.StepCleanUp, settle.StepCloseOut, settle.StepFinish, settle.StepSweep}

// operation is a turn of an undisturbed run.
type operation struct {
	proxy int
	step  settle.Step // the last that had begun
}

// undisturbed runs the program without a fault and returns its operations, in order, and how long it took.
func (s *scene) undisturbed() (operations []operation, took time.Duration) {
	s.T.Helper()
	testenv.Build(s.T, "./cmd/settle") // not part of the time
	began := time.Now()
	code, _ := s.start(1, func(p *process, turn faultproxy.Turn) faultproxy.Action {
		operations = append(operations, operation{turn.Proxy, p.step()})
		return faultproxy.Pass()
	}).wait()
	took = time.Since(began)
	require.Zero(s.T, code)
	s.mustBeSettled()
	return operations, took
}

// blow is the turn of a fault in a run.
type blow struct {
	turn     int
	after    bool // the request is delivered, and its reply is lost
	parallel int  // coupons settled concurrently, with turns in another order
	reruns   int  // concurrent
}

func (b blow) String() string {
	when := "before"
	if b.after {
		when = "after"
	}
	return fmt.Sprintf("%s operation %d, parallel %d, reruns %d", when, b.turn, b.parallel, b.reruns)
}

// earlier is the blow at the turn before, for a run that took fewer turns or was ending.
func (b blow) earlier() blow {
	b.turn = max(1, b.turn-1)
	return b
}

// at is a rule that calls strike at this turn.
func (b blow) at(strike func(*process)) func(*process, faultproxy.Turn) faultproxy.Action {
	return func(p *process, turn faultproxy.Turn) faultproxy.Action {
		switch {
		case turn.Number != b.turn:
			return faultproxy.Pass()
		case b.after:
			return faultproxy.DropReply(func() { strike(p) })
		default:
			return faultproxy.DropRequest(func() { strike(p) })
		}
	}
}

// everyBlow is at each of so many turns, before and after.
func everyBlow(turns, parallel, reruns int) (blows []blow) {
	for turn := range turns {
		for _, after := range []bool{false, true} {
			blows = append(blows, blow{turn + 1, after, parallel, reruns})
		}
	}
	return blows
}

// someBlows hit every step at its first turn, and those from the commit on at their last, too: MySQL rolls back what is
// before. All are before a turn: a process that is killed after one leaves on the servers what it leaves before the
// next.
func someBlows(operations []operation) (blows []blow) {
	turns := map[settle.Step][]int{}
	for i, o := range operations {
		turns[o.step] = append(turns[o.step], i+1)
	}
	for step, of := range turns {
		blows = append(blows, blow{of[0], false, 1, 1})
		if len(of) > 1 && slices.Index(allSteps, step) >= slices.Index(allSteps, settle.StepCommit) {
			blows = append(blows, blow{of[len(of)-1], false, 1, 2})
		}
	}
	return blows
}

// tally counts the faults by step.
type tally struct {
	mu    sync.Mutex
	total int
	steps map[settle.Step]int
}

func (c *tally) count(step settle.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps == nil {
		c.steps = map[settle.Step]int{}
	}
	c.total++
	c.steps[step]++
}

// missed are the steps without a fault.
func (c *tally) missed() []settle.Step {
	return slices.DeleteFunc(slices.Clone(allSteps), func(step settle.Step) bool { return c.steps[step] > 0 })
}

// The next run completes a run that was killed. A settlement frees memory: it needs none of a full Redis.
func TestSettle_NextRunCompletesKilledRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), jajeongtest.NewOnPrivateRedis)
	var turns []operation
	var took time.Duration
	t.Run("undisturbed", func(t *testing.T) {
		s := st.scene(t)
		s.fullRedis()
		turns, took = s.undisturbed()
	})
	var struck, surprised tally
	t.Run("at any operation", func(t *testing.T) { killedAtAnyOperation(t, st, turns, &struck) })
	t.Run("at any moment", func(t *testing.T) { killedAtAnyMoment(t, st, took, &surprised) })
	t.Logf("settle was killed at %d kill points around its %d operations, by step: %v", struck.total, len(turns),
		struck.steps)
	t.Logf("settle was killed at %d moments, by step: %v", surprised.total, surprised.steps)
	require.Empty(t, struck.missed())
}

func killedAtAnyOperation(t *testing.T, st stage, turns []operation, struck *tally) {
	blows := someBlows(turns)
	if testenv.Soaking() {
		blows = append(everyBlow(len(turns), 1, 1), everyBlow(len(turns), 4, 2)...)
	}
	for _, b := range blows {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			d := st.free(t)
			for killed := false; !killed; b = b.earlier() {
				s := newScene(d)
				release := func() {}
				if b.reruns > 1 { // the others have memory
					release = s.fullRedis()
				}
				p := s.start(b.parallel, b.at((*process).kill))
				var code int
				if code, killed = p.wait(); killed {
					require.GreaterOrEqual(t, p.proxies[0].Turns(), b.turn)
					step := p.step()
					// Then turns come as they came undisturbed, and what it logged last may be lost with it.
					if b.parallel == 1 {
						step = turns[b.turn-1].step
					}
					struck.count(step)
				} else {
					require.Contains(t, []int{0, 1}, code)
				}
				s.rerun(b.reruns)
				s.mustBeSettled()
				s.mustCountOnce()
				release()
			}
		})
	}
}

// fullRedis leaves Redis no memory until it is released or the test ends.
func (s *scene) fullRedis() (release func()) {
	s.T.Helper()
	limit := func(bytes string) {
		require.NoError(s.T, s.Redis.ConfigSet(context.Background(), "maxmemory", bytes).Err())
	}
	limit("1")
	release = sync.OnceFunc(func() { limit("0") })
	s.T.Cleanup(release)
	return release
}

// mustCountOnce demands that the records of all runs together count each application that was rejected or moved to the
// DLQ, and once.
func (s *scene) mustCountOnce() {
	s.T.Helper()
	var reviewed, rejected int
	for _, couponID := range s.coupons() {
		reviewed += int(s.Number("SELECT COALESCE(SUM(under_review_count), 0) FROM settlement WHERE coupon_id = ?",
			couponID))
		rejected += int(s.Number("SELECT COALESCE(SUM(ended_count), 0) FROM settlement WHERE coupon_id = ?", couponID))
	}
	require.Equal(s.T, [2]int{undisturbedTotal.UnderReview, undisturbedTotal.Rejected}, [2]int{reviewed, rejected})
}

// killedAtAnyMoment kills runs that take about so long at random moments, until enough of them were killed before
// their end.
func killedAtAnyMoment(t *testing.T, st stage, took time.Duration, struck *tally) {
	chance := testenv.Random(t)
	for n := 0; struck.total < testenv.Rounds(0, 150) && !t.Failed(); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) { // one after another: each measures a run for the next
			s := st.scene(t)
			moment := time.Duration(chance.Int64N(int64(took)))
			t.Logf("killed after %s", moment)
			p := s.start(1+n%4, func(*process, faultproxy.Turn) faultproxy.Action { return faultproxy.Pass() })
			began := time.Now()
			timer := time.AfterFunc(moment, p.kill)
			if _, killed := p.wait(); killed {
				struck.count(p.step())
			} else {
				took = time.Since(began)
			}
			timer.Stop()
			s.rerun(1 + n%2)
			s.mustBeSettled()
			s.mustCountOnce()
		})
	}
}

// rerun runs concurrently. All runs must succeed.
func (s *scene) rerun(times int) {
	s.T.Helper()
	var runs sync.WaitGroup
	for range times {
		runs.Go(func() {
			report, err := s.Settle(jajeongtest.Manual())
			if assert.NoError(s.T, err) {
				assert.Empty(s.T, report.Classes())
			}
		})
	}
	runs.Wait()
	require.False(s.T, s.T.Failed())
}

// A run whose process is killed is RUNNING for a minute, then ABANDONED. The next run records that.
func TestSettle_RecordsAbandonedRun(t *testing.T) {
	t.Parallel()
	s := oneScene(t)
	p := s.start(1, func(p *process, turn faultproxy.Turn) faultproxy.Action {
		if p.step() == settle.StepCleanUp {
			return faultproxy.DropRequest(p.kill)
		}
		return faultproxy.Pass()
	})
	_, killed := p.wait()
	require.True(t, killed)
	read := history.Reader{DB: s.DB}
	runs := func() []history.Run {
		runs, err := read.Runs(t.Context(), history.RunFilter{Limit: 2})
		require.NoError(t, err)
		return runs
	}
	dead := runs()[0]
	require.Equal(t, coupon.RunRunning, dead.Status, "not known yet")
	stored := func() int64 {
		return s.Number("SELECT COUNT(*) FROM settlement_run WHERE id = ? AND status = 'ABANDONED'", dead.ID)
	}
	s.Exec("UPDATE settlement_run SET heartbeat_at = heartbeat_at - INTERVAL ? SECOND WHERE id = ?",
		history.SilentSeconds, dead.ID)
	testenv.Eventually(t, "the run is shown as abandoned",
		func() bool { return runs()[0].Status == coupon.RunAbandoned })
	require.Zero(t, stored(), "reading changes nothing")

	s.SettleNow()
	require.EqualValues(t, 1, stored())
	all := runs()
	require.Equal(t, []coupon.RunStatus{coupon.RunSucceeded, coupon.RunAbandoned},
		[]coupon.RunStatus{all[0].Status, all[1].Status})
	s.mustBeSettled()
	coupons, err := read.RunCoupons(t.Context(), dead.ID)
	require.NoError(t, err)
	require.NotEmpty(t, coupons)
	require.Nil(t, coupons[0].Millis, "not recorded")
}
