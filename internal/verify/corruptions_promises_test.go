package verify_test

import (
	"math"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/verify"
)

// strangers are users of rows that nobody but an attacker has written.
const strangers = 71

// asAPI executes a command with the API's Redis account.
func (c *fixture) asAPI(command string, args ...any) {
	c.T.Helper()
	client, err := c.API.RedisSettings.Open()
	require.NoError(c.T, err)
	defer client.Close()
	require.NoError(c.T, client.Do(c.T.Context(), append([]any{command}, args...)...).Err())
}

// asJob executes a statement with the MySQL account of the settlement. It must change that many rows.
func (c *fixture) asJob(rows int64, query string, args ...any) {
	c.T.Helper()
	db, err := c.Job.MySQLSettings.Open(connect.Patient, zap.NewNop())
	require.NoError(c.T, err)
	defer db.Close()
	done, err := db.ExecContext(c.T.Context(), query, args...)
	require.NoError(c.T, err)
	changed, err := done.RowsAffected()
	require.NoError(c.T, err)
	require.Equal(c.T, rows, changed, query)
}

// byJob is redis with the account of the settlement.
func byJob(want int64, command, kind string, args ...any) func(*fixture) {
	return func(c *fixture) {
		client, err := c.Job.RedisSettings.Open()
		require.NoError(c.T, err)
		defer client.Close()
		job := *c.Deployment
		job.Redis = client
		redis(want, command, kind, args...)(&fixture{Deployment: &job, id: c.id})
	}
}

// setState writes fields of the state with the API's account.
func setState(fields func(c *fixture) []any) func(*fixture) {
	return func(c *fixture) { c.asAPI("HSET", append([]any{c.key("state")}, fields(c)...)...) }
}

// moveBehind moves waiting users behind their arrivals with the API's account.
func moveBehind(users ...uint64) func(*fixture) {
	return func(c *fixture) {
		for _, n := range users {
			c.asAPI("ZADD", c.queue(), "XX", int64(c.arrival(n))+1, c.member(n))
		}
	}
}

// acceptFewer lowers the count of accepted applications with the API's account.
func acceptFewer(n int64) func(*fixture) {
	return setState(func(c *fixture) []any { return []any{"accepted", c.look().Accepted - n} })
}

// setLast writes the last arrival with the API's account.
func setLast(last any) func(*fixture) {
	return setState(func(*fixture) []any { return []any{"last", last} })
}

// setBack sets the start of the epoch, and of the restored one, back by a second.
var setBack = setState(func(c *fixture) []any {
	since := int64(c.look().Since) - 1_000_000
	return []any{"since", since, "restored", since}
})

// emptied removes all who wait, in the way that the API's account has.
func emptied(c *fixture) { c.asAPI("EXPIREAT", c.queue(), 1) }

// tell writes rows of the journal with the job's account.
func tell(at func(c *fixture) time.Time, users ...uint64) func(*fixture) {
	return func(c *fixture) {
		for _, n := range users {
			c.asJob(1, "INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, ?)", c.id,
				at(c).UnixMicro(), c.user(n))
		}
	}
}

// alterBooks changes the coupon's row of table journal or settled with the job's account.
func alterBooks(table, set string) func(*fixture) {
	return func(c *fixture) { c.asJob(1, "UPDATE "+table+" SET "+set+" WHERE coupon_id = ?", c.id) }
}

func journalledUpTo(ahead time.Duration) func(*fixture) {
	return func(c *fixture) {
		c.asJob(1, "UPDATE journal SET up_to = ? WHERE coupon_id = ?", c.Now().Add(ahead).UnixMicro(), c.id)
	}
}

// Nobody arrived at a last arrival that somebody wrote: that is a violation. That of a clock is a warning.
func TestCheckTellsAWrittenLastArrivalFromAClock(t *testing.T) {
	t.Parallel()
	coupons := keep(t, 1)
	ahead := func(c *fixture) time.Time { return c.Now().Add(time.Minute) }
	last := setState(func(c *fixture) []any { return []any{"last", ahead(c).UnixMicro() - 1_000_000} })
	for name, one := range map[string]struct {
		do      func(*fixture)
		warning bool
	}{
		"nobody has it":              {last, false},
		"the journal knows it":       {all(tell(ahead, waiting), last), true},
		"the journal has come there": {all(journalledUpTo(time.Minute), last), true},
		"somebody stands there":      {all(enqueue(ahead, idle+6), last), true},
		"it was settled":             {all(alterSums("settled_up_to = settled_up_to + 3600000000"), last), true},
		"the coupon is finalised":    {all(last, finalise("")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := coupons.coupon(t)
			one.do(c)
			found := c.check().Findings
			i := slices.IndexFunc(found, func(f verify.Finding) bool { return f.Code == verify.ClockAhead })
			require.GreaterOrEqual(t, i, 0, found)
			require.Equal(t, one.warning, found[i].Warning)
		})
	}
}

