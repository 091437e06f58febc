package candidates

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestPublishOpensTheWindow(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	w := coupon.Window{Coupon: c.id, Version: 7, Opens: noon.Add(-time.Hour), Closes: noon.Add(time.Hour)}
	epoch := c.runID(t) + ":" + decimal(µs(noon))
	require.Equal(t, Published{coupon.Reading{Now: noon}, coupon.Line{Epoch: epoch, Since: µs(noon)}}, c.publish(t, w))
	require.Equal(t, map[string]string{
		"version": "7", "opens": decimal(µs(w.Opens)), "closes": decimal(µs(w.Closes)), "status": "OPEN",
		"run_id": c.runID(t), "replid": c.replid(t), "since": decimal(µs(noon)), "restored": "0", "left": "0",
		"version_at": decimal(µs(noon)),
	}, c.rdb.HGetAll(t.Context(), c.state).Val())

	w.Version, w.Paused = 8, true
	c.publish(t, w)
	require.Equal(t, "PAUSED", c.get(t, "status"))
	require.Equal(t, Paused, c.apply(t, 7).Code)
	w.Version, w.Paused = 9, false
	c.publish(t, w)
	c.accept(t, 7)
}

// The reply has what the queue and the mark of SOLD_OUT are, also to a window that is not written.
func TestPublishReadsTheQueueAndTheSoldMark(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	require.Equal(t, coupon.Reading{Now: noon}, c.publish(t, w).Reading)
	c.accept(t, 7, 8, 9)
	later := noon.Add(time.Minute)
	c.freeze(later)
	require.Equal(t, coupon.Reading{Waiting: 3, Now: later}, c.publish(t, w).Reading)
	for _, sold := range []bool{true, false} {
		require.NoError(t, c.SetSold(t.Context(), c.id, sold))
		w.Sold = !sold // used only if the state is lost
		require.Equal(t, coupon.Reading{Waiting: 3, Sold: sold, Now: later}, c.publish(t, w).Reading)
	}
	w.Version--
	now, published, err := c.Publish(t.Context(), w, 0)
	require.NoError(t, err)
	require.False(t, published)
	require.Equal(t, coupon.Reading{Waiting: 3, Now: later}, now.Reading)

	require.NoError(t, c.rdb.Del(t.Context(), c.state).Err())
	w.Sold = true
	require.True(t, c.publish(t, w).Sold)
	require.Equal(t, SoldOut, c.apply(t, 10).Code)
}

func TestTimeIsThatOfTheShard(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	now, err := c.Time(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, noon, now)
	require.Empty(t, c.content(t), "it only reads")
}

func TestPublishPrefersTheNewerVersion(t *testing.T) {
	t.Parallel()
	window := func(version int64, minutes int) coupon.Window {
		d := time.Duration(minutes) * time.Minute
		return coupon.Window{Version: version, Opens: noon.Add(-d), Closes: noon.Add(d), Paused: minutes%2 == 1}
	}
	for name, tc := range map[string]struct {
		present, next int64
		want          bool
	}{
		"newer":               {1, 2, true},
		"equal overwrites":    {2, 2, true},
		"older":               {3, 2, false},
		"by number, not text": {9, 10, true},
		"µs as version":       {1795143600000001, 1795143600000000, false},
		"µs, one later":       {1795143600000000, 1795143600000001, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon)
			present, next := window(tc.present, 10), window(tc.next, 15)
			present.Coupon, next.Coupon = c.id, c.id
			c.publish(t, present)
			_, published, err := c.Publish(t.Context(), next, 0)
			require.NoError(t, err)
			require.Equal(t, tc.want, published)
			want, status := present, "OPEN"
			if tc.want {
				want, status = next, "PAUSED"
			}
			require.Equal(t, decimal(want.Version), c.get(t, "version"))
			require.Equal(t, decimal(µs(want.Opens)), c.get(t, "opens"))
			require.Equal(t, decimal(µs(want.Closes)), c.get(t, "closes"))
			require.Equal(t, status, c.get(t, "status"))
			require.Equal(t, want.Closes.Add(testTTL).Unix(), c.expires(t, c.state),
				"the TTL is that of the window in force")
		})
	}
}

