package candidates

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) {
	logging.Disable() // of servers that tests kill
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := testenv.StopShared(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// testTTL is the TTL that the documents promise.
const testTTL = 168 * time.Hour

// noon is the instant of a frozen clock by default. It lies in the future, since Redis deletes a key whose expiry is in
// the past, and its µs have 16 digits, as many as can occur.
var noon = time.Date(2199, 11, 20, 3, 0, 0, 123457000, time.UTC)

// fixture is a coupon on a real Redis, with the names of its keys.
type fixture struct {
	*Store
	id  coupon.CouponID
	rdb redis.UniversalClient
	on  *wire

	queue, state, issued, rejected, dlq, reason string
}

// testingT are the methods of both *testing.T and *rapid.T.
type testingT interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// newCoupon is a coupon of the test's own.
func newCoupon(t *testing.T) *fixture {
	t.Helper()
	h := testenv.RedisFor(t)
	return couponOn(t, h.Client, h.Prefix, 42)
}

// privateCoupon is a coupon on a Redis of the test's own.
func privateCoupon(t *testing.T) *fixture {
	t.Helper()
	return couponOn(t, newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()), "", 42)
}

func couponOn(t testingT, rdb redis.UniversalClient, prefix string, id coupon.CouponID) *fixture {
	t.Helper()
	on := &wire{}
	rdb.AddHook(on)
	tag := fmt.Sprintf("{%scandidates:coupon:%d}", prefix, id)
	return &fixture{
		Store: newStore(t, rdb, prefix), id: id, rdb: rdb, on: on,
		queue: fmt.Sprintf("%scandidates:coupon:%d", prefix, id),
		state: "state:" + tag, issued: "issued:" + tag, rejected: "rejected:" + tag, dlq: "dlq:" + tag,
		reason: "dlq:reason:" + tag,
	}
}

func newClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	return testenv.RedisClient(t, addr)
}

func newStore(t testingT, rdb redis.UniversalClient, prefix string) *Store {
	t.Helper()
	s, err := NewStore(rdb, Options{KeyPrefix: prefix})
	require.NoError(t, err)
	return s
}

// wire is a hook with which a test changes calls between a Store and its Redis.
type wire struct {
	clock     atomic.Int64                      // the frozen time of scripts, in µs; 0: the real clock
	queuePage atomic.Int64                      // limits of a page; 0: the real ones
	dlqPage   atomic.Int64                      //
	answer    atomic.Pointer[any]               // the reply to every script instead of a call
	seen      atomic.Pointer[func(redis.Cmder)] // gets every command
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if seen := w.seen.Load(); seen != nil {
			(*seen)(cmd)
		}
		args := cmd.Args()
		if args[0] == "evalsha" || args[0] == "eval" {
			if answer := w.answer.Load(); answer != nil {
				cmd.(interface{ SetVal(any) }).SetVal(*answer)
				return nil
			}
			s := scriptOf(args[1].(string))
			if n := w.queuePage.Load(); n > 0 && s.name == "page" {
				args[10], args[11] = n, w.dlqPage.Load()
			}
			if now := w.clock.Load(); now != 0 {
				args[0], args[1] = "eval", frozen(s, now)
			}
		}
		return next(ctx, cmd)
	}
}

var allScripts = []script{
	applyScript, publishScript, stopApplyingScript, fenceScript, renewScript, countsScript, pageScript,
	removeRangeScript, removeScript,
	reviewScript, releaseScript, setSoldScript, sweepScript, watchScript, countByIntervalScript, missingScript,
	restoreScript, inspectScript, waitingScript, timeScript,
}

// scriptOf finds a script by its SHA-1 or its source.
func scriptOf(body string) script {
	for _, s := range allScripts {
		if s.sha == body || s.source == body {
			return s
		}
	}
	panic("no script is " + body)
}

// frozen is the script with a constant time.
func frozen(s script, now int64) string {
	return strings.ReplaceAll(s.source, "redis.call('TIME')", fmt.Sprintf("({'%d','%d'})", now/1e6, now%1e6))
}

// seenBy is a Recorder that carries the counts of the last reply.
type seenBy map[coupon.CouponID]Seen

// recorder makes the store carry the counts that it has seen.
func (c *fixture) recorder() seenBy {
	seen := seenBy{}
	c.Recorder = seen
	return seen
}

func (s seenBy) Seen(id coupon.CouponID) Seen { return s[id] }

func (s seenBy) Answered(id coupon.CouponID, carried Seen, r Reply) {
	r.LastArrival = max(r.LastArrival, carried.LastArrival)
	s[id] = r.Seen
}

func (s seenBy) Unanswered(coupon.CouponID, []coupon.UserID) {}

// freeze sets the clock of Redis for the scripts of this coupon.
func (c *fixture) freeze(at time.Time) { c.on.clock.Store(at.UnixMicro()) }

// open freezes the clock at noon and opens the window from an hour before to an hour after.
func (c *fixture) open(t testingT) coupon.Window {
	t.Helper()
	c.freeze(noon)
	w := coupon.Window{Coupon: c.id, Version: 1, Opens: noon.Add(-time.Hour), Closes: noon.Add(time.Hour)}
	c.publish(t, w)
	return w
}