func window(column string, more time.Duration) func(*fixture) time.Time {
	return func(c *fixture) time.Time {
		at := jajeongtest.Column[time.Time](c.Deployment, "SELECT "+column+" FROM coupon WHERE id = ?", c.id)[0]
		return at.Add(more)
	}
}

// promiseCorruptions are what somebody can do who has the API's account of Redis or the job's accounts, and what the
// journal reveals.
var promiseCorruptions = map[string]corruption{
	// Invariant 4.
	"moved behind their arrivals": {do: moveBehind(waiting + 3), behind: 1},
	"fewer promises in Redis":     {do: acceptFewer(2), gap: -2},
	"lost, the count lowered too": {do: all(byJob(1, "ZREM", "queue", waiting+4), acceptFewer(1)), lost: 1},
	"lost, and counted as what the last restore has left": {
		do:  all(byJob(1, "ZREM", "queue", waiting+4), setState(func(*fixture) []any { return []any{"left", 1} })),
		gap: 1, lost: 1, alone: true},
	"lost, the epoch set back": {do: all(byJob(1, "ZREM", "queue", waiting+5), setBack), gap: 1, lost: 1, alone: true},
	"emptied, the epoch set back": {
		do: all(emptied, setBack), gap: 6, lost: 6, alone: true},
	"emptied, the count and the epoch set back": {
		do: all(emptied, setBack, acceptFewer(6)), gap: 6, lost: 6, alone: true},
	"the epoch set back": {do: setBack, alone: true},
	"lost, and written off by hand": {do: all(byJob(1, "ZREM", "queue", waiting+5),
		alterBooks("settled", "written_off = 3")), gap: -2, lost: 1, unaudited: 1},
	"erased by hand": {do: alterBooks("settled", "erased = 2"), gap: -2, unaudited: 1},
	"the highest sums": {
		do:  alterBooks("settled", "written_off = 9007199254740991, erased = 9007199254740991"),
		gap: -2 * int64(coupon.MaxArrival), unaudited: 2, alone: true},
	"told, but accounted for nowhere":    {do: tell(longAgo, strangers, strangers+1), lost: 2},
	"told before a waiting user applied": {do: tell(longAgo, waiting+1), behind: 1, alone: true},
	"told after an outcome":              {do: tell(now, notSelected+1, notSelected+2), lost: 2},
	"told after a coupon from a run":     {do: tell(now, firstRun)},
	"more promises in the journal":       {do: alterBooks("journal", "accepted = accepted + 3"), alone: true},
	"more promises in the journal than a new server has": {
		do: all(alterBooks("journal", "accepted = accepted + 3"), byJob(1, "HDEL", "state", "restored")), gap: 3,
		alone: true},
	"promises that restores did not find": {do: alterBooks("journal", "unfound = 3"),
		codes: found{verify.PromiseUnknown: 3}},

	// Invariant 5.
	"told before the opening": {do: tell(window("apply_opens_at", -time.Microsecond), strangers+2),
		codes: found{verify.ArrivalWrong: 1}},
	"told at the opening": {do: tell(window("apply_opens_at", 0), firstRun+1)},
	"told at the closing": {do: all(closeRow, tell(window("apply_closes_at", 0), strangers)), lost: 1, alone: true},
	"told ahead of the clock": {do: tell(func(c *fixture) time.Time { return c.Now().Add(time.Minute) }, strangers+3),
		codes: found{verify.ArrivalWrong: 1}},
	"a winner told ahead of the clock": {
		do:    tell(func(c *fixture) time.Time { return c.Now().Add(time.Minute) }, firstRun+2),
		codes: found{verify.ArrivalWrong: 1}},
	"told at no arrival": {
		do: func(c *fixture) {
			c.asJob(3, "INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 0, ?), (?, ?, ?), (?, ?, 0)",
				c.id, c.user(strangers+4), c.id, uint64(math.MaxUint64), uint64(math.MaxUint64), c.id,
				c.arrival(waiting))
		}, codes: found{verify.ArrivalWrong: 3}},
	"the last arrival in 2255": {do: setLast(int64(coupon.MaxArrival)), codes: found{verify.ClockAhead: 1},
		alone: true},
	"the last arrival beyond":      {do: setLast("1e30"), codes: found{verify.ClockAhead: 1}, alone: true},
	"the last arrival without end": {do: setLast("inf"), codes: found{verify.ClockAhead: 1}, alone: true},
	"the last arrival at the end, with an empty queue": {
		do:    all(byJob(1, "UNLINK", "queue"), setLast(int64(coupon.MaxArrival))),
		codes: found{verify.ClockAhead: 1}, gap: 6, lost: 6, alone: true},
	"the journal ahead of every arrival": {do: journalledUpTo(0), codes: found{verify.LineRewound: 1}, alone: true},
	"the journal of another server ahead of every arrival": {
		do: all(journalledUpTo(0), alterBooks("journal", "epoch = 'other:1'")), alone: true},
	"the journal ahead of the clock": {do: journalledUpTo(time.Minute),
		codes: found{verify.LineRewound: 1, verify.ClockAhead: 1}, alone: true},
	"the journal of another server ahead of the clock": {
		do:    all(journalledUpTo(time.Minute), alterBooks("journal", "epoch = 'other:1'")),
		codes: found{verify.LineRewound: 1, verify.ClockAhead: 1}, alone: true},
	"a journal without end": {do: alterBooks("journal", "up_to = 9007199254740991"),
		codes: found{verify.LineRewound: 1, verify.ClockAhead: 1}, alone: true},

	// Invariant 6.
	"a mark with another arrival": {do: byJob(0, "ZADD", "issued", "XX", "1000", 12),
		codes: found{verify.MarkWrong: 1}},
	"a mark by hand with an arrival": {do: byJob(0, "ZADD", "issued", "XX", "1000", byHand),
		codes: found{verify.MarkWrong: 1}},
	"a mark of a run as if by hand": {do: byJob(0, "ZADD", "issued", "XX", "0", 13), codes: found{verify.MarkWrong: 1}},
	"a mark removed":                {do: byJob(1, "ZREM", "issued", 14), codes: found{verify.MarkWrong: 1}},
	"marks removed while a restore is due": {
		do:    all(byJob(1, "UNLINK", "issued"), alterBooks("journal", "asked = 1")),
		alone: true},
	"marks removed while a clean-up is pending": {
		do:    all(byJob(1, "UNLINK", "issued"), alterRecord("cleaned_at = NULL")),
		codes: found{verify.CleanUpToDo: 1}, alone: true},
}

