package systemtest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// frozenRun is a `settle run` or `settle restore` by hand that freezes at a step.
type frozenRun struct {
	step    string
	path    []request
	users   coupon.UserID // how many have applied
	closed  bool          // the window is over
	lost    bool          // Redis has lost the line, which the journal has
	restore bool

	id     coupon.CouponID
	cmd    *exec.Cmd
	stop   *stop
	output strings.Builder
	ended  chan error
}

const frozenSeats = 3

// Runs by hand and a restore freeze, each at another step. A nightly run does all of their work: it waits for the
// coupons until the sessions of the frozen have ended, and finds none BUSY. When they go on, they change nothing.
func TestSettle_FrozenRunsLetTheNightlyRunWork(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	lock, committed := toMySQL("FOR UPDATE"), toMySQL(commit)
	seat, outcome := toMySQL("INTO user_coupon (coupon_id"), toMySQL("INTO application_outcome")
	putBack := []request{toMySQL("o.outcome, FALSE"), toRedis, toRedis} // two calls of three
	runs := []*frozenRun{
		{step: "begins", path: []request{toMySQL("START TRANSACTION")}},
		{step: "locks", path: []request{lock}},
		{step: "reads pages", path: []request{lock, toRedis, toRedis, toRedis}, users: 1600},
		{step: "inserts", path: []request{seat}},
		{step: "is to commit", path: []request{toMySQL("INTO settled")}},
		{step: "commits", path: []request{committed}},
		{step: "cleans up", path: []request{committed, toRedis}},
		{step: "closes out", path: []request{outcome}},
		{step: "leaves", path: []request{outcome, committed, toRedis}},
		{step: "finalises", path: []request{toMySQL("UPDATE coupon SET finalised_at")}, closed: true},
		{step: "puts back", path: putBack, users: 400, lost: true},
		{step: "puts back by hand", path: putBack, users: 400, lost: true, restore: true},
	}
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 1600)...)
	for _, r := range runs {
		r.prepare(d)
	}
	d.Refresh()
	d.PodsDie()
	for _, r := range runs {
		if r.lost {
			d.LoseRedis(r.id)
		}
		r.start(d)
	}
	for _, r := range runs {
		r.awaitFreeze(t)
	}

	night := exec.CommandContext(testenv.Patient(t), testenv.Build(t, "./cmd/settle"),
		append([]string{"run"}, d.Flags(d.Job)...)...)
	night.Env = d.Environment()
	output, err := night.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, r := range runs {
		r.requireSettled(d)
	}
	for _, r := range runs {
		r.stop.thaw()
	}
	for _, r := range runs {
		r.requireEnd(t)
	}
	for _, r := range runs {
		r.requireSettled(d)
	}
	// Completes the clean-ups of frozen runs that gave up: their cutoff is later than that of the nightly run.
	d.SettleNow()
	d.Verify()
}

// prepare adds a coupon for which users applied before the last midnight.
func (r *frozenRun) prepare(d *jajeongtest.Deployment) {
	r.users = max(r.users, 2*frozenSeats)
	day, now := 24*time.Hour, d.Now()
	closes := now.Add(time.Hour)
	if r.closed {
		closes = now.Add(-day - time.Hour)
	}
	r.id = d.AddCouponBetween(frozenSeats, now.Add(-2*day), closes)
	first := now.Add(-day - 2*time.Hour).UnixMicro()
	line := make([]redis.Z, r.users)
	for i := range line {
		line[i] = redis.Z{Score: float64(first + int64(i)), Member: i + 1}
	}
	require.NoError(d.T, d.Redis.ZAdd(d.T.Context(), d.Queue(r.id), line...).Err())
	require.NoError(d.T, d.Redis.HSet(d.T.Context(), d.Key("state", r.id), "accepted", len(line), "last",
		first+int64(len(line))-1).Err())
	if r.lost {
		d.Journal(r.id)
	}
}

func (r *frozenRun) start(d *jajeongtest.Deployment) {
	d.T.Helper()
	args := []string{"run", "--cutoff=now", "--yes", "--parallel=1"}
	if r.restore {
		args = []string{"restore"}
	}
	args = append(args, fmt.Sprintf("--coupon=%d", r.id))
	through, s := stopAt(d, r.path...)
	r.cmd = exec.CommandContext(testenv.Patient(d.T), testenv.Build(d.T, "./cmd/settle"),
		append(append(args, "--operator=kim", "--reason=test"), through.Flags(through.Job)...)...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = d.Environment(), &r.output, &r.output
	require.NoError(d.T, r.cmd.Start())
	r.stop, r.ended = s, make(chan error, 1)
	s.arm(d.T, r.cmd.Process)
	go func() { r.ended <- r.cmd.Wait() }()
}

func (r *frozenRun) awaitFreeze(t *testing.T) {
	t.Helper()
	select {
	case <-r.stop.struck:
	case err := <-r.ended:
		t.Fatalf("%s: the process has ended before (%v): %s", r.step, err, &r.output)
	}
}

// requireEnd accepts 1 only if the reply of Redis came too late for the frozen process: it is safe to run it again.
func (r *frozenRun) requireEnd(t *testing.T) {
	t.Helper()
	_ = testenv.Receive(t, r.step+" ends", r.ended) // the state says it all
	code := r.cmd.ProcessState.ExitCode()
	require.True(t, code == 0 || code == 1 && r.path[len(r.path)-1] == toRedis, "%s: %d, %s", r.step, code, &r.output)
}

func (r *frozenRun) requireSettled(d *jajeongtest.Deployment) {
	d.T.Helper()
	require.Equal(d.T, jajeongtest.Between[coupon.UserID](1, frozenSeats), d.Issued(r.id), r.step)
	require.Equal(d.T, jajeongtest.Between(frozenSeats+1, r.users), d.Outcome(r.id, "NOT_SELECTED"), r.step)
	require.Empty(d.T, d.Waiting(r.id), r.step)
	require.Equal(d.T, r.closed, d.Number("SELECT finalised_at IS NOT NULL FROM coupon WHERE id = ?", r.id) == 1,
		r.step)
}
