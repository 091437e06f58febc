package candidates

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// All obstacles exist at first and are removed one by one. A refusal changes nothing.
func TestApplyJudgesObstaclesInOrder(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	ctx := t.Context()
	c.addByHand(t, c.queue, place{"1000001", "7"}, place{"1000000", "6"})
	c.addByHand(t, c.dlq, place{"2000000", "7"})
	c.markIssued(t, "7")
	c.markRejected(t, "7")
	for field, value := range map[string]any{
		"status": "PAUSED", "sold": 1, "last": µs(noon.Add(time.Hour)), "accepted": 5, "line_limit": 1,
		"opens": µs(noon.Add(time.Minute)), "closes": µs(noon), "run_id": c.runID(t), "replid": c.replid(t),
		"since": µs(noon),
	} {
		c.set(t, field, value)
	}
	opens, past := noon.Add(time.Minute), noon.Add(-time.Minute)
	for _, step := range []struct {
		want Receipt
		then func() // removes the obstacle
	}{
		{Receipt{Code: NotOpen, OpensAt: opens}, func() { c.set(t, "opens", µs(past)) }},
		{Receipt{Code: Closed, OpensAt: past}, func() { c.set(t, "closes", µs(opens)) }},
		{Receipt{Code: Paused, OpensAt: past}, func() { c.set(t, "status", "OPEN") }},
		{Receipt{Code: Duplicate, OpensAt: past, Arrival: 1000001, Position: 2},
			func() { c.rdb.ZRem(ctx, c.queue, "7") }},
		{Receipt{Code: UnderReview, OpensAt: past, Arrival: 2000000}, func() { c.rdb.ZRem(ctx, c.dlq, "7") }},
		{Receipt{Code: AlreadyIssued, OpensAt: past}, func() { c.rdb.ZRem(ctx, c.issued, "7") }},
		{Receipt{Code: Rejected, OpensAt: past}, func() { c.rdb.SRem(ctx, c.rejected, "7") }},
		{Receipt{Code: SoldOut, OpensAt: past}, func() { c.set(t, "sold", 0) }},
		{Receipt{Code: LineFull, OpensAt: past, Arrival: 1000000}, func() { c.set(t, "line_limit", 2) }},
		{Receipt{Code: ClockBehind, OpensAt: past}, func() { c.set(t, "last", 0) }},
	} {
		t.Run(string(step.want.Code), func(t *testing.T) {
			step.want.Now = noon
			before := c.content(t)
			require.Equal(t, step.want, c.apply(t, 7))
			require.Equal(t, before, c.content(t), "a refusal changes nothing")
		})
		step.then()
	}
	require.Equal(t, Receipt{Code: Accepted, OpensAt: past, Now: noon, Arrival: µs(noon), Position: 2}, c.apply(t, 7))
	require.Equal(t, "6", c.get(t, "accepted"))
}

func TestApplyTakesUnknownStatusForPaused(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"", "open", "CLOSED", "-"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			if status == "-" {
				require.NoError(t, c.rdb.HDel(t.Context(), c.state, "status").Err())
			} else {
				c.set(t, "status", status)
			}
			require.Equal(t, Paused, c.apply(t, 7).Code)
		})
	}
}

func TestApplyWithoutWindowAnswersNoWindow(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]map[string]any{
		"no state":     {},
		"only a fence": {"last": µs(noon)},
		"only opens":   {"opens": µs(noon), "status": "OPEN"},
		"only closes":  {"closes": µs(noon), "status": "OPEN"},
		"not a number": {"opens": "soon", "closes": µs(noon.Add(time.Hour)), "status": "OPEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon)
			for field, value := range state {
				c.set(t, field, value)
			}
			before := c.content(t)
			require.Equal(t, Receipt{Code: NoWindow, Now: noon}, c.apply(t, 7))
			require.Equal(t, before, c.content(t))
		})
	}
}

