package redissink

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

// read returns the bodies that came at since or later, and since when the stream has everything.
func (f *fixture) read(since time.Time) (bodies []string, from time.Time) {
	f.t.Helper()
	from, err := f.Read(f.t.Context(), since, func(page [][]byte) error {
		require.LessOrEqual(f.t, len(page), pageSize)
		for _, body := range page {
			bodies = append(bodies, string(body))
		}
		return nil
	})
	require.NoError(f.t, err)
	return bodies, from
}

// appended is when an entry was appended.
func appendedAt(t *testing.T, entry redis.XMessage) time.Time {
	t.Helper()
	ms, _, _ := strings.Cut(entry.ID, "-")
	millis, err := strconv.ParseInt(ms, 10, 64)
	require.NoError(t, err)
	return time.UnixMilli(millis)
}

func TestRead_PassesWhatTheStreamHas(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	bodies, from := f.read(time.Time{})
	require.Empty(t, bodies, "there is no stream yet")
	require.Zero(t, from)

	f.appendAged(3*time.Hour, 10)
	recent := f.messages(2*pageSize + 1)
	f.publish(f.server(), recent)
	var want []string
	for _, m := range recent {
		want = append(want, string(m.Body))
	}
	bodies, from = f.read(time.Now().Add(-time.Hour))
	require.Equal(t, want, bodies)
	require.Equal(t, appendedAt(t, f.entries()[0]), from)
	bodies, _ = f.read(time.Time{})
	require.Len(t, bodies, 10+len(want))

	require.NoError(t, f.admin.XTrimMaxLen(t.Context(), stream, 5).Err())
	bodies, from = f.read(time.Time{})
	require.Equal(t, want[len(want)-5:], bodies)
	require.Equal(t, appendedAt(t, f.entries()[0]), from)
	require.NoError(t, f.admin.XTrimMaxLen(t.Context(), stream, 0).Err())
	bodies, from = f.read(time.Time{})
	require.Empty(t, bodies)
	require.Zero(t, from)

	require.NoError(t, f.admin.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []any{"other", "x"}}).Err())
	bodies, _ = f.read(time.Time{})
	require.Equal(t, []string{""}, bodies)
}

// The reading ends although a relay publishes faster than it reads. Entries that leave the stream meanwhile are not
// covered.
func TestRead_EndsAtTheLastEntryOfTheCall(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	f.appendAged(3*time.Hour, 10)
	server, pages := f.server(), 0
	f.publish(server, f.messages(2*pageSize-10))
	from, err := f.Read(t.Context(), time.Time{}, func([][]byte) error {
		pages++
		require.Less(t, pages, 10)
		f.publish(server, f.messages(pageSize))
		if pages == 1 {
			return f.admin.XTrimMaxLen(t.Context(), stream, 2*pageSize).Err()
		}
		return nil
	})
	require.NoError(t, err)
	require.LessOrEqual(t, pages, 3)
	require.Equal(t, appendedAt(t, f.entries()[0]), from)
	require.WithinDuration(t, time.Now(), from, time.Hour)
}

func TestRead_ReturnsErrors(t *testing.T) {
	t.Parallel()
	f, server := newFixture(t, testenv.RedisOptions{})
	f.publish(f.server(), f.messages(3*pageSize))
	wrong, pages := errors.New("wrong"), 0
	_, err := f.Read(t.Context(), time.Time{}, func([][]byte) error { pages++; return wrong })
	require.ErrorIs(t, err, wrong)
	require.Equal(t, 1, pages)
	_, err = f.Read(t.Context(), time.Time{}, func([][]byte) error { return server.Kill() })
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
}