// openNow opens the window by the real clock.
func (c *fixture) openNow(t testingT) {
	t.Helper()
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	c.publish(t, coupon.Window{Coupon: c.id, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)})
}

func (c *fixture) publish(t testingT, w coupon.Window) Published {
	t.Helper()
	now, published, err := c.Publish(t.Context(), w, coupon.Promise{})
	require.NoError(t, err)
	require.True(t, published)
	return now
}

func (c *fixture) apply(t testingT, user coupon.UserID) Receipt {
	t.Helper()
	receipt, err := c.Apply(t.Context(), c.id, user)
	require.NoError(t, err)
	return receipt
}

// accept applies for users, who must be accepted.
func (c *fixture) accept(t testingT, users ...coupon.UserID) (receipts []Receipt) {
	t.Helper()
	for _, user := range users {
		receipts = append(receipts, c.apply(t, user))
		require.Equal(t, Accepted, receipts[len(receipts)-1].Code)
	}
	return receipts
}

func (c *fixture) applyAll(t testingT, users ...coupon.UserID) []Receipt {
	t.Helper()
	receipts, err := c.ApplyAll(t.Context(), c.id, users)
	require.NoError(t, err)
	return receipts
}

func (c *fixture) fence(t testingT, cutoff time.Time) (wait, putBackWait time.Duration) {
	t.Helper()
	wait, putBackWait, err := c.Fence(t.Context(), c.id, cutoff, coupon.Promise{})
	require.NoError(t, err)
	return wait, putBackWait
}

func (c *fixture) release(t testingT, entries ...coupon.Application) int64 {
	t.Helper()
	n, err := c.Release(t.Context(), c.id, entries)
	require.NoError(t, err)
	return n
}

func (c *fixture) sweep(t testingT, want bool, closes time.Time) {
	t.Helper()
	swept, err := c.Sweep(t.Context(), c.id, closes)
	require.NoError(t, err)
	require.Equal(t, want, swept)
}

func (c *fixture) counts(t testingT) Counts {
	t.Helper()
	counts, err := c.Counts(t.Context(), c.id, 0)
	require.NoError(t, err)
	return counts
}

func (c *fixture) set(t testingT, field string, value any) {
	t.Helper()
	if arrival, ok := value.(coupon.Arrival); ok {
		value = int64(arrival) // the client takes no defined types
	}
	require.NoError(t, c.rdb.HSet(t.Context(), c.state, field, value).Err())
}

func (c *fixture) get(t testingT, field string) string {
	t.Helper()
	value, err := c.rdb.HGet(t.Context(), c.state, field).Result()
	require.NoError(t, err)
	return value
}

// runID names the process of Redis.
func (c *fixture) runID(t testingT) string {
	t.Helper()
	info, err := c.rdb.InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	return info["Server"]["run_id"]
}

func (c *fixture) add(t testingT, set string, members ...string) {
	t.Helper()
	for _, member := range members {
		require.NoError(t, c.rdb.SAdd(t.Context(), set, member).Err())
	}
}

// place is an entry of queue or DLQ.
type place struct{ score, member string }

// addByHand writes entries into queue or DLQ.
func (c *fixture) addByHand(t testingT, key string, places ...place) {
	t.Helper()
	_, err := c.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, at := range places {
			p.Do(t.Context(), "ZADD", key, at.score, at.member)
		}
		return nil
	})
	require.NoError(t, err)
}

// scores returns the members of queue or DLQ with their scores.
func (c *fixture) scores(t testingT, key string) map[string]float64 {
	t.Helper()
	found, err := c.rdb.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	require.NoError(t, err)
	scores := map[string]float64{}
	for _, z := range found {
		scores[z.Member.(string)] = z.Score
	}
	return scores
}

// content returns everything that Redis holds of the coupon, byte by byte, with expiry times.
func (c *fixture) content(t testingT) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, key := range []string{c.queue, c.state, c.issued, c.rejected, c.dlq, c.reason} {
		value, err := c.rdb.Dump(t.Context(), key).Result()
		if err == redis.Nil {
			continue
		}
		require.NoError(t, err)
		content[key] = fmt.Sprintf("%q until %d", value, c.expires(t, key))
	}
	return content
}

// expires is the expiry of a key, in s since 1970; -1: never, -2: no such key.
func (c *fixture) expires(t testingT, key string) int64 {
	t.Helper()
	at, err := c.rdb.ExpireTime(t.Context(), key).Result()
	require.NoError(t, err)
	if at < 0 {
		return int64(at)
	}
	return int64(math.Round(at.Seconds()))
}

func (c *fixture) requireExists(t testingT, want bool, keys ...string) {
	t.Helper()
	for _, key := range keys {
		n, err := c.rdb.Exists(t.Context(), key).Result()
		require.NoError(t, err)
		require.Equal(t, want, n == 1, key)
	}
}

func µs(at time.Time) coupon.Arrival { return coupon.ArrivalAt(at) }

func decimal[N ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// entry is an application as it is stored in Redis.
func entry(member string, arrival coupon.Arrival, source coupon.Source) coupon.Application {
	return coupon.Application{Member: member, Arrival: arrival, Source: source}
}