func TestApplyIncludesOpeningAndExcludesEnd(t *testing.T) {
	t.Parallel()
	for _, edge := range []struct {
		now  time.Duration // after the opening
		want Code
	}{
		{-time.Microsecond, NotOpen},
		{0, Accepted},
		{time.Hour - time.Microsecond, Accepted},
		{time.Hour, Closed},
	} {
		t.Run(edge.now.String(), func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon.Add(edge.now))
			c.publish(t, coupon.Window{Coupon: c.id, Opens: noon, Closes: noon.Add(time.Hour)})
			receipt := c.apply(t, 7)
			require.Equal(t, edge.want, receipt.Code)
			require.Equal(t, noon, receipt.OpensAt)
			require.Equal(t, noon.Add(edge.now), receipt.Now)
		})
	}
}

func TestArrivalsIncreaseWithinOneMicrosecond(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	for i := range coupon.Arrival(100) {
		// Falling ids: the queue is ordered by arrival, not by member.
		receipt := c.accept(t, coupon.UserID(1000-i))[0]
		require.Equal(t, µs(noon)+i, receipt.Arrival)
		require.Equal(t, int64(i)+1, receipt.Position)
		require.Equal(t, decimal(receipt.Arrival), c.get(t, "last"))
	}
}

// A double holds these 16 digits, but Lua's default format rounds them.
func TestArrivalsAreNotRounded(t *testing.T) {
	t.Parallel()
	for _, now := range []coupon.Arrival{1795143599999999, 1795143600000001, 7999999999999999, 8999999999999997} {
		t.Run(decimal(now), func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(now.Time())
			c.publish(t, coupon.Window{Coupon: c.id, Opens: time.UnixMicro(0), Closes: time.UnixMicro(9e15)})
			for i := range coupon.Arrival(2) {
				receipt := c.accept(t, coupon.UserID(i))[0]
				require.Equal(t, now+i, receipt.Arrival)
				require.Equal(t, now, µs(receipt.Now))
				require.Equal(t, decimal(now+i), c.get(t, "last"))
				require.Equal(t, float64(now+i), c.scores(t, c.queue)[decimal(i)])
				require.Equal(t, now+i, c.apply(t, coupon.UserID(i)).Arrival, "of the duplicate")
			}
			entries, _ := c.page(t, coupon.Cursor{}, (now + 1).Time())
			require.Equal(t, []coupon.Application{entry("0", now, coupon.SourceQueue)}, entries)
		})
	}
}

func TestApplyAnswersClockFarBehindTheLastArrival(t *testing.T) {
	t.Parallel()
	for _, ahead := range []struct {
		last coupon.Arrival // µs ahead of the clock
		want Code
	}{
		{-1, Accepted},
		{0, Accepted},
		{1, Accepted},
		{4999999, Accepted},
		{5000000, Accepted},
		{5000001, ClockBehind},
		{3000e6, ClockBehind},
	} {
		for _, where := range []string{"state", "seen"} {
			t.Run(fmt.Sprint(where, ahead.last), func(t *testing.T) {
				t.Parallel()
				c := newCoupon(t)
				w := c.open(t)
				last := µs(noon) + ahead.last
				if where == "state" {
					c.set(t, "last", last)
				} else {
					c.record().seen = last
				}
				before := c.content(t)
				receipt := c.apply(t, 7)
				require.Equal(t, ahead.want, receipt.Code)
				require.Equal(t, noon, receipt.Now)
				if ahead.want == ClockBehind {
					require.Equal(t, Receipt{Code: ClockBehind, Now: noon, OpensAt: w.Opens}, receipt)
					require.Equal(t, before, c.content(t))
					c.freeze(noon.Add(time.Duration(ahead.last)*time.Microsecond - 5*time.Second))
					receipt = c.apply(t, 7)
					require.Equal(t, Accepted, receipt.Code, "after the clock has caught up")
				}
				require.Equal(t, last+1, receipt.Arrival)
			})
		}
	}
}

