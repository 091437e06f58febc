package candidates

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestApplyAccepts(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	require.Equal(t, Receipt{Code: Accepted, Arrival: µs(noon), Position: 1, Now: noon, OpensAt: w.Opens}, c.apply(t, 7))
	require.Equal(t, map[string]float64{"7": float64(µs(noon))}, c.standing(t, c.queue))
	require.Equal(t, "1", c.get(t, "accepted"))
	require.Equal(t, decimal(µs(noon)), c.get(t, "last"))

	later := noon.Add(3 * time.Second)
	c.freeze(later)
	require.Equal(t, Receipt{Code: Accepted, Arrival: µs(later), Position: 2, Now: later, OpensAt: w.Opens}, c.apply(t, 5))
	require.Equal(t, "2", c.get(t, "accepted"))
	require.Equal(t, decimal(µs(later)), c.get(t, "last"))
	require.Equal(t, time.UTC, c.apply(t, 5).Now.Location())
}

func TestApplyByTheRealClock(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.openNow(t)
	before, err := c.Now(t.Context())
	require.NoError(t, err)
	receipt := c.accept(t, 7)[0]
	after, err := c.Now(t.Context())
	require.NoError(t, err)
	require.False(t, receipt.Now.Before(before), "%s is before %s", receipt.Now, before)
	require.False(t, receipt.Now.After(after), "%s is after %s", receipt.Now, after)
	require.Equal(t, µs(receipt.Now), receipt.Arrival)
}

func TestApplyAgainIsADuplicateWithTheFirstArrivalAndItsPlace(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	at := c.accept(t, 7, 8, 9)
	later := noon.Add(time.Minute)
	c.freeze(later)
	before := c.content(t)
	require.Equal(t, Receipt{Code: Duplicate, Arrival: at[2].Arrival, Position: 3, Now: later, OpensAt: w.Opens}, c.apply(t, 9))
	require.Equal(t, before, c.content(t))

	// The place is among those waiting now.
	_, err := c.Remove(t.Context(), c.id, w.Closes, coupon.MarkNone, []coupon.Application{{Member: "7", Arrival: at[0].Arrival}})
	require.NoError(t, err)
	require.EqualValues(t, 2, c.apply(t, 9).Position)
	require.Equal(t, at[2].Arrival, c.apply(t, 9).Arrival)
}

