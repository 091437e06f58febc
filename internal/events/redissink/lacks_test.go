package redissink

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
)

// However a stream loses its last event, nothing is appended behind the gap, and a look says how much is missing.
func TestLook_SaysThatAnEmptiedStreamLacksEverything(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *fixture) error{
		"DEL":      func(f *fixture) error { return f.admin.Del(f.t.Context(), stream).Err() },
		"FLUSHALL": func(f *fixture) error { return f.admin.FlushAll(f.t.Context()).Err() },
		"XTRIM":    func(f *fixture) error { return f.admin.XTrimMaxLen(f.t.Context(), stream, 0).Err() },
		"a consumer creates it again": func(f *fixture) error {
			f.admin.Del(f.t.Context(), stream)
			return f.admin.XGroupCreateMkStream(f.t.Context(), stream, "shop", "0").Err()
		},
		"a replay fills it again": func(f *fixture) error {
			f.admin.Del(f.t.Context(), stream)
			f.publish(f.server(), f.messages(3*pageSize))
			return nil
		},
		"another stream": func(f *fixture) error {
			f.Sink.Stream = "coupon:events:other"
			return f.admin.ACLSetUser(f.t.Context(), f.settings.RedisUsername, "~coupon:events:other", "+@all").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := newFixture(t, testenv.RedisOptions{})
			at := f.publish(f.server(), f.messages(pageSize+1))
			require.Equal(t, events.Look{Place: at}, f.look(at))
			require.NoError(t, lose(f))
			delivered, last, err := f.Publish(t.Context(), at, f.messages(1))
			require.ErrorIs(t, err, events.ErrMayHaveLost)
			require.ErrorContains(t, err, "lacks the event "+at.Last)
			require.Zero(t, delivered)
			require.Equal(t, at.Last, last)
			look := f.look(at)
			require.Equal(t, events.Look{Place: events.Place{Server: look.Server}, Lacks: f.Retention}, look)
			require.Equal(t, name != "another stream", look.Server == at.Server)
			require.Zero(t, f.look(look.Place).Lacks, "it is told once to whoever remembers it")
		})
	}
}

func TestLook_LacksNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(f *fixture)
		forget bool // the last event need not be in the stream any more
	}{
		"another one appends": {func(f *fixture) { f.publish(f.server(), f.messages(1)) }, false},
		"a consumer deletes what it has done": {func(f *fixture) {
			for _, e := range f.entries() {
				require.NoError(f.t, f.admin.XDel(f.t.Context(), stream, e.ID).Err())
			}
			require.Zero(f.t, f.length())
		}, false},
		// A known limit: this is not noticed, since XTRIM keeps the trace of XDEL.
		"everything is trimmed after the last one was deleted": {func(f *fixture) {
			entries := f.entries()
			require.NoError(f.t, f.admin.XDel(f.t.Context(), stream, entries[len(entries)-1].ID).Err())
			require.NoError(f.t, f.admin.XTrimMaxLen(f.t.Context(), stream, 0).Err())
			require.Zero(f.t, f.length())
		}, false},
		"the beginning is trimmed": {func(f *fixture) {
			require.NoError(f.t, f.admin.XTrimMaxLen(f.t.Context(), stream, 1).Err())
		}, false},
		"the retention becomes longer":                     {func(f *fixture) { f.Retention *= 2 }, false},
		"the last event is older than a shorter retention": {func(f *fixture) { f.Retention = 3 * time.Hour }, true},
		"emptied, but older than that": {func(f *fixture) {
			require.NoError(f.t, f.admin.Del(f.t.Context(), stream).Err())
			f.Retention = 3 * time.Hour
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := newFixture(t, testenv.RedisOptions{})
			f.appendAged(4*time.Hour, 10)
			entries := f.entries()
			at := events.Place{Server: f.server(), Last: entries[len(entries)-1].ID}
			c.change(f)
			want := at
			if c.forget {
				want.Last = ""
			}
			require.Equal(t, events.Look{Place: want}, f.look(at))
			delivered, _, err := f.Publish(t.Context(), at, f.messages(1))
			require.NoError(t, err)
			require.Equal(t, 1, delivered)
		})
	}
}

// requireLacksSince requires that a look says that everything after an entry is missing, by the clock of Redis.
func (f *fixture) requireLacksSince(known events.Place, entry redis.XMessage) {
	f.t.Helper()
	id, _, _ := strings.Cut(entry.ID, "-")
	since, err := time.ParseDuration(id + "ms")
	require.NoError(f.t, err)
	ago := func() time.Duration {
		now, err := f.admin.Time(f.t.Context()).Result()
		require.NoError(f.t, err)
		return time.Duration(now.UnixMilli())*time.Millisecond - since
	}
	least := ago()
	look := f.look(known)
	require.GreaterOrEqual(f.t, look.Lacks, least)
	require.LessOrEqual(f.t, look.Lacks, ago())
	require.Empty(f.t, look.Last)
}

func TestLook_SaysSinceWhenAnOlderCopyLacksEvents(t *testing.T) {
	t.Parallel()
	t.Run("restart from an old file", func(t *testing.T) {
		t.Parallel()
		f, server := newFixture(t, testenv.RedisOptions{})
		f.appendAged(3*time.Hour, 10)
		entries := f.entries()
		require.NoError(t, f.admin.Save(t.Context()).Err())
		at := f.publish(f.server(), f.messages(10))
		require.NoError(t, server.Restart(t.Context())) // SIGKILL first
		require.Len(t, f.entries(), 10)
		f.requireLacksSince(at, entries[9])
	})
	t.Run("promoted replica that is behind", func(t *testing.T) {
		t.Parallel()
		f, master := newFixture(t, testenv.RedisOptions{})
		f.appendAged(2*time.Hour, 10)
		entries := f.entries()
		replica := testenv.RedisClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr())
		host, port, err := net.SplitHostPort(master.Addr())
		require.NoError(t, err)
		require.NoError(t, replica.Do(t.Context(), "REPLICAOF", host, port).Err())
		testenv.Eventually(t, "the replica follows", func() bool {
			return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
		require.NoError(t, replica.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
		at := f.publish(f.server(), f.messages(10))
		f.Sink, f.admin = newSink(t, replica), replica
		require.NotEqual(t, at.Server, f.server())
		f.requireLacksSince(at, entries[9])
	})
}
