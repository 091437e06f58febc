package candidates

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// served is a coupon with one application on a server of the test's own, which was compared with the journal.
func served(t *testing.T, rdb *redis.Client) (c *fixture, before coupon.Look) {
	t.Helper()
	c = couponOn(t, rdb, "", 42)
	c.openNow(t)
	c.accept(t, 1)
	c.endRestore(t)
	return c, c.observe(t)
}

// requireNew checks that every script tells another epoch, which was not compared with the journal.
func requireNew(t *testing.T, c *fixture, before coupon.Look) (now coupon.Look) {
	t.Helper()
	require.Empty(t, c.observe(t).Epoch)
	_, cursor := c.page(t, coupon.Cursor{}, forever)
	require.Empty(t, cursor.Epoch, "the server is new to the coupon")
	w, err := c.Watch(t.Context(), c.id, 0, 9)
	require.NoError(t, err)
	require.Zero(t, w.Since)
	entered, err := c.Enter(t.Context(), c.id, before.Epoch, []Entry{entryOf(9, 9)})
	require.NoError(t, err)
	require.Equal(t, Entered{}, entered)

	now = c.look(t, coupon.Known{})
	require.NotEqual(t, before.Epoch, now.Epoch)
	require.Equal(t, c.runID(t)+":"+decimal(now.Since), now.Epoch)
	require.False(t, now.Restored)
	require.Zero(t, now.Left)
	require.LessOrEqual(t, now.RestoresIn, HandOverTime)
	require.Positive(t, now.RestoresIn)
	requireEpoch(t, c, now)
	return now
}

// requireEpoch checks that every script tells the epoch of a look, without beginning another.
func requireEpoch(t *testing.T, c *fixture, want coupon.Look) {
	t.Helper()
	require.Equal(t, want.Epoch, c.observe(t).Epoch)
	require.Equal(t, want.Epoch, c.look(t, coupon.Known{}).Epoch)
	_, cursor := c.page(t, coupon.Cursor{}, forever)
	require.Equal(t, want.Epoch, cursor.Epoch)
	w, err := c.Watch(t.Context(), c.id, 0, 9)
	require.NoError(t, err)
	require.Equal(t, want.Since, w.Since)
	require.Equal(t, want.Restored, w.Restored)
	recorded := c.record()
	c.applyAll(t, 1)
	window := coupon.Window{Coupon: c.id, Opens: want.Opens.Time(), Closes: want.Closes.Time()}
	now, _, err := c.Publish(t.Context(), window, 0)
	require.NoError(t, err)
	require.Equal(t, want.Since, now.Since)
	require.Equal(t, want.Restored, now.Restored)
	for _, reply := range recorded.replies {
		require.Equal(t, want.Epoch, reply.Epoch)
	}
	require.Len(t, recorded.replies, 2)
	epoch, _, err := c.HandOver(t.Context(), c.id, "", false, nil)
	require.NoError(t, err)
	require.Equal(t, want.Epoch, epoch)
	entered, err := c.Enter(t.Context(), c.id, "", nil)
	require.NoError(t, err)
	require.Equal(t, want.Epoch, entered.Epoch)
}

func TestEpoch_GoesOnWhileOneServerServes(t *testing.T) {
	t.Parallel()
	c, before := served(t, newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()))
	require.True(t, before.Restored)
	requireEpoch(t, c, before)
}

func TestEpoch_BeginsWithARestart(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	c, before := served(t, newClient(t, server.Addr()))
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart(testenv.Patient(t)))
	now := requireNew(t, c, before)
	require.Greater(t, now.Since, before.Since)
	require.Equal(t, []int64{1, 1, 1}, []int64{now.Accepted, now.Waiting, now.Restores}, "nothing else is lost")
}