// Every obstacle at once, taken away one after the other: what is left decides, and a refusal changes nothing.
func TestApplyRefusesInThisOrder(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	ctx := t.Context()
	c.stand(t, c.queue, place{"1000001", "7"}, place{"1000000", "6"})
	c.stand(t, c.dlq, place{"2000000", "7"})
	c.add(t, c.issued, "7")
	c.add(t, c.rejected, "7")
	for field, value := range map[string]any{
		"status": "PAUSED", "sold": 1, "last": µs(noon.Add(time.Hour)), "accepted": 5,
		"opens": µs(noon.Add(time.Minute)), "closes": µs(noon), "run_id": c.runID(t), "since": µs(noon), "base": 0, "base_twice": 0,
	} {
		c.set(t, field, value)
	}
	opens, past := noon.Add(time.Minute), noon.Add(-time.Minute)
	for _, step := range []struct {
		want Receipt
		then func() // takes the obstacle away
	}{
		{Receipt{Code: NotOpen, OpensAt: opens}, func() { c.set(t, "opens", µs(past)) }},
		{Receipt{Code: Closed, OpensAt: past}, func() { c.set(t, "closes", µs(opens)) }},
		{Receipt{Code: Paused, OpensAt: past}, func() { c.set(t, "status", "OPEN") }},
		{Receipt{Code: Duplicate, OpensAt: past, Arrival: 1000001, Position: 2}, func() { c.rdb.ZRem(ctx, c.queue, "7") }},
		{Receipt{Code: UnderReview, OpensAt: past, Arrival: 2000000}, func() { c.rdb.ZRem(ctx, c.dlq, "7") }},
		{Receipt{Code: AlreadyIssued, OpensAt: past}, func() { c.rdb.SRem(ctx, c.issued, "7") }},
		{Receipt{Code: Rejected, OpensAt: past}, func() { c.rdb.SRem(ctx, c.rejected, "7") }},
		{Receipt{Code: SoldOut, OpensAt: past}, func() { c.set(t, "sold", 0) }},
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

// Only OPEN is open, whatever else somebody wrote.
func TestApplyWithAStatusNobodyKnows(t *testing.T) {
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

func TestApplyWithoutAWindow(t *testing.T) {
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

// The door opens with its first microsecond and shuts with that of its end.
func TestApplyAtTheEdgesOfTheWindow(t *testing.T) {
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

// A hundred users within one microsecond still stand in a definite order.
func TestArrivalsIncreaseWithinOneMicrosecond(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	for i := range int64(100) {
		// Falling ids: it is the arrival that orders, not the member.
		receipt := c.accept(t, uint64(1000-i))[0]
		require.Equal(t, µs(noon)+i, receipt.Arrival)
		require.Equal(t, i+1, receipt.Position)
		require.Equal(t, decimal(receipt.Arrival), c.get(t, "last"))
	}
}

// 16 digits are what a double just holds, and what a careless format rounds.
func TestArrivalsAreNotRounded(t *testing.T) {
	t.Parallel()
	for _, now := range []int64{1795143599999999, 1795143600000001, 7999999999999999, 8999999999999997} {
		t.Run(decimal(now), func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(time.UnixMicro(now))
			c.publish(t, coupon.Window{Coupon: c.id, Opens: time.UnixMicro(0), Closes: time.UnixMicro(9e15)})
			for i := range int64(2) {
				receipt := c.accept(t, uint64(i))[0]
				require.Equal(t, now+i, receipt.Arrival)
				require.Equal(t, now, µs(receipt.Now))
				require.Equal(t, decimal(now+i), c.get(t, "last"))
				require.Equal(t, float64(now+i), c.standing(t, c.queue)[decimal(i)])
				require.Equal(t, now+i, c.apply(t, uint64(i)).Arrival, "of the duplicate")
			}
			entries, _, err := c.Page(t.Context(), c.id, coupon.Cursor{}, time.UnixMicro(now+1))
			require.NoError(t, err)
			require.Equal(t, []coupon.Application{entry("0", now, coupon.SourceQueue)}, entries)
		})
	}
}

func TestApplyWhenTheLineRunsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []struct {
		last int64 // µs ahead of the clock
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
					c.recorder()[c.id] = Seen{LastArrival: last}
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
					require.Equal(t, Accepted, receipt.Code, "once the clock has caught up")
				}
				require.Equal(t, last+1, receipt.Arrival)
			})
		}
	}
}

// Package recall puts the three applications back.
func TestApplyGoesOnAboveWhatAnEmptiedRedisForgot(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.recorder()
	w := c.open(t)
	at := c.accept(t, 1, 2, 3)
	require.NoError(t, c.rdb.Del(t.Context(), c.queue).Err())
	require.NoError(t, c.rdb.Del(t.Context(), c.state).Err())
	other := newStore(t, c.rdb, c.names.prefix)
	_, _, err := other.Publish(t.Context(), w, coupon.Promise{})
	require.NoError(t, err)
	require.Equal(t, "0", c.get(t, "accepted"), "nothing is left of the promises")

	c.freeze(noon.Add(-time.Second)) // the new primary's clock is behind as well
	receipt := c.accept(t, 4)[0]
	require.Equal(t, at[2].Arrival+1, receipt.Arrival)
}

// What a pod has seen is per coupon.
func TestSeenOfOneCouponDoesNotMoveAnother(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	c.recorder()[c.id] = Seen{LastArrival: µs(noon) + 1000, Accepted: 1000}
	_, _, err := c.Publish(t.Context(), coupon.Window{Coupon: 43, Opens: noon.Add(-time.Hour), Closes: noon.Add(time.Hour)}, coupon.Promise{})
	require.NoError(t, err)
	receipt, err := c.Apply(t.Context(), 43, 7)
	require.NoError(t, err)
	require.Equal(t, µs(noon), receipt.Arrival)
	counts, err := c.Counts(t.Context(), 43, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Accepted)
}