// A finding names 100 users, in order of arrival.
func TestCheckNamesWhoIsLost(t *testing.T) {
	t.Parallel()
	const applicants, lost = 130, 110
	c := newCoupon(t, 5)
	c.addApplicants(applicants)
	c.journal()
	c.requireHealthy()
	pipe := c.Redis.Pipeline()
	for n := uint64(1); n <= lost; n++ {
		pipe.ZRem(t.Context(), c.queue(), c.member(n))
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	v := c.check()
	requireFindings(t, found{verify.PromiseLost: lost}, v)
	require.Equal(t, jajeongtest.Between(c.user(1), c.user(100)), v.Findings[0].Users)

	acceptFewer(lost)(c)
	moveBehind(applicants - 1)(c)
	tell(longAgo, applicants)(c)
	for n := uint64(4); n <= lost; n++ {
		pipe.ZAdd(t.Context(), c.queue(), goredis.Z{Score: float64(c.arrival(n)), Member: c.member(n)})
	}
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
	v = c.check()
	requireFindings(t, found{verify.PromiseLost: 5, verify.Excess: lost - 3}, v)
	require.Equal(t, []coupon.UserID{c.user(1), c.user(2), c.user(3), c.user(applicants), c.user(applicants - 1)},
		v.Findings[0].Users)
}

// Somebody with the API's account of Redis removes everybody, and covers it up. No pod remembers them.
func TestCheckNamesWhomTheAPIsAccountRemoves(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(3)
	c.journal()
	c.PodsDie()
	all(emptied, setBack, acceptFewer(3))(c)
	require.Empty(t, c.Waiting(c.id))
	v := c.check()
	requireFindings(t, found{verify.PromiseLost: 3}, v)
	require.Equal(t, jajeongtest.Between(c.user(1), c.user(3)), v.Findings[0].Users)
}

// Who was forgotten is not in the journal any more, and gaps that an operator has accepted are explained.
func TestCheckOfSumsThatAuditEventsExplain(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 3)
	c.addApplicants(9)
	redis(2, "ZREM", "queue", 3, 4)(c)
	acceptGap(c)
	c.AddPromises(c.id, 1)
	acceptGap(c)
	v := c.requireHealthy()
	require.EqualValues(t, 3, v.Account.WrittenOff)
	alterBooks("settled", "written_off = 2")(c)
	requireFindings(t, found{verify.PromiseLost: 1, verify.SumWrong: 1}, c.check())
}

// Who stands at an earlier arrival than the one that they were told has not lost anything.
func TestCheckAcceptsAnEarlierPlace(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(3)
	c.journal()
	c.add(c.key("dlq"), c.member(2), c.arrival(2).Time().Add(-time.Second)) // and stands in the queue
	c.redis(1, "HSET", c.key("dlq:reason"), c.member(2), "{}")
	moveBehind(2)(c)
	require.NoError(t, c.Redis.ZAdd(t.Context(), c.queue(),
		goredis.Z{Score: float64(c.arrival(3)) - 1e6, Member: c.member(3)}).Err())
	requireFindings(t, found{verify.Excess: 1}, c.check())
}

// Who was rejected is accounted for at every arrival.
func TestCheckAcceptsWhoeverWasRejected(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(2)
	c.setStatus(jajeongtest.Blocked, 1, 1)
	c.journal()
	c.settleNow()
	c.Drop(c.id, c.member(1))
	tell(now, 1)(c)
	c.requireHealthy()
	tell(now, 3)(c)
	requireFindings(t, found{verify.PromiseLost: 1}, c.check())
}