// No later arrival is at or below what MySQL or the process knows, whichever version the window has.
func TestPublishRaisesTheLastArrival(t *testing.T) {
	t.Parallel()
	at := µs(noon)
	for name, tc := range map[string]struct{ inRedis, known, seen, want coupon.Arrival }{
		"nothing anywhere":       {0, 0, 0, 0},
		"redis knows more":       {at + 9, at + 3, at + 4, at + 9},
		"mysql knows more":       {at + 3, at + 9, at + 4, at + 9},
		"the process knows more": {at + 3, at + 4, at + 9, at + 9},
		"16 digits survive":      {0, 8999999999999999, 0, 8999999999999999},
	} {
		for _, version := range []int64{1, 3} {
			t.Run(fmt.Sprint(name, version), func(t *testing.T) {
				t.Parallel()
				c := newCoupon(t)
				c.freeze(noon)
				w := coupon.Window{Coupon: c.id, Version: 2, Opens: noon, Closes: noon.Add(time.Hour)}
				c.publish(t, w)
				if tc.inRedis > 0 {
					c.set(t, "last", tc.inRedis)
				}
				c.record().seen = tc.seen
				w.Version = version
				now, published, err := c.Publish(t.Context(), w, tc.known)
				require.NoError(t, err)
				require.Equal(t, version == 3, published)
				require.Equal(t, tc.want, now.Last)
				require.Equal(t, tc.want, c.observe(t).Last)
			})
		}
	}
}

// A coupon without promises has nobody to restore.
func TestPublishBeforeTheOpeningOfAnUnknownCouponNeedsNoRestore(t *testing.T) {
	t.Parallel()
	soon, past := noon.Add(time.Microsecond), noon
	for name, tc := range map[string]struct {
		accepted    int64
		known, seen coupon.Arrival
		row, redis  time.Time // start of the window; zero: Redis has none
		want        bool
	}{
		"nobody can have applied":           {row: soon, want: true},
		"published earlier":                 {row: soon, redis: soon, want: true},
		"somebody was accepted":             {accepted: 1, row: soon, redis: soon},
		"mysql knows an arrival":            {known: 1, row: soon},
		"the process was told an arrival":   {seen: 1, row: soon},
		"the window is open by the row":     {row: past, redis: soon},
		"open by the published window":      {row: soon, redis: past},
		"it opens, and Redis has no window": {row: past},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon)
			if tc.accepted > 0 {
				c.set(t, "accepted", tc.accepted)
			}
			if !tc.redis.IsZero() {
				c.set(t, "opens", µs(tc.redis))
			}
			recorded := c.record()
			recorded.seen = tc.seen
			w := coupon.Window{Coupon: c.id, Version: 1, Opens: tc.row, Closes: noon.Add(time.Hour)}
			now, _, err := c.Publish(t.Context(), w, tc.known)
			require.NoError(t, err)
			require.Equal(t, coupon.Line{Epoch: c.runID(t) + ":" + decimal(µs(noon)), Since: µs(noon),
				Restored: tc.want, Accepted: tc.accepted, Last: max(tc.known, tc.seen)}, now.Line)
			require.Equal(t, []Reply{{Epoch: now.Epoch}}, recorded.replies)
			require.Equal(t, now.Line.Restored, c.observe(t).Restored)

			c.freeze(noon.Add(time.Second))
			again, _, err := c.Publish(t.Context(), w, tc.known)
			require.NoError(t, err)
			require.Equal(t, now.Line, again.Line, "the epoch goes on")
		})
	}
}