func TestEpoch_BeginsWithTheLossOfTheState(t *testing.T) {
	t.Parallel()
	c, before := served(t, newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()))
	w := coupon.Window{Coupon: c.id, Version: 1, Opens: before.Opens.Time(), Closes: before.Closes.Time()}
	require.NoError(t, c.rdb.FlushAll(t.Context()).Err())
	require.Equal(t, coupon.Line{}, c.observe(t).Line)
	require.Equal(t, NoWindow, c.apply(t, 1).Code, "the catalog publishes the window again")
	c.requireExists(t, false, c.state)
	now, published, err := c.Publish(t.Context(), w, 0)
	require.NoError(t, err)
	require.True(t, published)
	require.False(t, now.Restored, "the window is open")
	require.Greater(t, now.Since, before.Since)
	require.Equal(t, c.runID(t)+":"+decimal(now.Since), now.Epoch)
	requireEpoch(t, c, c.observe(t))
}

// The server makes its replication id known to replicas when the first one comes. Its data are the same.
func TestEpoch_GoesOnWhenTheFirstReplicaComes(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	c, before := served(t, newClient(t, server.Addr()))
	old := c.replid(t)
	require.Equal(t, old, c.get(t, "replid"))
	replica := newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr())
	follow(t, replica, server.Addr())
	require.NotEqual(t, old, c.replid(t))
	require.Equal(t, strings.Repeat("0", 40), infoOf(t, c.rdb, "Replication", "master_replid2"))

	require.Equal(t, before.Epoch, c.observe(t).Epoch)
	require.Equal(t, old, c.get(t, "replid"), "a script that only reads leaves it")
	require.Equal(t, before.Line, c.look(t, coupon.Known{}).Line)
	require.Equal(t, c.replid(t), c.get(t, "replid"))
	requireEpoch(t, c, before)

	// The replica has the state of its master, and is a server of its own.
	testenv.Eventually(t, "the replica has caught up", func() bool {
		return c.rdb.(*redis.Client).Wait(t.Context(), 1, time.Second).Val() == 1
	})
	onReplica := couponOn(t, replica, "", 42)
	require.Empty(t, onReplica.observe(t).Epoch)
	require.NoError(t, replica.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	now := requireNew(t, onReplica, before)
	require.EqualValues(t, 1, now.Waiting)
}

func follow(t *testing.T, replica *redis.Client, addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NoError(t, replica.Do(t.Context(), "REPLICAOF", host, port).Err())
	testenv.Eventually(t, "the replica follows", func() bool {
		return infoOf(t, replica, "Replication", "master_link_status") == "up"
	})
}

// Before the opening there is nobody to restore. But a pod that is late to notice a promotion may accept somebody on
// the former server.
func TestEpoch_IsBornRestoredBeforeTheOpening(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr())
	born := func(id coupon.CouponID, opens time.Duration) bool {
		t.Helper()
		c := couponOn(t, rdb, "", id)
		now, err := c.Now(t.Context())
		require.NoError(t, err)
		c.publish(t, coupon.Window{Coupon: id, Version: 1, Opens: now.Add(opens), Closes: now.Add(time.Hour)})
		return c.observe(t).Restored
	}
	require.True(t, born(1, 5*time.Second))
	require.False(t, born(2, -time.Second))
	require.NoError(t, rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	require.NoError(t, rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	require.False(t, born(3, 5*time.Second))
	require.True(t, born(4, 30*time.Second))
}

// A server that was demoted may have lost what it had accepted alone, and its run_id stays.
func TestEpoch_BeginsWithAServerThatIsPromotedAgain(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]bool{"as a replica of another master": true, "at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
			other := testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
			c, before := served(t, newClient(t, server.Addr()))
			runID := c.runID(t)
			if meanwhile {
				onOther := newClient(t, other.Addr())
				follow(t, onOther, server.Addr())
				require.NoError(t, onOther.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
				c.accept(t, 2) // the other server does not have it
				follow(t, c.rdb.(*redis.Client), other.Addr())
			} else {
				require.NoError(t, c.rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
			}
			require.NoError(t, c.rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
			require.Equal(t, runID, c.runID(t))
			now := requireNew(t, c, before)
			require.EqualValues(t, 1, now.Waiting)
			require.Greater(t, now.Since, before.Since)
		})
	}
}

// Whatever somebody has written into the state, an epoch is new or another, and its restore begins in time.
func TestEpoch_BeginsWithAStateOfAnotherHand(t *testing.T) {
	t.Parallel()
	since, later := µs(noon), noon.Add(time.Second)
	for name, fields := range map[string]map[string]any{
		"the run_id of another server":     {"run_id": strings.Repeat("a", 40)},
		"part of the run_id":               {"run_id": "short"},
		"no run_id in it":                  {"run_id": ""},
		"since far in the future":          {"since": since + 3600e6, "restored": since + 3600e6},
		"since above all arrivals":         {"since": "9e300", "restored": "9e300"},
		"since a little ahead":             {"since": since + 6000001, "restored": since + 6000001},
		"since endless":                    {"since": "inf", "restored": "inf"},
		"since no number":                  {"since": "nan", "restored": "nan"},
		"since a word":                     {"since": "noon"},
		"since with a fraction":            {"since": "12.5", "restored": "12.5"},
		"since in another form":            {"since": "0x10", "restored": 16},
		"since zero, which means unknown":  {"since": 0, "restored": 0},
		"since below zero":                 {"since": -5, "restored": -5},
		"only the fields of a fresh state": {"run_id": "x", "since": "", "restored": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			c.accept(t, 1)
			c.endRestore(t)
			c.set(t, "left", 4)
			before := c.observe(t)
			for field, value := range fields {
				c.set(t, field, value)
			}
			if name == "part of the run_id" {
				c.set(t, "run_id", c.runID(t)[:20])
			}
			c.freeze(later)
			now := requireNew(t, c, before)
			require.Equal(t, µs(later), now.Since)
			require.Equal(t, "0", c.get(t, "left"))
			c.endRestore(t)
			now.Restored, now.Restores = true, 2
			now.Returned = c.observe(t).Returned
			require.Equal(t, now.Line, c.observe(t).Line, "the restore of this epoch has ended")
		})
	}
}