// Somebody's hand may have put a member where newcomers come to stand, and scores that are no arrivals.
func TestPositionsAmongMembersWrittenByHand(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	first := µs(noon)
	c.stand(t, c.queue, place{decimal(first + 2), "0"}, place{"+inf", "77"}, place{"-5", "78"})
	receipts, err := c.ApplyAll(t.Context(), c.id, []uint64{11, 12, 13, 14, 15, 77, 78})
	require.NoError(t, err)
	for i, user := range []uint64{11, 12, 13, 14, 15} {
		rank := c.rdb.ZRank(t.Context(), c.queue, fmt.Sprint(user)).Val()
		require.Equal(t, rank+1, receipts[i].Position, "user %d", user)
	}
	require.EqualValues(t, coupon.MaxArrival, receipts[5].Arrival)
	require.Zero(t, receipts[6].Arrival)
	status, err := c.Status(t.Context(), c.id, 77)
	require.NoError(t, err)
	require.EqualValues(t, coupon.MaxArrival, status.Arrival)
}

// However many come in the last microseconds, no arrival lies at the end or behind it.
func TestNobodyArrivesAtTheEnd(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	c.freeze(w.Closes.Add(-3 * time.Microsecond))
	receipts, err := c.ApplyAll(t.Context(), c.id, []uint64{1, 2, 3, 4, 5, 2})
	require.NoError(t, err)
	var codes []Code
	for _, r := range receipts {
		codes = append(codes, r.Code)
		require.Less(t, r.Arrival, µs(w.Closes))
	}
	require.Equal(t, []Code{Accepted, Accepted, Accepted, Closed, Closed, Duplicate}, codes)
	require.Equal(t, "3", c.get(t, "accepted"))
	require.Equal(t, Closed, c.apply(t, 6).Code)
}

// One script tells everybody what it would have told them one by one, whoever else is in it.
func TestABatchAnswersEachAsAloneWouldBe(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	at := c.accept(t, 1, 2)
	c.stand(t, c.dlq, place{"2000000", "3"})
	c.add(t, c.issued, "4")
	c.add(t, c.rejected, "5")
	later := noon.Add(time.Second)
	c.freeze(later)
	receipts, err := c.ApplyAll(t.Context(), c.id, []uint64{9, 2, 3, 8, 4, 9, 5, 7, 8, 18446744073709551615})
	require.NoError(t, err)
	first := µs(later)
	want := []Receipt{
		{Code: Accepted, Arrival: first, Position: 3},
		{Code: Duplicate, Arrival: at[1].Arrival, Position: 2},
		{Code: UnderReview, Arrival: 2000000},
		{Code: Accepted, Arrival: first + 1, Position: 4},
		{Code: AlreadyIssued},
		{Code: Duplicate, Arrival: first, Position: 3},
		{Code: Rejected},
		{Code: Accepted, Arrival: first + 2, Position: 5},
		{Code: Duplicate, Arrival: first + 1, Position: 4},
		{Code: Accepted, Arrival: first + 3, Position: 6},
	}
	for i := range want {
		want[i].Now, want[i].OpensAt = later, w.Opens
	}
	require.Equal(t, want, receipts)
	require.Equal(t, map[string]float64{
		"1": float64(at[0].Arrival), "2": float64(at[1].Arrival), "9": float64(first), "8": float64(first + 1), "7": float64(first + 2),
		"18446744073709551615": float64(first + 3),
	}, c.standing(t, c.queue))
	require.Equal(t, "6", c.get(t, "accepted"))
	require.Equal(t, decimal(first+3), c.get(t, "last"))

	c.set(t, "sold", 1)
	receipts, err = c.ApplyAll(t.Context(), c.id, []uint64{10, 9})
	require.NoError(t, err)
	require.Equal(t, []Code{SoldOut, Duplicate}, []Code{receipts[0].Code, receipts[1].Code})
	c.freeze(w.Closes)
	receipts, err = c.ApplyAll(t.Context(), c.id, []uint64{10, 9})
	require.NoError(t, err)
	require.Equal(t, []Code{Closed, Closed}, []Code{receipts[0].Code, receipts[1].Code})
}

