package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestRefresh_PublishesWindowStatusAndSeats(t *testing.T) {
	w := newWorld(t)
	require.False(t, w.catalog.Loaded())
	_, known := w.catalog.Age()
	require.False(t, known)
	before := time.Now().Truncate(time.Microsecond)
	w.coupon(1)
	after := time.Now()
	w.refresh()
	require.True(t, w.catalog.Loaded())
	_, known = w.catalog.Age()
	require.True(t, known)

	found, ok := w.catalog.Lookup(1)
	require.True(t, ok)
	require.Equal(t, "자정 쿠폰", found.Name)
	require.Equal(t, 10, found.Free())
	require.Equal(t, time.UTC, found.OpensAt.Location())
	require.WithinRange(t, found.OpensAt, before.Add(-time.Hour), after.Add(-time.Hour))
	require.WithinRange(t, found.ClosesAt, before.Add(24*time.Hour), after.Add(24*time.Hour))
	require.Equal(t, candidates.Accepted, w.apply(1, 7).Code)

	w.exec("UPDATE coupon SET status = 'PAUSED', issued_count = 3, total_quantity = 20 WHERE id = 1")
	require.Equal(t, candidates.Accepted, w.apply(1, 8).Code, "not before the refresh")
	w.refresh()
	require.Equal(t, candidates.Paused, w.apply(1, 9).Code)
	paused, _ := w.catalog.Lookup(1)
	require.True(t, paused.Paused())
	require.Equal(t, 17, paused.Free())

	w.exec("UPDATE coupon SET status = 'OPEN', line_limit = 2, version = version + 1 WHERE id = 1")
	w.refresh()
	require.Equal(t, candidates.LineFull, w.apply(1, 9).Code)
	w.exec("UPDATE coupon SET line_limit = NULL, version = version + 1 WHERE id = 1")
	w.refresh()
	require.Equal(t, candidates.Accepted, w.apply(1, 9).Code)

	w.exec("UPDATE coupon SET apply_opens_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id = 1")
	w.refresh()
	require.Equal(t, candidates.NotOpen, w.apply(1, 9).Code)

	w.exec("UPDATE coupon SET apply_opens_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR, apply_closes_at = " +
		"UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE id = 1")
	w.refresh()
	require.Equal(t, candidates.Closed, w.apply(1, 9).Code)
}

func TestRefresh_ReadsFromThirtyDaysBeforeOpeningToThirtyAfterClosing(t *testing.T) {
	w := newWorld(t)
	w.couponBetween(1, "29 DAY", "40 DAY")
	w.couponBetween(2, "31 DAY", "40 DAY")
	w.couponBetween(3, "-60 DAY", "-29 DAY")
	w.couponBetween(4, "-60 DAY", "-31 DAY")
	w.coupon(5)
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = 5")
	w.refresh()
	w.requireKnown(map[coupon.CouponID]bool{1: true, 2: false, 3: true, 4: false, 5: true, 6: false})
	finalised, _ := w.catalog.Lookup(5)
	require.True(t, finalised.Finalised())
	require.Equal(t, candidates.NoWindow, w.apply(5, 7).Code, "a finalised coupon has no window in Redis")
	require.Equal(t, candidates.NotOpen, w.apply(1, 7).Code)
	require.Equal(t, candidates.Closed, w.apply(3, 7).Code)
}

// slow is a process that has read MySQL and pauses before it publishes.
type slow struct {
	*candidates.Store
	reached, released chan struct{}
	once              sync.Once
}

func (s *slow) Publish(ctx context.Context, w coupon.Window, p coupon.Arrival) (candidates.Published, bool, error) {
	s.once.Do(func() { close(s.reached) })
	<-s.released
	return s.Store.Publish(context.WithoutCancel(ctx), w, p) // its time is over
}

func TestRefresh_OlderWindowNeverReplacesNewer(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	store, _ := w.process()
	slow := &slow{Store: store, reached: make(chan struct{}), released: make(chan struct{})}
	behind := w.catalogOver(slow)
	done := make(chan error, 1)
	go func() { done <- w.refreshOf(behind) }()
	<-slow.reached

	w.exec("UPDATE coupon SET status = 'PAUSED', version = version + 1 WHERE id = 1")
	w.refresh()
	require.Equal(t, candidates.Paused, w.apply(1, 7).Code)
	close(slow.released)
	require.NoError(t, <-done)
	require.Equal(t, candidates.Paused, w.apply(1, 7).Code)
	require.NoError(t, w.refreshOf(behind), "the next refresh reads the newer window")
	require.Equal(t, candidates.Paused, w.apply(1, 7).Code)
}