// A restore enters the three applications again.
func TestApplyContinuesAboveSeenArrivalsOfAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.record()
	w := c.open(t)
	at := c.accept(t, 1, 2, 3)
	require.NoError(t, c.rdb.Del(t.Context(), c.queue).Err())
	require.NoError(t, c.rdb.Del(t.Context(), c.state).Err())
	other := newStore(t, c.rdb, c.names.prefix)
	_, _, err := other.Publish(t.Context(), w, 0)
	require.NoError(t, err)
	require.False(t, c.rdb.HExists(t.Context(), c.state, "accepted").Val(), "the count is lost")

	c.freeze(noon.Add(-time.Second)) // the clock of the new primary is behind
	receipt := c.accept(t, 4)[0]
	require.Equal(t, at[2].Arrival+1, receipt.Arrival)
}

func TestApplyRenewsTTL(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	c.accept(t, 7)
	want := w.Closes.Add(testTTL).Unix()
	require.Equal(t, want, c.expires(t, c.queue))
	require.Equal(t, want, c.expires(t, c.state))

	// A shortened TTL becomes full again.
	require.NoError(t, c.rdb.Expire(t.Context(), c.queue, 600*time.Second).Err())
	require.NoError(t, c.rdb.Expire(t.Context(), c.state, 600*time.Second).Err())
	c.accept(t, 8)
	require.Equal(t, want, c.expires(t, c.queue))
	require.Equal(t, want, c.expires(t, c.state))
}

func TestApplyAcceptsEveryUserID(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	users := []coupon.UserID{0, 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1,
		math.MaxUint64}
	for i, receipt := range c.accept(t, users...) {
		require.EqualValues(t, i+1, receipt.Position)
	}
	for i, user := range users {
		receipt := c.apply(t, user)
		require.Equal(t, Duplicate, receipt.Code, user)
		require.EqualValues(t, i+1, receipt.Position)
		require.Contains(t, c.scores(t, c.queue), fmt.Sprint(user))
	}
}

// A pod notices another server, and the end of a restore, by any reply, and remembers what it told applicants.
func TestApplyRepliesWithEpochRestoresAndAnswers(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	recorded := c.record()
	reply := func(users ...coupon.UserID) Reply {
		t.Helper()
		c.applyAll(t, users...)
		last := recorded.replies[len(recorded.replies)-1]
		recorded.seen = 0
		return last
	}
	epoch, at := c.observe(t).Epoch, µs(noon)
	require.Equal(t, c.runID(t)+":"+decimal(at), epoch)
	answers := []coupon.Answer{{User: 1, Arrival: at}, {User: 2, Arrival: at + 1}, {User: 3, Arrival: at + 2}}
	require.Equal(t, Reply{epoch, 0, answers}, reply(1, 2, 3), "neighbours")
	c.endRestore(t)
	require.Equal(t, Reply{epoch, 1, []coupon.Answer{{User: 4, Arrival: at + 3}}}, reply(4))
	c.markIssued(t, "10")
	c.markRejected(t, "11")
	c.addByHand(t, c.dlq, place{"5", "12"})
	answers = []coupon.Answer{{User: 2, Arrival: at + 1}, {User: 5, Arrival: at + 4}, {User: 5, Arrival: at + 4}}
	require.Equal(t, Reply{epoch, 1, answers}, reply(10, 2, 11, 5, 12, 5))
	require.Equal(t, Reply{epoch, 1, []coupon.Answer{}}, reply(10, 11, 12), "they were told of no place")

	c.set(t, "run_id", "of the server before")
	require.Equal(t, Reply{c.runID(t) + ":" + decimal(at+1), 1, []coupon.Answer{{User: 1, Arrival: at}}}, reply(1))
	require.Equal(t, "0", c.get(t, "restored"))
	c.set(t, "sold", 1)
	require.Equal(t, Reply{c.runID(t) + ":" + decimal(at+1), 1, []coupon.Answer{}}, reply(6))

	c.freeze(w.Closes)
	require.Equal(t, Reply{"", 1, []coupon.Answer{}}, reply(1), "applying is not possible")
	require.NoError(t, c.rdb.Del(t.Context(), c.state).Err())
	require.Equal(t, Reply{"", 0, []coupon.Answer{}}, reply(1))
}
