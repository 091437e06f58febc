package redissink

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestNew_RefusesMissingOptions(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = client.Close() })
	for want, options := range map[string]Options{
		"the key of the stream is missing": {Retention: time.Hour},
		"below a millisecond":              {Stream: stream, Retention: 1},
	} {
		_, err := New(client, options)
		require.ErrorContains(t, err, want)
	}
	_, err := New(nil, Options{Stream: stream, Retention: time.Hour})
	require.ErrorContains(t, err, "client is missing")
}

func TestPublish_AppendsInOrder(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	server := f.server()
	for _, count := range []int{0, 1, pageSize - 1, pageSize, 3*pageSize + 1} {
		f.publish(server, f.messages(count))
		require.NoError(t, f.admin.ScriptFlush(t.Context()).Err(), "the next page is sent with the source")
	}
	require.Equal(t, upTo(f.next), f.users())
	require.EqualValues(t, 5*pageSize+1, f.next)
	require.Equal(t, server, f.server())
}

func TestPublish_AppendsNothingToAnotherServer(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	for _, server := range []string{"", "unknown", strings.Repeat("0", 40)} {
		_, err := f.deliver(t.Context(), server, f.messages(1))
		require.ErrorContains(t, err, "it is "+f.server()+", not "+server)
		f.refuses(server, f.messages(1), events.ErrMayHaveLost)
	}
}

// The memory of this Redis passes the limit in the middle of publishing. Pages before it are in the stream, no other
// one is.
func TestPublish_RefusesPagesAboveMemoryLimit(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{Args: []string{"--maxmemory", "8mb"}})
	server := f.server()
	all := f.messages(50 * pageSize)
	delivered, err := f.deliver(t.Context(), server, all)
	require.ErrorIs(t, err, events.ErrFull)
	require.Regexp(t, `: \d{7} of 8388608 bytes are used, the limit for events is 60 %$`, err.Error())
	require.Positive(t, delivered)
	require.Zero(t, delivered%pageSize)
	require.Equal(t, upTo(coupon.UserID(delivered)), f.users())
	f.refuses(server, all[delivered:], events.ErrFull)

	memory := f.memory()
	require.Greater(t, memory["used_memory"], int64(8388608*55/100))
	require.Less(t, memory["used_memory"], int64(8388608*65/100), "the rest is for applications")
	require.NoError(t, f.admin.Set(t.Context(), "application", "x", 0).Err())

	require.NoError(t, f.admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
	f.publish(server, all[delivered:])
	require.Equal(t, upTo(f.next), f.users(), "without maxmemory, no limit is known")
}

func (f *fixture) memory() map[string]int64 {
	f.t.Helper()
	fields := map[string]int64{}
	for line := range strings.Lines(f.admin.Info(f.t.Context(), "memory").Val()) {
		var name string
		var value int64
		if _, err := fmt.Sscanf(strings.Replace(line, ":", " ", 1), "%s %d", &name, &value); err == nil {
			fields[name] = value
		}
	}
	return fields
}

// appendAged fills the stream with events of a given age by the clock of Redis.
func (f *fixture) appendAged(age time.Duration, count int) {
	f.t.Helper()
	now, err := f.admin.Time(f.t.Context()).Result()
	require.NoError(f.t, err)
	_, err = f.admin.Pipelined(f.t.Context(), func(p redis.Pipeliner) error {
		for i, m := range f.messages(count) {
			p.XAdd(f.t.Context(), &redis.XAddArgs{Stream: stream,
				ID: fmt.Sprintf("%d-%d", now.Add(-age).UnixMilli(), i), Values: []any{"event", m.Body}})
		}
		return nil
	})
	require.NoError(f.t, err)
}

func TestPublish_RemovesOldEvents(t *testing.T) {
	t.Parallel()
	const old, kept = 3000, 500
	f, _ := newFixture(t, testenv.RedisOptions{})
	f.appendAged(24*time.Hour+time.Minute, old)
	f.appendAged(24*time.Hour-time.Minute, kept)
	require.EqualValues(t, old+kept, f.length())
	server := f.oneLook().server
	left := f.length()
	require.Less(t, left, int64(old+kept))
	require.GreaterOrEqual(t, left, int64(old+kept-trimSize), "one script removes a bounded number")
	for range 4 {
		f.publish(server, f.messages(1))
	}
	users := f.users()
	require.Greater(t, users[0], coupon.UserID(old-100), "at most the node that has younger events, too, is left")
	require.LessOrEqual(t, users[0], coupon.UserID(old+1))
	require.Equal(t, upTo(f.next)[users[0]-1:], users, "no younger event was removed")
}

// A replay may be run with another retention than the relay's: it removes nothing.
func TestPublish_RemovesNothingWithoutRetention(t *testing.T) {
	t.Parallel()
	const old = 3000
	f, _ := newFixture(t, testenv.RedisOptions{})
	f.appendAged(60*24*time.Hour, old)
	f.Retention = 0
	at := f.publish(f.server(), f.messages(pageSize+1))
	require.Equal(t, events.Look{Place: at}, f.look(at))
	require.EqualValues(t, old+pageSize+1, f.length())

	require.NoError(t, f.admin.Del(t.Context(), stream).Err())
	require.Positive(t, f.look(at).Lacks, "no event is too old to be in the stream")
}

func (f *fixture) oneLook() answer {
	f.t.Helper()
	a, err := f.run(f.t.Context(), events.Place{}, nil)
	require.NoError(f.t, err)
	return a
}