// A process that has seen nothing continues above what MySQL knows.
func TestRefresh_RestoresWindowAndLiftsArrivalsOfEmptiedRedis(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	w.coupon(2)
	w.refresh()
	journalled, settled := w.apply(1, 7), w.apply(2, 8)
	w.journal(1, promise.Mark{UpTo: journalled.Arrival + 3_000_000}, 0, 0)
	w.exec("INSERT INTO settled (coupon_id, settled_up_to) VALUES (2, ?)", settled.Arrival+60_000_000)
	w.forget(1)
	w.forget(2)

	w.store, w.catalog = w.process()
	require.Equal(t, candidates.NoWindow, w.apply(1, 9).Code)
	w.refresh()
	for id, known := range map[coupon.CouponID]coupon.Arrival{
		1: journalled.Arrival + 3_000_000, 2: settled.Arrival + 60_000_000,
	} {
		look, err := w.store.Look(t.Context(), id, coupon.Known{})
		require.NoError(t, err)
		require.Equal(t, known, look.Last)
	}
	require.Equal(t, candidates.ClockBehind, w.apply(2, 9).Code)
}

// broken fails for one coupon, and for the snapshot.
type broken struct {
	*candidates.Store
	coupon coupon.CouponID
}

var errBroken = errors.New("broken")

func (b broken) Publish(ctx context.Context, w coupon.Window, p coupon.Arrival) (candidates.Published, bool, error) {
	if w.Coupon == b.coupon || b.coupon == 0 {
		return candidates.Published{}, false, fmt.Errorf("coupon %d: %w", w.Coupon, errBroken)
	}
	return b.Store.Publish(ctx, w, p)
}

// Somebody has written an up_to that no clock has reached. It stops nobody from applying.
func TestRefresh_LiftsArrivalsByNoUpToAheadOfTheClock(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	w.journal(1, promise.Mark{Epoch: "before:1", UpTo: coupon.ArrivalAt(time.Now().Add(time.Hour))}, 1, 0)
	w.refresh()
	require.Equal(t, candidates.Accepted, w.apply(1, 7).Code)
}

func TestRefresh_FailureOfOneCouponStopsNoOther(t *testing.T) {
	w := newWorld(t)
	for id := range coupon.CouponID(9) {
		w.coupon(id + 1)
	}
	err := w.refreshOf(w.catalogOver(broken{w.store, 4}))
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "coupon 4")
	for id := range coupon.CouponID(9) {
		want := candidates.Accepted
		if id+1 == 4 {
			want = candidates.NoWindow
		}
		require.Equal(t, want, w.apply(id+1, 7).Code)
	}

	err = w.refreshOf(w.catalogOver(broken{w.store, 0}))
	require.ErrorContains(t, err, "and 4 more coupons", "the number of messages is bounded")
}

// What Redis says of a coupon stays beside it until the next window is published.
func TestRefresh_KeepsWhatRedisSays(t *testing.T) {
	w := newWorld(t)
	_, _, ok := w.catalog.Read(1)
	require.False(t, ok, "nothing is known yet")
	w.coupon(1)
	w.coupon(2)
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6), issued_count = 10 WHERE id = 2")
	w.refresh()
	_, first, ok := w.catalog.Read(1)
	require.True(t, ok)
	require.Zero(t, first.Waiting)
	require.False(t, first.Sold)

	w.apply(1, 7)
	w.apply(1, 8)
	require.NoError(t, w.store.SetSold(t.Context(), 1, true))
	_, again, _ := w.catalog.Read(1)
	require.Equal(t, first, again, "not before the next refresh")
	before := time.Now().Truncate(time.Microsecond)
	w.refresh()
	one, second, _ := w.catalog.Read(1)
	require.Equal(t, 10, one.Free())
	require.EqualValues(t, 2, second.Waiting)
	require.True(t, second.Sold)
	require.True(t, second.Now.After(first.Now))
	require.WithinRange(t, second.SeenAt, before, time.Now())

	// A window that could not be published leaves the older reading.
	failing := broken{w.store, 9}
	pod := w.catalogOver(&failing)
	require.NoError(t, w.refreshOf(pod))
	_, third, _ := pod.Read(1)
	require.EqualValues(t, 2, third.Waiting)
	w.apply(1, 9)
	failing.coupon = 1
	require.Error(t, w.refreshOf(pod))
	_, kept, ok := pod.Read(1)
	require.True(t, ok)
	require.Equal(t, third, kept)

	// No window is published for a finalised coupon.
	finalised, none, ok := pod.Read(2)
	require.True(t, ok && finalised.Finalised())
	require.False(t, none.Read())
	require.True(t, none.Sold)
	require.WithinRange(t, none.Now, before, time.Now())
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = 1")
	failing.coupon = 9
	require.NoError(t, w.refreshOf(pod))
	_, none, _ = pod.Read(1)
	require.False(t, none.Read(), "the reading was of a coupon that went on")
	_, _, ok = pod.Read(3)
	require.False(t, ok)
}

