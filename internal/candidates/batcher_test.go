package candidates

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newBatcher(s *Store) *Batcher { return NewBatcher(s, prometheus.NewRegistry(), time.Now) }

// slowly holds every call of the script until the test lets it go.
type slowly struct {
	redis.UniversalClient
	calls chan []any    // the users of each call as it begins
	going chan struct{} // lets one go
	fails atomic.Bool
}

func newSlowly(c *fixture) *slowly {
	s := &slowly{UniversalClient: c.rdb, calls: make(chan []any), going: make(chan struct{})}
	c.Store.rdb = s
	return s
}

func (s *slowly) Process(ctx context.Context, cmd redis.Cmder) error {
	args := cmd.Args()
	s.calls <- args[3+5+5:] // verb, script, number of keys; keys; what the pod has seen and the ttl
	<-s.going
	if s.fails.Load() {
		return errors.New("redis is away")
	}
	return s.UniversalClient.Process(ctx, cmd)
}

// waits says how many wait for the next call.
func (b *Batcher) waits(couponID coupon.CouponID) int {
	c := b.crowd(couponID)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 20*time.Second, time.Millisecond, what)
}

// crowdOf has users apply one after the other, each when the one before waits, and collects what they are told.
type crowdOf struct {
	t       *testing.T
	b       *Batcher
	coupon  coupon.CouponID
	under   sync.WaitGroup
	mu      sync.Mutex
	answers map[uint64]result
}

func (c *crowdOf) apply(user coupon.UserID) {
	c.under.Go(func() {
		receipt, err := c.b.Apply(context.Background(), c.coupon, user)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers[user] = result{receipt, err}
	})
}

func (c *crowdOf) all() map[uint64]result { c.under.Wait(); return c.answers }

func texts(users ...coupon.UserID) (all []any) {
	for _, user := range users {
		all = append(all, strconv.FormatUint(user, 10))
	}
	return all
}

// The first goes at once and alone. Who comes meanwhile goes together, in the order they came.
func TestWhoComesDuringACallGoesTogetherInTheNext(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	line := newSlowly(c)
	crowd := &crowdOf{t: t, b: newBatcher(c.Store), coupon: c.id, answers: map[uint64]result{}}
	const users = maxBatch - 1
	crowd.apply(1)
	require.Equal(t, texts(1), <-line.calls)
	var order []uint64
	for i := range uint64(users) {
		user := 5000 - i // falling ids: it is the coming that orders
		order = append(order, user)
		crowd.apply(user)
		eventually(t, "it waits", func() bool { return crowd.b.waits(c.id) == int(i)+1 })
	}
	line.going <- struct{}{}
	require.Equal(t, texts(order...), <-line.calls)
	line.going <- struct{}{}

	answers := crowd.all()
	require.Equal(t, result{Receipt: Receipt{Code: Accepted, Arrival: µs(noon), Position: 1, Now: noon, OpensAt: answers[1].OpensAt}}, answers[1])
	for i, user := range order {
		require.NoError(t, answers[user].error)
		require.Equal(t, Accepted, answers[user].Code)
		require.Equal(t, µs(noon)+int64(i)+1, answers[user].Arrival)
		require.EqualValues(t, i+2, answers[user].Position)
	}
	require.Equal(t, strconv.Itoa(users+1), c.get(t, "accepted"))
	require.Equal(t, decimal(µs(noon)+users), c.get(t, "last"))
	require.Equal(t, 0, crowd.b.waits(c.id))
}

