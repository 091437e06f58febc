package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

// What happens around settlements: to users, to coupons, and to Redis.

func (m *machine) statusChanges(t *rapid.T) {
	user := m.someUser(t)
	status := rapid.SampledFrom([]string{active, "BLOCKED", "WITHDRAWN", ""}).Draw(t, "status")
	t.Logf("%s is %q now", m.name(user), status)
	if status == "" {
		m.forget(user)
		m.users[user] = person{"", m.users[user].odd}
		return
	}
	m.forget(user)
	m.world.users(user)
	m.setStanding(status, user)
	m.users[user] = person{status, m.users[user].odd}
}

func (m *machine) databaseRefusesAUser(t *rapid.T) {
	user := m.someUser(t)
	m.refuse(t, user, !m.users[user].odd)
}

func (m *machine) refuse(t *rapid.T, user coupon.UserID, odd bool) {
	who := m.users[user]
	if who.odd == odd {
		return
	}
	if who.odd = odd; who.odd {
		t.Logf("the database refuses the rows of %s", m.name(user))
		m.exec("INSERT INTO odd_user (id) VALUES (?)", user)
	} else {
		t.Logf("the database takes the rows of %s again", m.name(user))
		m.exec("DELETE FROM odd_user WHERE id = ?", user)
	}
	m.users[user] = who
}

// rowIsRefusedOften: so many runs have tried the row of somebody under review that the next is the last by itself.
func (m *machine) rowIsRefusedOften(t *rapid.T) {
	c := m.someCoupon(t)
	for _, a := range c.byArrival() {
		is := c.line[a]
		if is.stands != retryable || is.cause != "BAD_ROW" {
			continue
		}
		t.Logf("the row of %s for %s was refused so often that the next time is the last", m.name(a.user), c.name)
		member := fmt.Sprint(a.user)
		why := m.reason(c.id, member)
		why.Refused = mostRefusals - 1
		text, err := json.Marshal(why)
		require.NoError(m.t, err)
		require.NoError(m.t, m.rdb.HSet(m.t.Context(), "dlq:reason:{"+m.queue(c.id)+"}", member, text).Err())
		is.refused = why.Refused
		c.line[a] = is
		return
	}
}

func (m *machine) seatsAreAddedOrTaken(t *rapid.T) {
	c := m.someCoupon(t)
	m.changeSeats(t, c, rapid.IntRange(-2, maxSeats).Draw(t, "more seats"))
}

func (m *machine) changeSeats(t *rapid.T, c *modelCoupon, more int) {
	more = max(more, c.issuedCount()-c.seats, 1-c.seats) // what is given stays given
	t.Logf("%s gets %d more seats", c.name, more)
	c.seats += more
	made, err := m.couponAdmin().SetSeats(m.t.Context(), c.id, c.seats)
	require.NoError(m.t, err)
	require.NoError(m.t, made.PublishErr)
	if made.Changed && c.free() > 0 && c.anyNotSelected() {
		c.finalised = false // so that a run gives them the seats
	}
}

func (m *machine) couponIsGivenByHand(t *rapid.T) {
	c, user := m.someCoupon(t), m.someUser(t)
	if c.free() <= 0 || c.holds(user) {
		return
	}
	t.Logf("%s is given %s by hand", m.name(user), c.name)
	c.byHand[user] = c.issuedCount() + 1
	m.exec("INSERT INTO user_coupon (coupon_id, user_id, position) VALUES (?, ?, ?)", c.id, user, c.byHand[user])
	m.exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", c.id)
}

// clockStepsBack is a failover to a Redis whose clock lags behind: the line goes on above what was given, ahead of the
// clock, and who arrives meanwhile is settled when the clock is there.
func (m *machine) clockStepsBack(t *rapid.T) {
	c := m.someCoupon(t)
	// So little that it is over at once, or so much that it lasts: what happens must not depend on how fast the test is.
	ahead := rapid.SampledFrom([]time.Duration{time.Millisecond, 4 * time.Second}).Draw(t, "ahead")
	if c.finalised {
		return
	}
	t.Logf("the line of %s is %s ahead of the clock", c.name, ahead)
	ctx, state := m.t.Context(), "state:{"+m.queue(c.id)+"}"
	last, err := m.rdb.HGet(ctx, state, "last").Int64()
	if err != redis.Nil {
		require.NoError(m.t, err)
	}
	last = max(last, m.now().Add(ahead).UnixMicro())
	require.NoError(m.t, m.rdb.HSet(ctx, state, "last", last).Err())
	m.refreshes() // the pod remembers what was given, for a Redis that forgets it
	c.highest = max(c.highest, coupon.Arrival(last))
}

