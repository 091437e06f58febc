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

	queue, state, issued, rejected, dlq, reason, returned string
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
		reason: "dlq:reason:" + tag, returned: "returned:" + tag,
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
				args[11], args[12] = n, w.dlqPage.Load()
			}
			if now := w.clock.Load(); now != 0 {
				args[0], args[1] = "eval", frozen(s, now)
			}
		}
		return next(ctx, cmd)
	}
}

var allScripts = []script{
	applyScript, publishScript, stopApplyingScript, lookScript, observeScript, watchScript, pageScript, handOverScript,
	enterScript, takeReturnedScript, endRestoreScript, excessScript, removeRangeScript, removeScript, reviewScript,
	releaseScript, renewScript, setSoldScript, sweepScript, countByIntervalScript, inspectScript, waitingScript,
	timeScript,
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

// recorder is a Recorder that keeps every reply.
type recorder struct {
	seen    coupon.Arrival
	replies []Reply
}

// record makes the store record its replies.
func (c *fixture) record() *recorder {
	r := &recorder{}
	c.Recorder = r
	return r
}

func (r *recorder) Seen(coupon.CouponID) coupon.Arrival { return r.seen }

func (r *recorder) Answered(_ coupon.CouponID, reply Reply) {
	r.replies = append(r.replies, reply)
	for _, a := range reply.Answers {
		r.seen = max(r.seen, a.Arrival)
	}
}

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
	now, published, err := c.Publish(t.Context(), w, 0)
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

func (c *fixture) look(t testingT, known coupon.Known) coupon.Look {
	t.Helper()
	look, err := c.Look(t.Context(), c.id, known)
	require.NoError(t, err)
	return look
}

// fence looks at the coupon as a settlement with this cutoff does.
func (c *fixture) fence(t testingT, cutoff time.Time) coupon.Look {
	t.Helper()
	return c.look(t, coupon.Known{Cutoff: cutoff})
}

// endRestore ends a restore that has found everybody.
func (c *fixture) endRestore(t testingT) {
	t.Helper()
	look := c.look(t, coupon.Known{})
	ended, err := c.EndRestore(t.Context(), c.id, Ending{Compare: true, Epoch: look.Epoch})
	require.NoError(t, err)
	require.True(t, ended.Done)
}

// handOver hands over to a restore in the present epoch, and returns the indexes of those handed over.
func (c *fixture) handOver(t testingT, answers ...coupon.Answer) []int {
	t.Helper()
	epoch := c.look(t, coupon.Known{}).Epoch
	now, handed, err := c.HandOver(t.Context(), c.id, epoch, false, answers)
	require.NoError(t, err)
	require.Equal(t, epoch, now)
	return handed
}

func (c *fixture) enter(t testingT, entries ...Entry) Entered {
	t.Helper()
	entered, err := c.Enter(t.Context(), c.id, c.look(t, coupon.Known{}).Epoch, entries)
	require.NoError(t, err)
	return entered
}

func entryOf(user coupon.UserID, arrival coupon.Arrival) Entry {
	return Entry{Answer: coupon.Answer{User: user, Arrival: arrival}}
}

// marked returns the members with a mark.
func (c *fixture) marked(t testingT, mark coupon.Mark) (members []string) {
	t.Helper()
	for next, first := uint64(0), true; first || next != 0; first = false {
		var users []coupon.Application
		var err error
		users, next, err = c.Marked(t.Context(), c.id, mark, next)
		require.NoError(t, err)
		for _, u := range users {
			members = append(members, u.Member)
		}
	}
	return members
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

func (c *fixture) observe(t testingT) coupon.Look {
	t.Helper()
	look, err := c.Observe(t.Context(), c.id, 0)
	require.NoError(t, err)
	return look
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
func (c *fixture) runID(t testingT) string { return infoOf(t, c.rdb, "Server", "run_id") }

// replid names the data of Redis.
func (c *fixture) replid(t testingT) string { return infoOf(t, c.rdb, "Replication", "master_replid") }

func infoOf(t testingT, rdb redis.Cmdable, section, field string) string {
	t.Helper()
	info, err := rdb.InfoMap(t.Context(), section).Result()
	require.NoError(t, err)
	require.NotEmpty(t, info[section][field])
	return info[section][field]
}

// markRejected marks members by hand.
func (c *fixture) markRejected(t testingT, members ...string) {
	t.Helper()
	for _, member := range members {
		require.NoError(t, c.rdb.SAdd(t.Context(), c.rejected, member).Err())
	}
}

// markIssued marks members by hand, as having applied at 1 µs.
func (c *fixture) markIssued(t testingT, members ...string) {
	t.Helper()
	for _, member := range members {
		c.addByHand(t, c.issued, place{"1", member})
	}
}

// place is an entry of a ZSET.
type place struct{ score, member string }

// addByHand writes entries into queue, DLQ, marks or those handed over.
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

// scores returns the members of a ZSET with their scores.
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
	for _, key := range []string{c.queue, c.state, c.issued, c.rejected, c.dlq, c.reason, c.returned} {
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