// Nobody can write a state that passes for the one before: pods compare the text of the epoch.
func TestEpoch_IsAnotherWhenItsStartWasSetBack(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	c.accept(t, 1)
	c.endRestore(t)
	before := c.observe(t)
	for _, field := range []string{"since", "restored"} {
		c.set(t, field, µs(noon.Add(-time.Second)))
	}
	require.Equal(t, c.runID(t)+":"+decimal(µs(noon.Add(-time.Second))), c.look(t, coupon.Known{}).Epoch)
	require.NotEqual(t, before.Epoch, c.observe(t).Epoch)
	c.set(t, "since", µs(noon))
	now := c.look(t, coupon.Known{})
	require.Equal(t, before.Epoch, now.Epoch)
	require.False(t, now.Restored, "it was not compared, by its own words")
}

// Clocks of two servers differ by up to five seconds. An epoch begins after the one before all the same.
func TestEpoch_BeginsAfterTheOneBefore(t *testing.T) {
	t.Parallel()
	for _, behind := range []time.Duration{0, time.Microsecond, 5 * time.Second} {
		t.Run(fmt.Sprint(behind), func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			c.set(t, "run_id", "of the server before")
			c.freeze(noon.Add(-behind))
			require.Equal(t, µs(noon)+1, c.look(t, coupon.Known{}).Since)
		})
	}
	c := newCoupon(t)
	c.open(t)
	c.set(t, "run_id", "of the server before")
	c.freeze(noon.Add(time.Second))
	require.Equal(t, µs(noon.Add(time.Second)), c.look(t, coupon.Known{}).Since)
}

// A state that came without a TTL gets one, and the TTL of any other stays.
func TestEpoch_GivesTheStateATTL(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	for _, ttl := range []time.Duration{0, time.Hour} {
		c.set(t, "run_id", "of the server before")
		if ttl == 0 {
			require.NoError(t, c.rdb.Persist(t.Context(), c.state).Err())
			c.look(t, coupon.Known{})
			require.Equal(t, noon.Add(testTTL).Unix(), c.expires(t, c.state))
			continue
		}
		require.NoError(t, c.rdb.Expire(t.Context(), c.state, ttl).Err())
		c.look(t, coupon.Known{})
		requireLives(t, c, ttl)
	}
}
