package redissink

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) {
	logging.Disable() // of servers that tests kill
	goleak.VerifyTestMain(testenv.WithServers{M: m})
}

const stream = "coupon:events"

// fixture is a sink that is logged in as settle is, and an administrator's view of its stream.
type fixture struct {
	*Sink
	t        *testing.T
	admin    redis.UniversalClient
	settings connect.RedisSettings // of the sink
	next     coupon.UserID         // of the last event that was made
}

// newFixture is a sink on a private standalone Redis.
func newFixture(t *testing.T, options testenv.RedisOptions) (*fixture, *testenv.Redis) {
	t.Helper()
	server := testenv.PrivateRedis(t, options)
	return fixtureAt(t, connect.RedisSettings{RedisAddrs: []string{server.Addr()}}, server), server
}

// fixtureAt creates the documented users on every server, and a sink with these settings.
func fixtureAt(t *testing.T, settings connect.RedisSettings, servers ...*testenv.Redis) *fixture {
	t.Helper()
	f := &fixture{t: t, admin: open(t, settings)}
	users := testenv.RedisUsersFor(t, testenv.RedisClient(t, servers[0].Addr()), "", docs.RedisUsers)
	for _, more := range servers[1:] {
		users.MakeOn(testenv.RedisClient(t, more.Addr()))
	}
	username, password := users.As("jajeong_settle")
	settings.RedisUsername, settings.RedisPasswordFile = username, testenv.SecretFile(t, password)
	f.Sink, f.settings = newSink(t, open(t, settings)), settings
	return f
}

func open(t *testing.T, settings connect.RedisSettings) redis.UniversalClient {
	t.Helper()
	client, err := settings.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newSink(t *testing.T, client redis.UniversalClient) *Sink {
	t.Helper()
	s, err := New(client, Options{Stream: stream, Retention: 24 * time.Hour})
	require.NoError(t, err)
	return s
}

// message is the event of a user. Real events have about its length.
func message(t testing.TB, user coupon.UserID) events.Message {
	t.Helper()
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	m, err := (&events.Issued{Coupon: 42, User: user, UserCoupon: coupon.UserCouponID(user), Position: int(user),
		AppliedAt: at, IssuedAt: at,
		ExpiresAt: at, Run: 7}).Event().Message()
	require.NoError(t, err)
	return m
}

// messages are the next events.
func (f *fixture) messages(count int) []events.Message {
	f.t.Helper()
	all := make([]events.Message, count)
	for i := range all {
		f.next++
		all[i] = message(f.t, f.next)
	}
	return all
}

func (f *fixture) server() string {
	f.t.Helper()
	look := f.look(events.Place{})
	require.Regexp(f.t, "^[0-9a-f]{40}(:[0-9a-f]{40}){2}$", look.Server)
	require.Equal(f.t, events.Look{Place: events.Place{Server: look.Server}}, look)
	return look.Server
}

func (f *fixture) look(known events.Place) events.Look {
	f.t.Helper()
	look, err := f.Look(f.t.Context(), known)
	require.NoError(f.t, err)
	return look
}

// publish returns the place of the last message.
func (f *fixture) publish(server string, messages []events.Message) events.Place {
	f.t.Helper()
	delivered, last, err := f.Publish(f.t.Context(), events.Place{Server: server}, messages)
	require.NoError(f.t, err)
	require.Equal(f.t, len(messages), delivered)
	return events.Place{Server: server, Last: last}
}

// deliver is Publish of somebody who knows of no earlier event.
func (f *fixture) deliver(ctx context.Context, server string, messages []events.Message) (delivered int, err error) {
	delivered, _, err = f.Publish(ctx, events.Place{Server: server}, messages)
	return delivered, err
}

// refuses expects that nothing is appended.
func (f *fixture) refuses(server string, messages []events.Message, want error) {
	f.t.Helper()
	before := f.length()
	delivered, err := f.deliver(f.t.Context(), server, messages)
	require.ErrorIs(f.t, err, want)
	require.Zero(f.t, delivered)
	require.Equal(f.t, before, f.length())
}

func (f *fixture) length() int64 {
	f.t.Helper()
	n, err := f.admin.XLen(f.t.Context(), stream).Result()
	require.NoError(f.t, err)
	return n
}

// users reads the users of all events of the stream in order.
func (f *fixture) users() (users []coupon.UserID) {
	f.t.Helper()
	for _, entry := range f.entries() {
		require.Len(f.t, entry.Values, 1)
		body := entry.Values["event"].(string)
		var event struct {
			ID   string
			Data struct{ UserID coupon.UserID }
		}
		require.NoError(f.t, json.Unmarshal([]byte(body), &event))
		require.Equal(f.t, fmt.Sprintf("issued-%d", event.Data.UserID), event.ID)
		require.Equal(f.t, string(message(f.t, event.Data.UserID).Body), body)
		users = append(users, event.Data.UserID)
	}
	return users
}

// entries reads the stream by pages, since the client waits for a reply only so long.
func (f *fixture) entries() (all []redis.XMessage) {
	f.t.Helper()
	const page = 1000
	for from := "-"; ; from = "(" + all[len(all)-1].ID {
		entries, err := f.admin.XRangeN(f.t.Context(), stream, from, "+", page).Result()
		require.NoError(f.t, err)
		if all = append(all, entries...); len(entries) < page {
			return all
		}
	}
}

func upTo(last coupon.UserID) (users []coupon.UserID) {
	for user := coupon.UserID(1); user <= last; user++ {
		users = append(users, user)
	}
	return users
}

// hook runs before and after each append of a page: a call of the script with events.
type hook struct {
	before func(page int, cmd redis.Cmder) error // an error is returned instead of a call
	after  func(page int)
	page   int
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") || len(cmd.Args()) <= 9 {
			return next(ctx, cmd)
		}
		h.page++
		if h.before != nil {
			if err := h.before(h.page, cmd); err != nil {
				return err
			}
		}
		err := next(ctx, cmd)
		if h.after != nil {
			h.after(h.page)
		}
		return err
	}
}
