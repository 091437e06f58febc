package systemtest

import (
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Events between settlements: changes of users, of coupons and of Redis.

func (m *machine) statusChanges(t *rapid.T) {
	id := m.someUser(t)
	status := rapid.SampledFrom([]string{active, "BLOCKED", "WITHDRAWN", ""}).Draw(t, "status")
	t.Logf("the status of %s is %q now", m.name(id), status)
	m.RemoveUser(id)
	if status != "" {
		m.AddUsers(id)
		m.SetStatus(status, id)
	}
	m.users[id] = user{status, m.users[id].rowRefused}
}

func (m *machine) rowsAreRefused(t *rapid.T) {
	id := m.someUser(t)
	m.refuseRow(t, id, !m.users[id].rowRefused)
}

// refuseRow has MySQL refuse the rows of a user, or accept them again.
func (m *machine) refuseRow(t *rapid.T, id coupon.UserID, refused bool) {
	is := m.users[id]
	if is.rowRefused == refused {
		return
	}
	t.Logf("MySQL refuses the rows of %s: %t", m.name(id), refused)
	if refused {
		m.Exec("INSERT INTO odd_user (id) VALUES (?)", id)
	} else {
		m.Exec("DELETE FROM odd_user WHERE id = ?", id)
	}
	is.rowRefused = refused
	m.users[id] = is
}

// rowNearsLimit sets the count of a refused row so that the next refusal is the last that a run may cause.
func (m *machine) rowNearsLimit(t *rapid.T) {
	c := m.someCoupon(t)
	for _, a := range c.byArrival() {
		is := c.applications[a]
		if is.place != retryable || is.cause != "BAD_ROW" {
			continue
		}
		t.Logf("the next refusal of the row of %s for %s is the last", m.name(a.user), c.name)
		why := m.Reason(c.id, a.user.Member())
		why.Refused = maxRefusals - 1
		encoded, err := json.Marshal(why)
		require.NoError(m.T, err)
		require.NoError(m.T, m.Redis.HSet(m.T.Context(), m.Key("dlq:reason", c.id), a.user.Member(), encoded).Err())
		is.refused = why.Refused
		c.applications[a] = is
		return
	}
}

func (m *machine) seatsChange(t *rapid.T) {
	c := m.someCoupon(t)
	m.addSeats(t, c, rapid.IntRange(-2, maxSeats).Draw(t, "more seats"))
}

func (m *machine) addSeats(t *rapid.T, c *couponModel, more int) {
	more = max(more, c.issuedCount()-c.seats, 1-c.seats) // issued seats remain
	t.Logf("%s gets %d more seats", c.name, more)
	c.seats += more
	change := m.change(m.admin.SetSeats(m.T.Context(), c.id, c.seats))
	if change.Changed && c.free() > 0 && c.anyNotSelected() {
		c.finalised = false // so that a run issues them
	}
}

func (m *machine) change(change *couponadmin.Change, err error) *couponadmin.Change {
	m.T.Helper()
	require.NoError(m.T, err)
	require.NoError(m.T, change.PublishErr)
	return change
}

func (m *machine) couponIsGivenByHand(t *rapid.T) {
	c, user := m.someCoupon(t), m.someUser(t)
	if c.free() <= 0 || c.holds(user) {
		return
	}
	t.Logf("%s is given %s by hand", m.name(user), c.name)
	c.byHand[user] = c.issuedCount() + 1
	m.InsertGranted(c.id, user)
	m.Exec("UPDATE user_coupon SET position = ? WHERE coupon_id = ? AND user_id = ?", c.byHand[user], c.id, user)
	m.Exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", c.id)
}

// clockStepsBack is a failover to a Redis whose clock is behind: arrivals continue from the highest one, ahead of the
// clock.
func (m *machine) clockStepsBack(t *rapid.T) {
	c := m.someCoupon(t)
	// One is over immediately and the other lasts, so that the result does not depend on the speed of the test.
	ahead := rapid.SampledFrom([]time.Duration{time.Millisecond, 4 * time.Second}).Draw(t, "ahead")
	if c.finalised {
		return
	}
	t.Logf("arrivals of %s are %s ahead of the clock", c.name, ahead)
	last, err := m.Redis.HGet(m.T.Context(), m.Key("state", c.id), "last").Int64()
	if err != redis.Nil {
		require.NoError(m.T, err)
	}
	last = max(last, m.Now().Add(ahead).UnixMicro())
	require.NoError(m.T, m.Redis.HSet(m.T.Context(), m.Key("state", c.id), "last", last).Err())
	m.refresh()
	c.highest = max(c.highest, coupon.Arrival(last))
}

func (m *machine) couponCloses(t *rapid.T) {
	c := m.someCoupon(t)
	if c.closed || rapid.IntRange(0, 3).Draw(t, "close") < 3 { // seldom, because nobody can apply afterwards
		return
	}
	t.Logf("%s closes", c.name)
	change := m.change(m.admin.Close(m.T.Context(), c.id))
	c.closesAt, c.closed = coupon.ArrivalAt(change.After.ClosesAt), true
	// The end is behind the last arrival, which may be ahead of the clock. Applications are answered CLOSED from the
	// end on.
	testenv.Eventually(m.T, "the clock has reached the end",
		func() bool { return !m.Now().Before(change.After.ClosesAt) })
}

// refresh refreshes the catalog of the living pod. The journal looks young, however slow the machine is: the pod would
// note the count of accepted applications, and a restored backup would miss some of them.
func (m *machine) refresh() {
	m.T.Helper()
	m.Exec("UPDATE journal SET written_at = UTC_TIMESTAMP(6)")
	require.NoError(m.T, m.RefreshOf(m.pod))
}

func (m *machine) keys(c *couponModel) []string {
	keys := []string{m.Queue(c.id)}
	for _, kind := range []string{"state", "issued", "rejected", "dlq", "dlq:reason"} {
		keys = append(keys, m.Key(kind, c.id))
	}
	return keys
}

func (m *machine) redisIsBackedUp(t *rapid.T) {
	c := m.someCoupon(t)
	t.Logf("the Redis of %s is backed up", c.name)
	c.dumps = map[string]string{}
	for _, key := range m.keys(c) {
		dump, err := m.Redis.Dump(m.T.Context(), key).Result()
		if err == redis.Nil {
			continue
		}
		require.NoError(m.T, err)
		c.dumps[key] = dump
	}
	c.backup = new(*c)
	c.backup.state = c.clone()
}

// redisLosesCoupon deletes the queue or all keys of a coupon. New pods do not remember the lost applications, and the
// counts in MySQL show the gap.
func (m *machine) redisLosesCoupon(t *rapid.T) {
	c := m.someCoupon(t)
	onlyQueue := rapid.Bool().Draw(t, "only the queue")
	if c.finalised {
		return
	}
	keys := m.keys(c)
	if onlyQueue {
		t.Logf("Redis loses the queue of %s", c.name)
		keys = keys[:1]
		for a, is := range c.applications {
			if is.place == waiting {
				c.loseFromRedis(a, is)
			}
		}
	} else {
		t.Logf("Redis loses all keys of %s", c.name)
		c.loseRedis()
		c.soldOut = c.issuedCount() > 0 && c.free() <= 0 // published by the pod
	}
	m.replaceKeys(keys, nil)
	m.restore(c)
}

// restore does what the server of the journal does after a loss. Tests of losses have runs that come before it.
func (m *machine) restore(c *couponModel) {
	m.refresh()
	var journal []applicationKey // of applications that moved from NOT_SELECTED to the DLQ: nothing copies a line
	m.eachRow(func(scan func(...any) error) error {
		var a applicationKey
		err := scan(&a.user, &a.arrival)
		journal = append(journal, a)
		return err
	}, "SELECT user_id, arrival FROM line_journal WHERE coupon_id = ?", c.id)
	require.NoError(m.T, m.journal.RestoreCoupon(m.T.Context(), c.id))
	c.restore(journal)
}

func (m *machine) redisIsRestored(t *rapid.T) {
	c := m.someCoupon(t)
	if c.backup == nil || c.finalised {
		return
	}
	t.Logf("the Redis of %s is restored", c.name)
	m.replaceKeys(m.keys(c), c.dumps)
	// As a server that was restarted.
	require.NoError(m.T, m.Redis.HDel(m.T.Context(), m.Key("state", c.id), "run_id").Err())
	c.restoreRedis()
	m.restore(c)
	c.removeMarked()
}

// replaceKeys replaces keys by dumps while no pod lives that remembers them.
func (m *machine) replaceKeys(keys []string, dumps map[string]string) {
	m.refresh()
	m.startPod()
	require.NoError(m.T, m.Redis.Del(m.T.Context(), keys...).Err())
	for key, dump := range dumps {
		require.NoError(m.T, m.Redis.RestoreReplace(m.T.Context(), key, 0, dump).Err())
	}
}