func TestApplyKeepsTheKeysUntilWellAfterClosing(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	c.accept(t, 7)
	want := w.Closes.Add(testTTL).Unix()
	require.Equal(t, want, c.expires(t, c.queue))
	require.Equal(t, want, c.expires(t, c.state))

	// Even should the keys have been shortened meanwhile.
	require.NoError(t, c.rdb.Expire(t.Context(), c.queue, 600*time.Second).Err())
	require.NoError(t, c.rdb.Expire(t.Context(), c.state, 600*time.Second).Err())
	c.accept(t, 8)
	require.Equal(t, want, c.expires(t, c.queue))
	require.Equal(t, want, c.expires(t, c.state))
}

func TestApplyTakesEveryUserID(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	users := []uint64{0, 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1, math.MaxUint64}
	for i, receipt := range c.accept(t, users...) {
		require.EqualValues(t, i+1, receipt.Position)
	}
	for i, user := range users {
		receipt := c.apply(t, user)
		require.Equal(t, Duplicate, receipt.Code, user)
		require.EqualValues(t, i+1, receipt.Position)
		require.Contains(t, c.standing(t, c.queue), fmt.Sprint(user))
	}
}

func TestManyApplyAtOnceThroughSeveralPods(t *testing.T) {
	t.Parallel()
	const users = 500
	c := newCoupon(t)
	c.openNow(t)
	var pods []*batch.Batcher[Receipt]
	for range 3 {
		pods = append(pods, batch.New(newStore(t, c.rdb, c.names.prefix).ApplyAll, prometheus.NewRegistry(), time.Now))
	}

	var (
		mu       sync.Mutex
		got      = map[Code][]Receipt{}
		arrivals = map[uint64][]int64{}
		all      sync.WaitGroup
		start    = make(chan struct{})
	)
	for user := range uint64(users) {
		for _, pod := range pods {
			all.Go(func() {
				<-start
				receipt, err := pod.Apply(t.Context(), c.id, user)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("user %d: %v", user, err)
				}
				got[receipt.Code] = append(got[receipt.Code], receipt)
				arrivals[user] = append(arrivals[user], receipt.Arrival)
			})
		}
	}
	close(start)
	all.Wait()

	require.Len(t, got, 2)
	require.Len(t, got[Accepted], users)
	require.Len(t, got[Duplicate], users*(len(pods)-1))
	for user, told := range arrivals {
		require.Len(t, slices.Compact(told), 1, "user %d", user)
		require.EqualValues(t, told[0], c.rdb.ZScore(t.Context(), c.queue, fmt.Sprint(user)).Val())
	}
	accepted := got[Accepted]
	slices.SortFunc(accepted, func(a, b Receipt) int { return cmp.Compare(a.Position, b.Position) })
	for i, receipt := range accepted {
		require.EqualValues(t, i+1, receipt.Position)
		if i > 0 {
			require.Greater(t, receipt.Arrival, accepted[i-1].Arrival)
		}
	}
	counts := c.counts(t)
	require.EqualValues(t, users, counts.Accepted)
	require.EqualValues(t, users, counts.Waiting)
	require.Equal(t, accepted[users-1].Arrival, counts.LastArrival)
	require.Equal(t, accepted[users-1].Arrival, counts.Highest)
}

