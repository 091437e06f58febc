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

// A crowd applies through two pods. The link to the replica breaks, and the master dies with the applications since then. The
// run begins right after the promotion, before one pod notices it. It must issue every acknowledged application before its
// cutoff, in order of first arrivals, and hold no coupon.
func TestAFailoverWithTheLinkCutIsSettledRight(t *testing.T) {
	t.Parallel()
	for round := range testenv.Rounds(2, 50) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			failOver(t)
		})
	}
}

// applicants are a crowd that notes the first arrival each was told.
type applicants struct {
	mu   sync.Mutex
	told map[coupon.UserID]time.Time

	users, answered atomic.Int64
	home            chan struct{}
	asking          sync.WaitGroup
}

// come lets so many at once apply through the pods in turn, and now and then again.
func (c *applicants) come(t *testing.T, couponID coupon.CouponID, pods []*deployment, atOnce int) {
	for n := range atOnce {
		c.asking.Go(func() {
			for {
				select {
				case <-c.home:
					return
				case <-time.After(5 * time.Millisecond):
				}
				user := coupon.UserID(c.users.Add(1))
				c.ask(t, pods[n%len(pods)], couponID, user)
				if user%7 == 0 && user > coupon.UserID(atOnce) {
					c.ask(t, pods[(n+1)%len(pods)], couponID, user-coupon.UserID(atOnce)) // perhaps lost meanwhile, and by another pod
				}
			}
		})
	}
}

func (c *applicants) ask(t *testing.T, pod *deployment, couponID coupon.CouponID, user coupon.UserID) {
	a := pod.apply(couponID, user)
	if a.Status != "ACCEPTED" && a.Status != "DUPLICATE" {
		return
	}
	c.answered.Add(1)
	at := instant(t, a.AppliedAt)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.told[user]; !ok || at.Before(before) {
		c.told[user] = at
	}
}

func (c *applicants) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.told)
}

func (c *applicants) hear(t *testing.T, more int64) {
	t.Helper()
	enough := c.answered.Load() + more
	testenv.Eventually(t, 60*time.Second, fmt.Sprintf("%d more are told that they stand", more), func() bool { return c.answered.Load() >= enough })
}

func failOver(t *testing.T) {
	const name = "coupons"
	redis := topology.StartPair(t, name, 500*time.Millisecond)
	d := deploy(t)
	d.env = append(d.env, "REDIS_ADDRS="+redis.Sentinel, "REDIS_MASTER_NAME="+name)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, lots)...)
	couponID := d.AddCoupon(lots)
	pods := []*deployment{d.serve(couponID), d.serve(couponID)}
	c := &applicants{told: map[coupon.UserID]time.Time{}, home: make(chan struct{})}
	goHome := sync.OnceFunc(func() { close(c.home); c.asking.Wait() })
	t.Cleanup(goHome)
	c.come(t, couponID, pods, 8)
	c.hear(t, 200)
	redis.Replicated(t)
	redis.Link.Down()
	c.hear(t, 100)
	told := c.count()
	require.NoError(t, pods[0].pod.Signal(syscall.SIGSTOP)) // it is slow to hear of it
	require.NoError(t, redis.Master.Kill())
	redis.Promoted(t)
	time.AfterFunc(2*time.Second, func() { _ = pods[0].pod.Signal(syscall.SIGCONT) })

	var code int
	var stdout, stderr string
	testenv.Eventually(t, 60*time.Second, "the Sentinel names the new master to the job", func() bool {
		code, stdout, stderr = d.settle(settleNow...)
		return code != 1 // it is safe to run again, and a Job does
	})
	require.Zero(t, code, "%s%s", stdout, stderr)
	var run struct{ Run uint64 }
	require.NoError(t, json.Unmarshal([]byte(stdout), &run), stdout)
	var cutoff time.Time
	require.NoError(t, d.DB.QueryRow("SELECT cutoff FROM settlement_run WHERE id = ?", run.Run).Scan(&cutoff))
	goHome()
	issued := d.issuedAt(couponID)
	before := 0
	for user, at := range c.told {
		if !at.Before(cutoff) {
			continue
		}
		before++
		applied, holds := issued[user]
		require.True(t, holds, "user %d was told %s, before the cutoff %s", user, at, cutoff)
		require.False(t, applied.After(at), "user %d was told %s, and is issued for %s", user, at, applied)
	}
	require.GreaterOrEqual(t, before, told, "all who were told by the master that died")

	code, stdout, stderr = d.settle(settleNow...)
	require.Zero(t, code, "%s%s", stdout, stderr)
	issued = d.issuedAt(couponID)
	for user := range c.told {
		_, holds := issued[user]
		require.True(t, holds, "user %d", user)
	}
	code, stdout, stderr = d.settle("verify") // order, and no gap
	require.Zero(t, code, "%s%s", stdout, stderr)
}

func (d *deployment) issuedAt(couponID coupon.CouponID) map[coupon.UserID]time.Time {
	d.t.Helper()
	rows, err := d.DB.Query("SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ?", couponID)
	require.NoError(d.t, err)
	defer rows.Close()
	issued := map[coupon.UserID]time.Time{}
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(d.t, rows.Scan(&user, &at))
		issued[user] = at.UTC()
	}
	require.NoError(d.t, rows.Err())
	return issued
}
