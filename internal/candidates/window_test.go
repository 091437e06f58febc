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
	require.Equal(t, Published{coupon.Promise{Since: µs(noon)}, coupon.Reading{Now: noon}}, c.publish(t, w))
	require.Equal(t, map[string]string{
		"version": "7", "opens": decimal(µs(w.Opens)), "closes": decimal(µs(w.Closes)), "status": "OPEN",
		"accepted": "0", "last": "0",
		"run_id": c.get(t, "run_id"), "since": decimal(µs(noon)), "base": "0", "base_twice": "0",
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
	now, published, err := c.Publish(t.Context(), w, coupon.Promise{})
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
			_, published, err := c.Publish(t.Context(), next, coupon.Promise{})
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

// Each counter rises on its own, also with an older window.
func TestPublishRaisesCountsToTheMaximum(t *testing.T) {
	t.Parallel()
	at := µs(noon)
	for name, tc := range map[string]struct{ inRedis, known, want coupon.Promise }{
		"nothing anywhere": {coupon.Promise{}, coupon.Promise{}, coupon.Promise{}},
		"redis knows more": {coupon.Promise{Accepted: 9, LastArrival: at + 9},
			coupon.Promise{Accepted: 3, LastArrival: at + 3}, coupon.Promise{Accepted: 9, LastArrival: at + 9}},
		"mysql knows more": {coupon.Promise{Accepted: 3, LastArrival: at + 3},
			coupon.Promise{Accepted: 9, LastArrival: at + 9}, coupon.Promise{Accepted: 9, LastArrival: at + 9}},
		"each knows one": {coupon.Promise{Accepted: 3, LastArrival: at + 9},
			coupon.Promise{Accepted: 9, LastArrival: at + 3}, coupon.Promise{Accepted: 9, LastArrival: at + 9}},
		"the same": {coupon.Promise{Accepted: 3, LastArrival: at + 3},
			coupon.Promise{Accepted: 3, LastArrival: at + 3}, coupon.Promise{Accepted: 3, LastArrival: at + 3}},
		"16 digits survive": {coupon.Promise{}, coupon.Promise{Accepted: 8999999999999999,
			LastArrival: 8999999999999999}, coupon.Promise{Accepted: 8999999999999999, LastArrival: 8999999999999999}},
	} {
		for _, version := range []int64{1, 3} {
			t.Run(fmt.Sprint(name, version), func(t *testing.T) {
				t.Parallel()
				c := newCoupon(t)
				c.freeze(noon)
				w := coupon.Window{Coupon: c.id, Version: 2, Opens: noon, Closes: noon.Add(time.Hour)}
				c.publish(t, w)
				c.set(t, "accepted", tc.inRedis.Accepted)
				c.set(t, "last", tc.inRedis.LastArrival)
				w.Version = version
				tc := tc
				tc.known.Since, tc.want.Since = µs(noon), µs(noon) // the counts of MySQL are of this epoch
				now, published, err := c.Publish(t.Context(), w, tc.known)
				require.NoError(t, err)
				require.Equal(t, version == 3, published)
				require.Equal(t, tc.want, now.Promise)
				require.Equal(t, decimal(tc.want.Accepted), c.get(t, "accepted"))
				require.Equal(t, decimal(tc.want.LastArrival), c.get(t, "last"))
			})
		}
	}
}

// Counts of a later epoch are ignored.
func TestPublishAddsCountsOfAnEarlierEpoch(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t) // the epoch begins without applications
	c.accept(t, 1, 2)
	for _, step := range []struct {
		accepted int64
		since    coupon.Arrival
		want     int64
	}{
		{5, µs(noon) - 1, 7}, {5, µs(noon) - 1, 7}, {6, µs(noon) - 2, 8}, {8, µs(noon), 8}, {9, µs(noon), 9},
		{100, µs(noon) + 1, 9},
	} {
		now, _, err := c.Publish(t.Context(), w, coupon.Promise{Accepted: step.accepted, Since: step.since})
		require.NoError(t, err)
		require.Equal(t, step.want, now.Accepted, step)
	}
}

func TestApplyCarriesPublishedPromise(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(*fixture, coupon.Window){
		"from mysql": func(c *fixture, w coupon.Window) {
			_, _, err := c.Publish(t.Context(), w, coupon.Promise{Accepted: 41, LastArrival: µs(noon) + 999})
			require.NoError(t, err)
		},
		"from redis": func(c *fixture, w coupon.Window) {
			c.set(t, "accepted", 41)
			c.set(t, "last", µs(noon)+999)
			c.publish(t, w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCoupon(t)
			c.recorder()
			w := c.open(t)
			learn(c, w)
			require.NoError(t, c.rdb.HDel(t.Context(), c.state, "accepted", "last").Err())
			require.Equal(t, µs(noon)+1000, c.accept(t, 7)[0].Arrival)
			require.Equal(t, "42", c.get(t, "accepted"))
		})
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
			c.add(t, c.issued, "3")
			c.add(t, c.rejected, "4")
			require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "2", "{}").Err())
			for _, key := range []string{c.queue, c.state, c.issued, c.rejected} {
				require.NoError(t, c.rdb.Expire(t.Context(), key, time.Minute).Err())
			}
			want := max(noon.Unix(), closes.Unix()) + int64(testTTL/time.Second)
			for range 2 {
				require.NoError(t, c.Renew(t.Context(), c.id, closes))
				for _, key := range []string{c.queue, c.state, c.issued, c.rejected} {
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
		require.Equal(t, sold, c.counts(t).Sold)
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
	c.add(t, c.issued, "1")
	c.add(t, c.rejected, "2")
	require.NoError(t, c.rdb.HSet(t.Context(), c.reason, "9", "{}").Err(), "a reason without an entry")
	c.freeze(closes)
	for range 2 {
		c.sweep(t, true, closes)
		c.requireExists(t, false, c.queue, c.issued, c.rejected, c.dlq, c.reason)
		require.Equal(t, decimal(µs(closes)), c.get(t, "closes"), "the state stays for a while")
		requireLives(t, c, 600*time.Second)
	}
	require.Equal(t, Closed, c.apply(t, 7).Code)
}

func TestSweepKeepsUnfinishedCoupons(t *testing.T) {
	t.Parallel()
	closes := noon.Add(time.Hour)
	for name, tc := range map[string]struct {
		now, published, given time.Time
		queue, dlq            []place
	}{
		"an entry in the queue":          {now: closes, published: closes, given: closes, queue: []place{{"1", "7"}}},
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
			c.add(t, c.issued, "1")
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