func TestLook_RemovesOldEventsOfIdleStream(t *testing.T) {
	t.Parallel()
	const more = 1500
	f, _ := newFixture(t, testenv.RedisOptions{})
	f.appendAged(25*time.Hour, looks*trimSize+more)
	f.appendAged(23*time.Hour, 1)
	f.server()
	require.GreaterOrEqual(t, f.length(), int64(more), "one call removes a bounded number")
	f.server()
	require.Less(t, f.length(), int64(100))
	require.Equal(t, f.next, f.users()[f.length()-1])
}

// Old events are removed although there is no room for anything else. Then there is room for new ones.
func TestPublish_RecoversFromFullMemory(t *testing.T) {
	t.Parallel()
	const old = 5_000
	f, _ := newFixture(t, testenv.RedisOptions{})
	server := f.server()
	f.appendAged(25*time.Hour, old)
	require.NoError(t, f.admin.ConfigSet(t.Context(), "maxmemory",
		strconv.FormatInt(f.memory()["used_memory"]*9/10, 10)).Err())
	require.ErrorContains(t, f.admin.Set(t.Context(), "application", "x", 0).Err(), "OOM")
	next := f.messages(1)
	delivered, err := f.deliver(t.Context(), server, next)
	require.ErrorIs(t, err, events.ErrFull)
	require.Zero(t, delivered)
	require.GreaterOrEqual(t, f.length(), int64(old-trimSize))
	require.Less(t, f.length(), int64(old))

	require.Equal(t, server, f.server())
	f.publish(server, next)
	require.Equal(t, f.next, f.users()[f.length()-1])
	require.NoError(t, f.admin.Set(t.Context(), "application", "x", 0).Err())
}

// bounded is a context whose deadline comes while it is in use. The client asks for it before each command.
type bounded struct {
	context.Context
	end time.Time // zero: none
}

func (b *bounded) Deadline() (time.Time, bool) { return b.end, !b.end.IsZero() }

func TestPublish_StopsAtDeadline(t *testing.T) {
	t.Parallel()
	f, redisServer := newFixture(t, testenv.RedisOptions{})
	server := f.server()
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr(), MaxRetries: -1, ReadTimeout: -1,
		ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	f.Sink = newSink(t, client)
	ctx := &bounded{Context: t.Context()}
	client.AddHook(&hook{after: func(page int) {
		if page == 2 {
			require.NoError(t, redisServer.Freeze())
			ctx.end = time.Now().Add(time.Second) // nothing else ends the third page
		}
	}})
	delivered, err := f.deliver(ctx, server, f.messages(4*pageSize))
	require.NoError(t, redisServer.Thaw())
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.Equal(t, 2*pageSize, delivered)

	ended, end := context.WithCancel(t.Context())
	end()
	delivered, err = f.deliver(ended, server, f.messages(1))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, delivered)
}

func TestUnknownRepliesAreErrors(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	var reply any
	f.rdb.AddHook(answering(func() any { return reply }))
	for _, reply = range []any{
		"OK", []any{}, []any{"APPENDED", "a", int64(1), int64(1), int64(1), ""},
		[]any{"APPENDED", "a", int64(1), int64(1), "1", "", int64(0)},
		[]any{"APPENDED", int64(1), int64(1), int64(1), int64(1), "", int64(0)},
		[]any{"appended", "a", int64(1), int64(1), int64(1), "", int64(0)},
	} {
		delivered, err := f.deliver(t.Context(), "a", f.messages(1))
		require.ErrorContains(t, err, "redis script append", "%v", reply)
		require.Zero(t, delivered)
		_, err = f.Look(t.Context(), events.Place{})
		require.ErrorContains(t, err, "redis script append", "%v", reply)
	}
	reply = []any{"LOOKED", "a", int64(1), int64(1), int64(0), "", int64(0)}
	_, err := f.deliver(t.Context(), "a", f.messages(1))
	require.ErrorContains(t, err, `"LOOKED"`)
	reply = []any{"LOOKED", "", int64(1), int64(1), int64(0), "", int64(0)}
	_, err = f.Look(t.Context(), events.Place{})
	require.Error(t, err, "a server without a name")
	reply = []any{"APPENDED", "a", int64(1), int64(1), int64(0), "", int64(0)}
	_, err = f.Look(t.Context(), events.Place{})
	require.ErrorContains(t, err, `"APPENDED"`)
}

// answering replies to every script.
type answering func() any

func (answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(interface{ SetVal(any) }).SetVal(a())
		return nil
	}
}

func TestLags(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	lags, err := f.Lags(t.Context())
	require.NoError(t, err)
	require.Empty(t, lags, "there is no stream")

	f.publish(f.server(), f.messages(10))
	lags, err = f.Lags(t.Context())
	require.NoError(t, err)
	require.Empty(t, lags, "there is no group")

	entries, err := f.admin.XRange(t.Context(), stream, "-", "+").Result()
	require.NoError(t, err)
	for group, start := range map[string]string{"all": "0", "middle": entries[4].ID, "shop": "0"} {
		require.NoError(t, f.admin.XGroupCreate(t.Context(), stream, group, start).Err())
	}
	read, err := f.admin.XReadGroup(t.Context(),
		&redis.XReadGroupArgs{Group: "shop", Consumer: "one", Streams: []string{stream, ">"}, Count: 7}).Result()
	require.NoError(t, err)
	require.NoError(t, f.admin.XAck(t.Context(), stream, "shop", read[0].Messages[0].ID).Err())
	lags, err = f.Lags(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []events.Lag{{Group: "all", Unread: 10}, {Group: "middle", Unread: -1},
		{Group: "shop", Unread: 3, Pending: 6}}, lags)
}