// Somebody's hand may have put a member where newcomers come to stand, and scores that are no arrivals.
func TestPositionsAmongMembersWrittenByHand(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	first := µs(noon)
	c.stand(t, c.queue, place{decimal(first + 2), "0"}, place{"+inf", "77"}, place{"-5", "78"})
	receipts, err := c.applyAll(t.Context(), c.id, []uint64{11, 12, 13, 14, 15, 77, 78})
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
	receipts, err := c.applyAll(t.Context(), c.id, []uint64{1, 2, 3, 4, 5, 2})
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

// A whole batch does not wait for the call before it, but there are only so many calls at once; and of those who wait then
// there is a bound: the next is told at once, and has not applied.
func TestAStampedeGoesInSeveralCallsAndIsBounded(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	line := newSlowly(c)
	crowd := &crowdOf{t: t, b: newBatcher(c.Store), coupon: c.id, answers: map[uint64]result{}}
	user := uint64(0)
	come := func(n int) {
		for range n {
			user++
			crowd.apply(user)
		}
	}
	come(1)
	taken := len(<-line.calls)
	for call := 1; call < maxCalls; call++ {
		come(maxBatch*call - crowd.b.waits(c.id)) // so many must wait for one more call
		users := <-line.calls
		require.Len(t, users, maxBatch)
		taken += len(users)
		eventually(t, "the others wait", func() bool { return crowd.b.waits(c.id) == int(user)-taken })
	}
	come(maxWaiting - crowd.b.waits(c.id))
	eventually(t, "no more may wait", func() bool { return crowd.b.waits(c.id) == maxWaiting })
	_, err := crowd.b.Apply(t.Context(), c.id, 99999)
	require.ErrorIs(t, err, Crowded)

	calls := maxCalls + maxWaiting/maxBatch
	go func() {
		for range calls - maxCalls {
			<-line.calls
		}
	}()
	for range calls {
		line.going <- struct{}{}
	}
	for user, a := range crowd.all() {
		require.NoError(t, a.error, user)
		require.Equal(t, Accepted, a.Code)
	}
	require.NotContains(t, c.standing(t, c.queue), "99999")
	require.Equal(t, fmt.Sprint(user), c.get(t, "accepted"))
	require.Len(t, c.standing(t, c.queue), int(user))
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
	receipts, err := c.applyAll(t.Context(), c.id, []uint64{9, 2, 3, 8, 4, 9, 5, 7, 8, 18446744073709551615})
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
	receipts, err = c.applyAll(t.Context(), c.id, []uint64{10, 9})
	require.NoError(t, err)
	require.Equal(t, []Code{SoldOut, Duplicate}, []Code{receipts[0].Code, receipts[1].Code})
	c.freeze(w.Closes)
	receipts, err = c.applyAll(t.Context(), c.id, []uint64{10, 9})
	require.NoError(t, err)
	require.Equal(t, []Code{Closed, Closed}, []Code{receipts[0].Code, receipts[1].Code})
}

// Who waited too long is told so, and has not applied; whoever came later goes on.
func TestWhoWaitedTooLongIsNotSent(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	line := newSlowly(c)
	var ahead atomic.Int64
	began := time.Now()
	b := NewBatcher(c.Store, prometheus.NewRegistry(), func() time.Time { return began.Add(time.Duration(ahead.Load())) })
	crowd := &crowdOf{t: t, b: b, coupon: c.id, answers: map[uint64]result{}}
	crowd.apply(1)
	<-line.calls
	crowd.apply(2)
	eventually(t, "it waits", func() bool { return b.waits(c.id) == 1 })
	ahead.Store(int64(patience) + 1)
	crowd.apply(3)
	eventually(t, "it waits", func() bool { return b.waits(c.id) == 2 })
	line.going <- struct{}{}
	require.Equal(t, texts(3), <-line.calls)
	line.going <- struct{}{}
	answers := crowd.all()
	require.ErrorIs(t, answers[2].error, Late)
	require.Equal(t, []Code{Accepted, "", Accepted}, []Code{answers[1].Code, answers[2].Code, answers[3].Code})
	require.NotContains(t, c.standing(t, c.queue), "2")
}

// After some failures Redis is left alone for a moment, for this coupon only; then one call is tried.
func TestAFailingRedisIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	line := newSlowly(c)
	go func() {
		for range line.calls {
			line.going <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(line.calls) })
	registry := prometheus.NewRegistry()
	b := NewBatcher(c.Store, registry, time.Now)
	line.fails.Store(true)
	for range tripAfter {
		_, err := b.Apply(t.Context(), c.id, 7)
		require.ErrorContains(t, err, "redis is away")
	}
	require.Equal(t, gobreaker.StateOpen, b.crowd(c.id).breaker.State())
	gauge := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "jajeong_apply_breakers_open" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	require.InDelta(t, 1, gauge(), 0)
	line.fails.Store(false)
	_, err := b.Apply(t.Context(), c.id, 7)
	require.ErrorIs(t, err, Resting)
	_, err = b.Apply(t.Context(), c.id+1, 7)
	require.NoError(t, err, "another coupon may be on another shard")
	require.Empty(t, c.standing(t, c.queue))
	eventually(t, "it may be asked, though nobody has", func() bool { return gauge() == 0 })
	eventually(t, "it is tried again", func() bool {
		receipt, err := b.Apply(t.Context(), c.id, 7)
		return err == nil && receipt.Code == Accepted
	})
	require.InDelta(t, 0, gauge(), 0)
}