func TestScriptsThatRedisForgotAreSentAgain(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	ctx, closes := t.Context(), time.Now().Add(time.Hour)
	forget := func() { require.NoError(t, c.rdb.ScriptFlush(ctx).Err()) }
	c.openNow(t)
	for user := range uint64(3) {
		forget()
		c.accept(t, user)
	}
	forget()
	entries, _, err := c.Page(ctx, c.id, coupon.Cursor{}, closes)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	for name, call := range map[string]func() error{
		"publish": func() error {
			_, _, err := c.Publish(ctx, coupon.Window{Coupon: c.id, Closes: closes}, coupon.Promise{})
			return err
		},
		"fence":   func() error { _, _, err := c.Fence(ctx, c.id, closes, coupon.Promise{}); return err },
		"renew":   func() error { return c.Renew(ctx, c.id, closes) },
		"figures": func() error { _, err := c.Counts(ctx, c.id, 0); return err },
		"spans":   func() error { _, _, err := c.CountByInterval(ctx, c.id, []int64{0, closes.UnixMicro()}); return err },
		"remove":  func() error { _, err := c.Remove(ctx, c.id, closes, coupon.MarkIssued, entries[:1]); return err },
		"review":  func() error { _, err := c.moveToDLQ(ctx, c.id, []failed{{Application: entries[1]}}); return err },
		"sold":    func() error { return c.SetSold(ctx, c.id, true) },
		"sweep":   func() error { _, err := c.Sweep(ctx, c.id, closes); return err },
	} {
		forget()
		require.NoError(t, call(), name)
	}
	require.Equal(t, Counts{Waiting: 1, DLQ: 1, WaitingAfter: 1, DLQAfter: 1, Issued: 1, Accepted: 3, Sold: true, LastArrival: entries[2].Arrival, Highest: entries[2].Arrival},
		withoutClock(c.counts(t)))
}

func withoutClock(f Counts) Counts {
	f.Now, f.Since, f.PutBackWait, f.MaxPutBackWait = time.Time{}, 0, 0, 0
	return f
}

func TestNothingIsAcceptedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	c.openNow(t)
	c.accept(t, 1)
	before := c.content(t)
	require.NoError(t, c.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	receipt, err := c.Apply(t.Context(), c.id, 2)
	require.ErrorContains(t, err, "OOM")
	require.Zero(t, receipt)
	require.Equal(t, Duplicate, c.apply(t, 1).Code, "who stands in line still hears so")
	require.NoError(t, c.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Equal(t, before, c.content(t))

	require.EqualValues(t, 2, c.accept(t, 2)[0].Position)
	require.Equal(t, "2", c.get(t, "accepted"))
}

// A key of another type in the way is an error, not half an application.
func TestApplyOverAKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*fixture) string{
		"queue":    func(c *fixture) string { return c.queue },
		"state":    func(c *fixture) string { return c.state },
		"issued":   func(c *fixture) string { return c.issued },
		"rejected": func(c *fixture) string { return c.rejected },
		"dlq":      func(c *fixture) string { return c.dlq },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			require.NoError(t, c.rdb.Set(t.Context(), key(c), "in the way", 0).Err())
			before := c.content(t)
			_, err := c.Apply(t.Context(), c.id, 7)
			require.ErrorContains(t, err, "WRONGTYPE")
			require.Equal(t, before, c.content(t))
		})
	}
}

func TestApplyRefusesAnswersItDoesNotKnow(t *testing.T) {
	t.Parallel()
	h := testenv.RedisFor(t)
	c := couponOn(t, h.Client, h.Prefix, 42)
	c.recorder()
	good := []any{int64(4), int64(5), int64(3), int64(6), "run:1", "ACCEPTED", int64(1), int64(2)}
	c.on.answer.Store(ptr(any(good)))
	require.Equal(t, Receipt{Code: Accepted, Arrival: 1, Position: 2, Now: time.UnixMicro(4).UTC(), OpensAt: time.UnixMicro(5).UTC()}, c.apply(t, 7))

	but := func(place int, value any) []any {
		bad := slices.Clone(good)
		bad[place] = value
		return bad
	}
	for name, answer := range map[string]any{
		"nothing":        nil,
		"an empty list":  []any{},
		"one word":       "ACCEPTED",
		"a number":       int64(1),
		"unknown code":   but(5, "WELCOME"),
		"lower case":     but(5, "accepted"),
		"no code":        but(5, nil),
		"code no text":   but(5, int64(0)),
		"nobody":         good[:5],
		"too few":        good[:7],
		"too many":       append(slices.Clone(good), int64(6)),
		"two users":      append(slices.Clone(good), good[5:]...),
		"now text":       but(0, "4"),
		"opens nil":      but(1, nil),
		"arrival text":   but(6, "1"),
		"position nil":   but(7, nil),
		"accepted float": but(2, 3.0),
		"no epoch":       but(4, nil),
	} {
		t.Run(name, func(t *testing.T) {
			c.on.answer.Store(ptr(answer))
			receipt, err := c.Apply(t.Context(), c.id, 7)
			require.ErrorContains(t, err, "apply for coupon 42")
			require.Zero(t, receipt)
		})
	}
	require.Equal(t, Seen{LastArrival: 1, Epoch: "run:1", Accepted: 3, Twice: 6}, c.Recorder.Seen(c.id), "nothing is learnt from an invalid answer")
}

func TestOtherOperationsRefuseAnswersTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	h := testenv.RedisFor(t)
	c := couponOn(t, h.Client, h.Prefix, 42)
	ctx := t.Context()
	entry := coupon.Application{Member: "7", Arrival: 1}
	calls := map[string]func() error{
		"page":    func() error { _, _, err := c.Page(ctx, c.id, coupon.Cursor{}, noon); return err },
		"publish": func() error { _, _, err := c.Publish(ctx, coupon.Window{Coupon: c.id}, coupon.Promise{}); return err },
		"fence":   func() error { _, _, err := c.Fence(ctx, c.id, noon, coupon.Promise{}); return err },
		"renew":   func() error { return c.Renew(ctx, c.id, noon) },
		"figures": func() error { _, err := c.Counts(ctx, c.id, 0); return err },
		"remove": func() error {
			_, err := c.Remove(ctx, c.id, noon, coupon.MarkNone, []coupon.Application{entry})
			return err
		},
		"review": func() error { _, err := c.moveToDLQ(ctx, c.id, []failed{{Application: entry}}); return err },
		"sold":   func() error { return c.SetSold(ctx, c.id, true) },
		"sweep":  func() error { _, err := c.Sweep(ctx, c.id, noon); return err },
	}
	for name, answer := range map[string]any{
		"nothing":       nil,
		"an empty list": []any{},
		"a word":        "OK",
		"a fraction":    []any{1.5},
		"a long list":   slices.Repeat([]any{int64(1)}, 20),
	} {
		c.on.answer.Store(ptr(answer))
		for call, run := range calls {
			require.ErrorContains(t, run(), "coupon 42", "%s answering %s", call, name)
		}
	}
	for name, answer := range map[string][]any{
		"half an entry":       {"1", "7", "0", "Q", []any{"7"}},
		"an entry too many":   {"1", "7", "0", "Q", []any{"7", "1", "8", "2"}},
		"no arrival":          {"1", "7", "0", "Q", []any{"7", ""}},
		"not a number":        {"1", "7", "0", "Q", []any{"7", "one"}},
		"unknown source":      {"1", "7", "0", "X", []any{"7", "1"}},
		"no source":           {"1", "7", "0", "", []any{"7", "1"}},
		"two sources":         {"1", "7", "0", "QR", []any{"7", "1"}},
		"arrival as int":      {"1", "7", "0", "Q", []any{"7", int64(1)}},
		"no cursor":           {"0", "Q", []any{"7", "1"}},
		"member missing":      {"1", "7", "0", "Q", []any{nil, "1"}},
		"entries are no list": {"1", "7", "0", "Q", "7"},
		"more is a number":    {"1", "7", int64(0), "Q", []any{"7", "1"}},
	} {
		c.on.answer.Store(ptr(any(answer)))
		require.Error(t, calls["page"](), name)
	}
}

func ptr[T any](v T) *T { return &v }

func TestApplyStopsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Apply(ctx, c.id, 7)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, c.standing(t, c.queue))
}