func TestRefresh_UnreadableRowStopsNoOther(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	w.coupon(2)
	w.exec("UPDATE coupon SET version = 18446744073709551615 WHERE id = 1")
	require.ErrorContains(t, w.refreshOf(w.catalog), "read a coupon: coupon 1: ")
	_, ok := w.catalog.Lookup(1)
	require.False(t, ok)
	require.Equal(t, candidates.Accepted, w.apply(2, 7).Code)
}

func TestRefresh_LoadsSnapshotWithoutMySQL(t *testing.T) {
	w := newWorld(t)
	began := time.Now().Truncate(time.Microsecond)
	w.coupon(1)
	w.refresh()
	_, second := w.process()
	require.NoError(t, w.refreshOf(second))
	w.exec("UPDATE coupon SET issued_count = 4 WHERE id = 1")
	w.refresh()
	w.exec("RENAME TABLE coupon TO elsewhere")

	_, fresh := w.process()
	require.Error(t, w.refreshOf(fresh))
	require.True(t, fresh.Loaded())
	_, known := fresh.Age()
	require.False(t, known, "this process has never read MySQL")
	found, ok := fresh.Lookup(1)
	require.True(t, ok)
	require.Equal(t, 6, found.Free())
	_, unread, ok := fresh.Read(1)
	require.True(t, ok)
	require.False(t, unread.Read(), "this process has published no window")
	require.WithinRange(t, unread.Now, began, time.Now(), "the time of the snapshot")
	_, before, _ := second.Read(1)
	require.True(t, before.Read())
	require.Equal(t, candidates.Accepted, w.apply(1, 7).Code)

	require.Error(t, w.refreshOf(second))
	found, _ = second.Lookup(1)
	require.Equal(t, 6, found.Free(), "a newer snapshot replaces the coupons")
	_, after, _ := second.Read(1)
	require.Equal(t, before, after, "and leaves what Redis said")
	_, known = second.Age()
	require.True(t, known)

	// An older snapshot replaces nothing.
	require.NoError(t, w.store.SaveCatalog(t.Context(), []byte(`{"at":"2020-01-01T00:00:00Z","coupons":[]}`)))
	require.Error(t, w.refreshOf(second))
	_, ok = second.Lookup(1)
	require.True(t, ok)

	// An unreadable snapshot replaces nothing.
	require.NoError(t, w.store.SaveCatalog(t.Context(), []byte(`{`)))
	require.ErrorContains(t, w.refreshOf(second), "decode catalog snapshot")

	w.exec("RENAME TABLE elsewhere TO coupon")
	require.NoError(t, w.refreshOf(fresh))
	_, known = fresh.Age()
	require.True(t, known)
}

func TestRefresh_IsNotLoadedWithoutMySQLAndSnapshot(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.catalog.DB.Close())
	require.Error(t, w.refreshOf(w.catalog))
	require.False(t, w.catalog.Loaded())
}

func TestRefresh_RefreshesMemoryWithoutRedis(t *testing.T) {
	w := newWorld(t)
	coupons := w.catalogOver(storeAt(t, "127.0.0.1:1"))
	w.coupon(1)
	require.Error(t, coupons.Refresh(t.Context()))
	_, ok := coupons.Lookup(1)
	require.True(t, ok)
}

func TestRefresh_KeepsOpenCouponsAboveTheLimit(t *testing.T) {
	w := newWorld(t)
	w.couponBetween(1_000_000, "-1 HOUR", "300 DAY")
	values := make([]string, 1000)
	for batch := range catalog.MaxCoupons/1000 + 1 {
		for i := range values {
			id := batch*1000 + i + 1
			values[i] =
				fmt.Sprintf(
					"(%d, 'c', 1, UTC_TIMESTAMP(6) - INTERVAL 20 DAY, UTC_TIMESTAMP(6) - INTERVAL %d MINUTE, "+
						"UTC_TIMESTAMP(6))", id, id)
		}
		w.exec("INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at, finalised_at) VALUES " +
			strings.Join(values, ","))
	}
	w.refresh()
	w.requireKnown(map[coupon.CouponID]bool{1_000_000: true, 1: true, catalog.MaxCoupons - 1: true,
		catalog.MaxCoupons: false})
}

func TestRunRefreshesUntilItsContextEnds(t *testing.T) {
	w := newWorld(t)
	coupons := catalog.New(catalog.Options{DB: w.db, Store: w.store, Memory: w.memory, Logger: zap.NewNop(),
		Interval: 10 * time.Millisecond, Now: time.Now})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); coupons.Run(ctx) }()
	w.coupon(1)
	testenv.Eventually(t, "the catalog has the coupon", func() bool { _, ok := coupons.Lookup(1); return ok })
	cancel()
	<-done
}