// The reply has what a pod must know to notice another server and a restore, also to a window that is not written.
func TestPublishRepliesWithEpochAndRestores(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	recorded := c.record()
	at := c.accept(t, 1, 2)
	c.endRestore(t)
	epoch := c.observe(t).Epoch
	for _, version := range []int64{0, 1, 2} {
		w.Version = version
		now, published, err := c.Publish(t.Context(), w, 0)
		require.NoError(t, err)
		require.Equal(t, version > 0, published)
		require.Equal(t, coupon.Line{Epoch: epoch, Since: µs(noon), Restored: true, Restores: 1, Accepted: 2,
			Waiting: 2, Last: at[1].Arrival}, now.Line)
		require.Equal(t, Reply{Epoch: epoch, Restores: 1}, recorded.replies[len(recorded.replies)-1])
	}
}

func TestPublishRenewsTTLOfTheState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	for after, until := range map[time.Duration]time.Time{
		-100 * 24 * time.Hour: noon,
		-time.Second:          noon,
		time.Second:           noon.Add(time.Second),
		100 * 24 * time.Hour:  noon.Add(100 * 24 * time.Hour),
	} {
		require.NoError(t, c.rdb.Del(t.Context(), c.state).Err())
		c.publish(t, coupon.Window{Coupon: c.id, Closes: noon.Add(after)})
		require.Equal(t, until.Add(testTTL).Unix(), c.expires(t, c.state))
	}
}

func requireLives(t *testing.T, c *fixture, want time.Duration) {
	t.Helper()
	ttl, err := c.rdb.TTL(t.Context(), c.state).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, want)
	require.Greater(t, ttl, want-time.Minute)
}

func TestRenewRestoresFullTTL(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]time.Time{
		"open":          noon.Add(time.Hour),
		"closed":        noon.Add(-time.Hour),
		"long closed":   noon.Add(-1000 * time.Hour),
		"within second": noon.Add(999 * time.Microsecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon)
			require.NoError(t, c.Renew(t.Context(), c.id, closes), "without any key")
			c.addByHand(t, c.queue, place{"1", "1"})
			c.addByHand(t, c.dlq, place{"2", "2"})
			c.set(t, "last", 1)
			c.markIssued(t, "3")
			c.markRejected(t, "4")
			c.addByHand(t, c.returned, place{"5", "5"})
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "2", "{}").Err())
			for _, key := range []string{c.queue, c.state, c.issued, c.rejected, c.returned} {
				require.NoError(t, c.rdb.Expire(t.Context(), key, time.Minute).Err())
			}
			want := max(noon.Unix(), closes.Unix()) + int64(testTTL/time.Second)
			for range 2 {
				require.NoError(t, c.Renew(t.Context(), c.id, closes))
				for _, key := range []string{c.queue, c.state, c.issued, c.rejected, c.returned} {
					require.Equal(t, want, c.expires(t, key), key)
				}
				for _, key := range []string{c.dlq, c.reason} {
					require.EqualValues(t, -1, c.expires(t, key), "%s has no expiry", key)
				}
			}
		})
	}
}

func TestSetSoldStopsAndResumesApplying(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	c.accept(t, 1)
	for _, sold := range []bool{false, true, true, false} {
		require.NoError(t, c.SetSold(t.Context(), c.id, sold))
		require.Equal(t, sold, c.observe(t).Sold)
		require.Equal(t, Duplicate, c.apply(t, 1).Code)
		if sold {
			require.Equal(t, SoldOut, c.apply(t, 2).Code)
		}
	}
	c.accept(t, 2)
	require.Equal(t, noon.Add(time.Hour+testTTL).Unix(), c.expires(t, c.state), "the TTL is unchanged")
}

func TestSetSoldSetsTTLOfNewState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	require.NoError(t, c.SetSold(t.Context(), c.id, false))
	c.requireExists(t, false, c.state)
	require.NoError(t, c.SetSold(t.Context(), c.id, true))
	require.Equal(t, "1", c.get(t, "sold"))
	requireLives(t, c, testTTL)
}

