package candidates

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestInspectReadsWindowAndTTLs(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	inspect := func() Inspection {
		i, err := c.Inspect(t.Context(), c.id)
		require.NoError(t, err)
		require.NotZero(t, i.Now)
		i.Now = time.Time{}
		return i
	}
	nothing := Inspection{Paused: true, QueueLife: -time.Millisecond, ReviewLife: -time.Millisecond}
	require.Equal(t, nothing, inspect())

	w := c.open(t)
	want := Inspection{Known: true, Opens: w.Opens, Closes: w.Closes, Version: w.Version, QueueLife: -time.Millisecond,
		ReviewLife: -time.Millisecond}
	require.Equal(t, want, inspect())

	c.addByHand(t, c.dlq, place{"4000", "4"}, place{"4001", "5"})
	require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "4", "{}").Err())
	want.DLQ, want.Reasons, want.Unexplained = 2, 1, 1
	require.Equal(t, want, inspect())
	require.NoError(t, c.rdb.HSet(t.Context(), c.state, "status", "PAUSED", "opens", "noon", "version", "x",
		"line_limit", 7).Err())
	require.NoError(t, c.rdb.Expire(t.Context(), c.reason, time.Hour).Err())
	got := inspect()
	require.InDelta(t, time.Hour, got.ReviewLife, float64(time.Hour/2))
	got.ReviewLife = want.ReviewLife
	want.Paused, want.Opens, want.Version, want.LineLimit = true, time.Time{}, 0, 7
	require.Equal(t, want, got)

	c.addByHand(t, c.queue, place{"4002", "6"})
	require.NoError(t, c.rdb.Expire(t.Context(), c.queue, time.Hour).Err())
	require.NoError(t, c.rdb.Persist(t.Context(), c.reason).Err())
	require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "4", "none", "6", "{}").Err())
	require.NoError(t, c.rdb.HDel(t.Context(), c.state, "opens", "closes").Err())
	got = inspect()
	require.InDelta(t, time.Hour, got.QueueLife, float64(time.Hour/2))
	got.QueueLife = want.QueueLife
	want.Reasons, want.Unexplained, want.Closes = 2, 2, time.Time{} // the reason of 4 is unreadable, and 6 has no entry
	require.Equal(t, want, got, "a version counts as a window")
}

// The prefix is a pattern.
func TestScanCouponsFindsThisDeployment(t *testing.T) {
	t.Parallel()
	h := testenv.RedisFor(t)
	s := newStore(t, h.Client, h.Prefix+`a*b?[c]\:`)
	scanFinds(t, s)
	failure := errors.New("visit failed")
	require.ErrorIs(t, s.ScanCoupons(t.Context(), func([]coupon.CouponID) error { return failure }), failure)
}

// scanFinds checks that every key of a coupon leads to it, on any master, and that keys of other deployments do not.
func scanFinds(t *testing.T, s *Store) {
	t.Helper()
	ctx, prefix := t.Context(), s.names.prefix
	var want, found []coupon.CouponID
	for id := range coupon.CouponID(7) {
		key := s.names.coupon(100 + id)
		name := []string{key.queue, key.state, key.issued, key.rejected, key.dlq, key.reason, key.returned}[id]
		require.NoError(t, s.rdb.Set(ctx, name, "", 0).Err())
		want = append(want, 100+id)
	}
	for _, other := range []string{"x" + prefix, prefix + "x"} {
		require.NoError(t, s.rdb.Set(ctx, namespace{other}.coupon(7).queue, "", 0).Err())
		require.NoError(t, s.rdb.Set(ctx, namespace{other}.coupon(7).state, "", 0).Err())
	}
	for _, odd := range []string{"candidates:coupon:", "candidates:coupon:07", "candidates:coupon:-7",
		"candidates:coupon:7:old", "candidates:coupon:99999999999999999999"} {
		require.NoError(t, s.rdb.Set(ctx, prefix+odd, "", 0).Err())
		require.NoError(t, s.rdb.Set(ctx, "state:{"+prefix+odd+"}", "", 0).Err())
	}
	require.NoError(t, s.rdb.Set(ctx, "note:{"+prefix+"candidates:coupon:7}", "", 0).Err())
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range 2 * scannedKeys {
			pipe.Set(ctx, fmt.Sprintf("%sbulk:%d", prefix, n), "", 0)
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, s.ScanCoupons(ctx, func(coupons []coupon.CouponID) error {
		found = append(found, coupons...)
		return nil
	}))
	slices.Sort(found)
	require.Equal(t, want, slices.Compact(found))
}

func TestMarkedUsersAreReturnedByPages(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	for _, mark := range []coupon.Mark{coupon.MarkIssued, coupon.MarkRejected} {
		users, next, err := c.Marked(t.Context(), c.id, mark, 0)
		require.NoError(t, err)
		require.Empty(t, users)
		require.Zero(t, next)

		want := map[coupon.Application]bool{}
		var entries []coupon.Application
		for i := range 2500 {
			user := coupon.Application{Member: strconv.FormatUint(math.MaxUint64-uint64(i), 10),
				Arrival: coupon.Arrival(i)}
			entries = append(entries, user)
			if mark == coupon.MarkRejected {
				user.Arrival = 0
			}
			want[user] = true
		}
		c.remove(t, time.Now(), mark, entries...)
		got := map[coupon.Application]bool{}
		pages := 0
		for ; pages == 0 || next != 0; pages++ {
			users, next, err = c.Marked(t.Context(), c.id, mark, next)
			require.NoError(t, err)
			for _, user := range users {
				got[user] = true
			}
		}
		require.Equal(t, want, got)
		require.Greater(t, pages, 1)
	}
}
