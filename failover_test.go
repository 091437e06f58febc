package jajeong_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

const lots = 20_000

// Users apply through two pods. The link to the replica breaks, and the master dies with the applications since then. The run
// begins right after the promotion, before one pod notices it. It must issue every acknowledged application before its cutoff,
// in order of first arrivals, and hold no coupon.
func TestFailover_IssuesApplicationsAcknowledgedAfterLinkWasCut(t *testing.T) {
	t.Parallel()
	for round := range testenv.Rounds(2, 50) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			failOver(t)
		})
	}
}

// applicants remember the first arrival in the answers to each user.
type applicants struct {
	mu       sync.Mutex
	arrivals map[coupon.UserID]time.Time

	users, answered atomic.Int64
	stop            chan struct{}
	applying        sync.WaitGroup
}

// start lets users apply through the pods in turn, some of them twice, until stop.
func (c *applicants) start(t *testing.T, couponID coupon.CouponID, pods []*deployment, parallel int) {
	for n := range parallel {
		c.applying.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				user := coupon.UserID(c.users.Add(1))
				c.apply(t, pods[n%len(pods)], couponID, user)
				if user%7 == 0 && user > coupon.UserID(parallel) {
					c.apply(t, pods[(n+1)%len(pods)], couponID, user-coupon.UserID(parallel)) // perhaps after a loss, and by another pod
				}
			}
		})
	}
}

func (c *applicants) apply(t *testing.T, pod *deployment, couponID coupon.CouponID, user coupon.UserID) {
	a := pod.apply(couponID, user)
	if a.Status != "ACCEPTED" && a.Status != "DUPLICATE" {
		return
	}
	c.answered.Add(1)
	at := instant(t, a.AppliedAt)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.arrivals[user]; !ok || at.Before(before) {
		c.arrivals[user] = at
	}
}

func (c *applicants) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.arrivals)
}

func (c *applicants) awaitAnswers(t *testing.T, more int64) {
	t.Helper()
	enough := c.answered.Load() + more
	testenv.Eventually(t, fmt.Sprintf("%d more applications are acknowledged", more), func() bool {
		return c.answered.Load() >= enough
	})
}

func failOver(t *testing.T) {
	const name = "coupons"
	redis := topology.StartPair(t, name, 1500*time.Millisecond)
	d := deploy(t)
	d.env = append(d.env, "REDIS_ADDRS="+redis.Sentinel, "REDIS_MASTER_NAME="+name)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, lots)...)
	couponID := d.AddCoupon(lots)
	pods := []*deployment{d.serve(couponID), d.serve(couponID)}
	c := &applicants{arrivals: map[coupon.UserID]time.Time{}, stop: make(chan struct{})}
	stop := sync.OnceFunc(func() { close(c.stop); c.applying.Wait() })
	t.Cleanup(stop)
	c.start(t, couponID, pods, 8)
	c.awaitAnswers(t, 200)
	redis.Replicated(t)
	redis.Link.Down()
	c.awaitAnswers(t, 100)
	acknowledged := c.count()
	require.NoError(t, pods[0].pod.Process.Signal(syscall.SIGSTOP)) // this pod notices the failover late
	require.NoError(t, redis.Master.Kill())
	redis.Promoted(t)
	time.AfterFunc(2*time.Second, func() { _ = pods[0].pod.Process.Signal(syscall.SIGCONT) })

	var code int
	var stdout, stderr string
	testenv.Eventually(t, "the Sentinel names the new master to the job", func() bool {
		code, stdout, stderr = d.settle(settleNow...)
		return code != 1 // 1 is safe to run again, and a Job does
	})
	require.Zero(t, code, "%s%s", stdout, stderr)
	var run struct{ Run uint64 }
	require.NoError(t, json.Unmarshal([]byte(stdout), &run), stdout)
	var cutoff time.Time
	require.NoError(t, d.DB.QueryRow("SELECT cutoff FROM settlement_run WHERE id = ?", run.Run).Scan(&cutoff))
	stop()
	issued := d.issuedAt(couponID)
	before := 0
	for user, at := range c.arrivals {
		if !at.Before(cutoff) {
			continue
		}
		before++
		applied, holds := issued[user]
		require.True(t, holds, "user %d arrived at %s, before the cutoff %s", user, at, cutoff)
		require.False(t, applied.After(at), "user %d arrived at %s, and is issued for %s", user, at, applied)
	}
	require.GreaterOrEqual(t, before, acknowledged, "the applications acknowledged by the master that died")

	code, stdout, stderr = d.settle(settleNow...)
	require.Zero(t, code, "%s%s", stdout, stderr)
	issued = d.issuedAt(couponID)
	for user := range c.arrivals {
		_, holds := issued[user]
		require.True(t, holds, "user %d", user)
	}
	code, stdout, stderr = d.settle("verify") // order, and no gap
	require.Zero(t, code, "%s%s", stdout, stderr)
}

// issuedAt returns the arrivals of the winners.
func (d *deployment) issuedAt(couponID coupon.CouponID) map[coupon.UserID]time.Time {
	d.T.Helper()
	rows, err := d.DB.Query("SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ?", couponID)
	require.NoError(d.T, err)
	defer rows.Close()
	issued := map[coupon.UserID]time.Time{}
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(d.T, rows.Scan(&user, &at))
		issued[user] = at.UTC()
	}
	require.NoError(d.T, rows.Err())
	return issued
}