// Whoever gives up does not take back what is on its way.
func TestGivingUpDoesNotTakeBackAnApplication(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	line := newSlowly(c)
	b := newBatcher(c.Store)
	ctx, giveUp := context.WithCancel(t.Context())
	told := make(chan result)
	go func() {
		receipt, err := b.Apply(ctx, c.id, 7)
		told <- result{receipt, err}
	}()
	<-line.calls
	giveUp()
	line.going <- struct{}{}
	first := <-told
	require.NoError(t, first.error)
	require.Equal(t, Accepted, first.Code)
	require.Contains(t, c.standing(t, c.queue), "7")
}

// A bug in one call is the failure of that call: whoever is in it hears of it, and the next goes on.
func TestAPanicInACallIsItsFailure(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	b := newBatcher(c.Store)
	c.on.seen.Store(ptr(func(redis.Cmder) { panic("boom") }))
	_, err := b.Apply(t.Context(), c.id, 7)
	require.ErrorContains(t, err, "boom")
	c.on.seen.Store(nil)
	receipt, err := b.Apply(t.Context(), c.id, 7)
	require.NoError(t, err)
	require.Equal(t, Accepted, receipt.Code)
}

func TestBatchSizesAreCounted(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	b := newBatcher(c.Store)
	for user := range uint64(3) {
		_, err := b.Apply(t.Context(), c.id, user+1)
		require.NoError(t, err)
	}
	require.Equal(t, 1, testutil.CollectAndCount(b.sizes))
	require.NoError(t, testutil.CollectAndCompare(b.sizes, strings.NewReader(`
# HELP jajeong_apply_batch_size Applications in one call of Redis.
# TYPE jajeong_apply_batch_size histogram
jajeong_apply_batch_size_bucket{le="1"} 3
jajeong_apply_batch_size_bucket{le="2"} 3
jajeong_apply_batch_size_bucket{le="5"} 3
jajeong_apply_batch_size_bucket{le="10"} 3
jajeong_apply_batch_size_bucket{le="25"} 3
jajeong_apply_batch_size_bucket{le="50"} 3
jajeong_apply_batch_size_bucket{le="100"} 3
jajeong_apply_batch_size_bucket{le="250"} 3
jajeong_apply_batch_size_bucket{le="+Inf"} 3
jajeong_apply_batch_size_sum 3
jajeong_apply_batch_size_count 3
`)))
}

// A thousand users by several pods, all at once: everybody once, in an order without a gap.
func TestManyAtOnceOnSeveralPods(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.openNow(t)
	pods := []*Batcher{newBatcher(c.Store), newBatcher(newStore(t, c.rdb, c.Store.names.prefix)), newBatcher(newStore(t, c.rdb, c.Store.names.prefix))}
	const users, times = 1000, 3
	var mu sync.Mutex
	accepted, told := map[uint64]Receipt{}, map[uint64][]Receipt{}
	var all sync.WaitGroup
	for i := range uint64(users * times) {
		all.Go(func() {
			user := i%users + 1
			r, err := pods[i%uint64(len(pods))].Apply(context.Background(), c.id, user)
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			told[user] = append(told[user], r)
			if r.Code == Accepted {
				assert.NotContains(t, accepted, user, "accepted once")
				accepted[user] = r
			}
		})
	}
	all.Wait()
	require.Len(t, accepted, users)
	standing := c.standing(t, c.queue)
	byPlace := make([]int64, users+1)
	for user, receipts := range told {
		for _, r := range receipts {
			require.Equal(t, accepted[user].Arrival, r.Arrival)
			require.Equal(t, accepted[user].Position, r.Position)
		}
		require.InDelta(t, standing[fmt.Sprint(user)], float64(accepted[user].Arrival), 0)
		byPlace[accepted[user].Position] = accepted[user].Arrival
	}
	for place := 2; place <= users; place++ {
		require.Greater(t, byPlace[place], byPlace[place-1])
	}
	require.Equal(t, strconv.Itoa(users), c.get(t, "accepted"))
}
