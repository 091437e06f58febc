package jajeong_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

const lots = 6_000

// Users apply through two pods. The link to the replica breaks, and the master dies with the applications since then.
// The run begins right after the promotion, before the pods notice it. It must issue every acknowledged application
// before its cutoff, in order of first arrivals, and hold no coupon.
func TestFailover_IssuesApplicationsAcknowledgedAfterLinkWasCut(t *testing.T) {
	t.Parallel()
	for round := range testenv.Rounds(1, 50) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			failOver(t)
		})
	}
}

// applicants apply without end.
type applicants struct {
	*told
	users, answered atomic.Int64
	stop            chan struct{}
	applying        sync.WaitGroup
}

// start lets users apply through the pods in turn, some of them twice, until stop.
func (c *applicants) start(t *testing.T, couponID coupon.CouponID, pods []*deployment, parallel int) {
	apply := func(pod int, user coupon.UserID) {
		if c.apply(t, pods, couponID, pod%len(pods), user) {
			c.answered.Add(1)
		}
	}
	for n := range parallel {
		c.applying.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				case <-time.After(40 * time.Millisecond):
				}
				user := coupon.UserID(c.users.Add(1))
				if user > lots {
					return
				}
				apply(n, user)
				if user%7 == 0 && user > coupon.UserID(parallel) {
					apply(n+1, user-coupon.UserID(parallel)) // perhaps after a loss, and by another pod
				}
			}
		})
	}
}

func (c *applicants) awaitAnswers(t *testing.T, more int64) {
	t.Helper()
	enough := c.answered.Load() + more
	testenv.Eventually(t, fmt.Sprintf("%d more applications are acknowledged", more), func() bool {
		return c.answered.Load() >= enough
	})
}

func failOver(t *testing.T) {
	t.Helper()
	const name = "coupons"
	pair := topology.StartPair(t, name)
	d := deploy(t)
	d.env = append(d.env, "REDIS_ADDRS="+pair.Sentinel, "REDIS_MASTER_NAME="+name)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, lots)...)
	couponID := d.AddCoupon(lots)
	pods := []*deployment{d.serve(couponID), d.serve(couponID)}
	c := &applicants{told: newTold(), stop: make(chan struct{})}
	stop := sync.OnceFunc(func() { close(c.stop); c.applying.Wait() })
	defer stop()
	c.start(t, couponID, pods, 8)
	c.awaitAnswers(t, 200)
	pair.Replicated(t)
	pair.Link.Down()
	c.awaitAnswers(t, 100)
	acknowledged := c.count()
	signal := func(to syscall.Signal) {
		for _, pod := range pods {
			require.NoError(t, pod.pod.Process.Signal(to))
		}
	}
	signal(syscall.SIGSTOP) // the run itself is the first to ask the new master
	defer signal(syscall.SIGCONT)
	require.NoError(t, pair.Master.Kill())
	pair.Promote(t)

	stdout := d.settleBehind(t, func() {
		told := c.inOrder()
		signal(syscall.SIGCONT)
		testenv.Eventually(t, "the pods have handed over whom the new master lacks", func() bool {
			return stand(t, pair.OnReplica, told, d.Queue(couponID), d.Key("returned", couponID))
		})
	})
	var run struct{ Run uint64 }
	require.NoError(t, json.Unmarshal([]byte(stdout), &run), stdout)
	cutoff :=
		coupon.Arrival(
			d.Number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', cutoff) FROM settlement_run WHERE id = ?",
				run.Run))
	stop()
	issued := d.issuedAt(couponID)
	before := 0
	for user, at := range c.arrivals {
		if at >= cutoff {
			continue
		}
		before++
		applied, holds := issued[user]
		require.True(t, holds, "user %d arrived at %d, before the cutoff %d", user, at, cutoff)
		require.LessOrEqual(t, applied, at, "user %d", user)
	}
	require.GreaterOrEqual(t, before, acknowledged, "the applications acknowledged by the master that died")

	code, stdout, stderr := d.settle(settleNow...)
	require.Zero(t, code, "%s%s", stdout, stderr)
	issued = d.issuedAt(couponID)
	for user := range c.arrivals {
		_, holds := issued[user]
		require.True(t, holds, "user %d", user)
	}
	d.verify(0) // order, and no gap
}

// stand reports whether each of these users stands in one of the keys, at this arrival or before.
func stand(t *testing.T, client *redis.Client, told []answered, keys ...string) bool {
	t.Helper()
	for page := range slices.Chunk(told, 500) {
		var members []string
		for _, one := range page {
			members = append(members, one.user.Member())
		}
		stands := make([]bool, len(page))
		for _, key := range keys {
			for i, score := range client.ZMScore(t.Context(), key, members...).Val() {
				stands[i] = stands[i] || score > 0 && coupon.Arrival(score) <= page[i].arrival
			}
		}
		if slices.Contains(stands, false) {
			return false
		}
	}
	return true
}

// settleBehind settles by a process that is stopped where it waits for the pods, until they are done. So the time that
// it would wait for them does not matter. It returns the output of the run.
func (d *deployment) settleBehind(t *testing.T, pods func()) (stdout string) {
	t.Helper()
	handedOver := sync.OnceFunc(pods)
	testenv.Eventually(t, "the settlement succeeds", func() bool {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(testenv.Patient(t), testenv.Build(t, "./cmd/settle"), settleNow...)
		cmd.Env, cmd.Stdout = d.env, &out
		logs, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			fmt.Fprintln(&errs, lines.Text())
			if strings.Contains(lines.Text(), "pods hand over whom it may lack") {
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
				handedOver()
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			}
		}
		_ = cmd.Wait()
		code := cmd.ProcessState.ExitCode()
		require.Contains(t, []int{0, 1}, code, "%s%s", &out, &errs) // 1 is safe to run again, and a Job does
		stdout = out.String()
		return code == 0
	})
	return stdout
}

// issuedAt returns the arrivals of the winners.
func (d *deployment) issuedAt(couponID coupon.CouponID) map[coupon.UserID]coupon.Arrival {
	d.T.Helper()
	rows, err := d.DB.Query("SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ?", couponID)
	require.NoError(d.T, err)
	defer rows.Close()
	issued := map[coupon.UserID]coupon.Arrival{}
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(d.T, rows.Scan(&user, &at))
		issued[user] = coupon.ArrivalAt(at)
	}
	require.NoError(d.T, rows.Err())
	return issued
}