func (m *machine) doorShuts(t *rapid.T) {
	c := m.someCoupon(t)
	if c.closed || rapid.IntRange(0, 3).Draw(t, "shuts") < 3 { // rarely: nobody can apply any more
		return
	}
	t.Logf("the door of %s shuts", c.name)
	made, err := m.couponAdmin().Close(m.t.Context(), c.id)
	require.NoError(m.t, err)
	require.NoError(m.t, made.PublishErr)
	c.closesAt, c.closed = coupon.ArrivalAt(made.After.ClosesAt), true
	// Behind a line that runs ahead of the clock the end does too: nobody is let in, but until then not answered CLOSED.
	testenv.Eventually(m.t, 20*time.Second, "the clock has reached the end", func() bool { return !m.now().Before(made.After.ClosesAt) })
}

// desk is where people change coupons.
func (w *world) couponAdmin() *couponadmin.Admin {
	admin, err := couponadmin.New(couponadmin.Config{DB: mysqltx.New(w.db), Clock: w.store, Windows: w.store, Now: time.Now,
		Operator: "park", Reason: "TICKET-9"})
	require.NoError(w.t, err)
	return admin
}

// refreshes is what the pod that lives does every five seconds.
func (m *machine) refreshes() {
	m.t.Helper()
	require.NoError(m.t, m.pod.Refresh(m.t.Context()))
}

// keys are everything that Redis has of a coupon.
func (m *machine) keys(c *modelCoupon) []string {
	queue := m.queue(c.id)
	keys := []string{queue}
	for _, kind := range []string{"state", "issued", "rejected", "dlq", "dlq:reason"} {
		keys = append(keys, kind+":{"+queue+"}")
	}
	return keys
}

func (m *machine) redisIsBackedUp(t *rapid.T) {
	c := m.someCoupon(t)
	t.Logf("the Redis of %s is backed up", c.name)
	c.dumps = map[string]string{}
	for _, key := range m.keys(c) {
		dump, err := m.rdb.Dump(m.t.Context(), key).Result()
		if err == redis.Nil {
			continue
		}
		require.NoError(m.t, err)
		c.dumps[key] = dump
	}
	c.backup = new(c.clone())
}

// redisLosesACoupon: what MySQL has heard is not lost with it, and makes the gap. No pod is left that knows who was lost.
func (m *machine) redisLosesACoupon(t *rapid.T) {
	c := m.someCoupon(t)
	onlyQueue := rapid.Bool().Draw(t, "only the queue")
	if c.finalised {
		return
	}
	keys := m.keys(c)
	if onlyQueue {
		t.Logf("Redis loses the queue of %s", c.name)
		keys = keys[:1]
		for a, is := range c.line {
			if is.stands == waiting {
				c.vanish(a, is)
			}
		}
	} else {
		t.Logf("Redis loses everything of %s", c.name)
		c.forget()
		c.soldOut = c.issuedCount() > 0 && c.free() <= 0 // as the pod says to a door that knows nothing
	}
	m.refreshes()
	m.podsDie()
	m.pod = m.catalog()
	require.NoError(m.t, m.rdb.Del(m.t.Context(), keys...).Err())
	m.refreshes()
}

func (m *machine) redisFallsBack(t *rapid.T) {
	c := m.someCoupon(t)
	if c.backup == nil || c.finalised {
		return
	}
	t.Logf("the Redis of %s falls back to its backup", c.name)
	m.refreshes()
	m.podsDie()
	m.pod = m.catalog()
	require.NoError(m.t, m.rdb.Del(m.t.Context(), m.keys(c)...).Err())
	for key, dump := range c.dumps {
		require.NoError(m.t, m.rdb.RestoreReplace(m.t.Context(), key, 0, dump).Err())
	}
	require.NoError(m.t, m.rdb.HDel(m.t.Context(), "state:{"+m.queue(c.id)+"}", "run_id").Err()) // it is read by a server that starts
	m.refreshes()
	c.restore()
}