func TestSweepUnlinksKeysOfFinalisedCoupon(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	closes := noon.Add(time.Hour)
	c.markIssued(t, "1")
	c.markRejected(t, "2")
	require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "9", "{}").Err(), "a reason without an entry")
	c.freeze(closes)
	for range 2 {
		c.sweep(t, true, closes)
		c.requireExists(t, false, c.queue, c.rejected, c.dlq, c.reason)
		c.requireExists(t, true, c.issued)
		require.Equal(t, decimal(µs(closes)), c.get(t, "closes"), "the state stays for a while")
		requireLives(t, c, 600*time.Second)
	}
	for range 2 {
		require.NoError(t, c.Unmark(t.Context(), c.id))
		c.requireExists(t, false, c.issued)
		c.requireExists(t, true, c.state)
	}
	require.Equal(t, Closed, c.apply(t, 7).Code)
}

func TestSweepKeepsUnfinishedCoupons(t *testing.T) {
	t.Parallel()
	closes := noon.Add(time.Hour)
	for name, tc := range map[string]struct {
		now, published, given time.Time
		queue, dlq, returned  []place
	}{
		"an entry in the queue": {now: closes, published: closes, given: closes, queue: []place{{"1", "7"}}},
		"handed over to a restore": {now: closes, published: closes, given: closes,
			returned: []place{{"0", "0"}}},
		"an entry in the DLQ":            {now: closes, published: closes, given: closes, dlq: []place{{"1", "7"}}},
		"the window is open":             {now: closes.Add(-1000), published: closes, given: closes},
		"the window was extended":        {now: closes, published: closes.Add(time.Microsecond), given: closes},
		"the extension is not published": {now: closes, published: closes, given: closes.Add(time.Microsecond)},
		"an entry above any cutoff": {now: closes, published: closes, given: closes,
			queue: []place{{"+inf", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(tc.now)
			c.publish(t, coupon.Window{Coupon: c.id, Opens: noon.Add(-time.Hour), Closes: tc.published})
			c.addByHand(t, c.queue, tc.queue...)
			c.addByHand(t, c.dlq, tc.dlq...)
			c.addByHand(t, c.returned, tc.returned...)
			c.markIssued(t, "1")
			before := c.content(t)
			c.sweep(t, false, tc.given)
			require.Equal(t, before, c.content(t))
		})
	}
}

func TestCatalogSnapshotIsKept(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	snapshot, err := c.LoadCatalog(t.Context())
	require.NoError(t, err)
	require.Nil(t, snapshot)
	for _, want := range []string{`[{"id":1,"name":"자정"}]`, "\x00\xff", ""} {
		require.NoError(t, c.SaveCatalog(t.Context(), []byte(want)))
		snapshot, err = c.LoadCatalog(t.Context())
		require.NoError(t, err)
		require.NotNil(t, snapshot)
		require.Equal(t, want, string(snapshot))
	}
	require.EqualValues(t, -1, c.expires(t, c.names.catalog()), "the snapshot has no expiry")

	require.NoError(t, c.rdb.Del(t.Context(), c.names.catalog()).Err())
	require.NoError(t, c.rdb.SAdd(t.Context(), c.names.catalog(), "x").Err())
	_, err = c.LoadCatalog(t.Context())
	require.ErrorContains(t, err, "WRONGTYPE")
}

func TestPublishOfUnchangedWindowWritesNothing(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	c.freeze(noon)
	w := coupon.Window{Coupon: c.id, Version: 1, Opens: noon.Add(-time.Hour), Closes: noon.Add(-time.Minute)}
	c.publish(t, w)
	writes := func() string {
		info, err := c.rdb.Info(t.Context(), "persistence").Result()
		require.NoError(t, err)
		return regexp.MustCompile(`rdb_changes_since_last_save:\d+`).FindString(info)
	}
	before, expires := writes(), c.expires(t, c.state)
	for range 5 {
		c.publish(t, w)
	}
	c.freeze(noon.Add(time.Hour - time.Second))
	c.publish(t, w)
	require.Equal(t, before, writes())
	c.freeze(noon.Add(time.Hour))
	c.publish(t, w)
	require.Equal(t, expires+3600, c.expires(t, c.state), "the expiry moves in steps of an hour")
}
