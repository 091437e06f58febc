package catalog_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
)

// listener is a Memory that notes what it is told.
type listener struct {
	mu  sync.Mutex
	all []string
}

func (l *listener) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func (l *listener) Journalled(id coupon.CouponID, m promise.Mark) {
	l.note("%d: %s %d", id, m.Epoch, m.UpTo)
}
func (l *listener) Forget(id coupon.CouponID) { l.note("%d ended", id) }

// A coupon whose Redis is silent is left out: nobody knows whether a restore has ended there.
func TestRefresh_TellsTheMemoryHowFarTheJournalsCame(t *testing.T) {
	w := newWorld(t)
	for id := range coupon.CouponID(4) {
		w.coupon(id + 1)
	}
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) - INTERVAL 301 SECOND WHERE id = 3")
	w.coupon(5) // its end can be lost again
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = 5")
	for id := range coupon.CouponID(3) {
		w.journal(id+2, promise.Mark{Epoch: "run:7", UpTo: coupon.Arrival(10 * (id + 2))}, 0, 0)
	}
	var heard listener
	o := w.options(broken{w.store, 4})
	o.Memory = &heard
	require.ErrorIs(t, w.refreshOf(catalog.New(o)), errBroken)
	slices.Sort(heard.all)
	require.Equal(t, []string{"1:  0", "2: run:7 20", "3 ended"}, heard.all)
}

// Nobody writes the journal: its count must show what Redis loses all the same.
func TestRefresh_NotesTheCountInAnOldJournal(t *testing.T) {
	w := newWorld(t)
	const old, young = 6 * time.Second, time.Second
	for id := range coupon.CouponID(7) {
		w.coupon(id + 1)
	}
	w.refresh()
	for id := range coupon.CouponID(7) {
		w.apply(id+1, 7)
		w.apply(id+1, 8)
		if id+1 != 3 {
			w.restored(id + 1)
		}
	}
	w.journal(1, promise.Mark{}, 1, old)
	w.journal(2, promise.Mark{}, 1, young)
	w.journal(3, promise.Mark{}, 1, old) // its server was not compared: its restore would take newcomers for lost
	w.journal(4, promise.Mark{}, 5, old)
	w.journal(5, promise.Mark{}, 1, old) // is locked
	w.journal(6, promise.Mark{}, 1, old)
	lock, err := w.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = lock.Rollback() }()
	_, err = lock.ExecContext(t.Context(), "UPDATE journal SET unfound = 1 WHERE coupon_id = 5")
	require.NoError(t, err)
	waited := false
	require.NoError(t, testenv.InTime(t, func() error {
		err := w.catalog.Refresh(t.Context())
		if waited = mysqltx.IsLockWait(err); waited {
			return nil
		}
		return err
	}))
	require.False(t, waited, "for the locked row")
	for id, want := range map[coupon.CouponID]int64{1: 2, 2: 1, 3: 1, 4: 5, 6: 2} {
		require.Equal(t, want, w.accepted(id), "coupon %d", id)
	}
	require.NoError(t, lock.Rollback())
	require.EqualValues(t, 1, w.accepted(5))
	w.refresh()
	require.EqualValues(t, 2, w.accepted(5))
	var rows int
	require.NoError(t, w.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM journal").Scan(&rows))
	require.Equal(t, 6, rows, "the task makes the rows")
}

// A journal is late if it lacks applications and nobody has written it for a minute. Otherwise its age does not matter.
func TestJournalLate(t *testing.T) {
	w := newWorld(t)
	core, logs := observer.New(zap.InfoLevel)
	w.logger = zap.New(core)
	clock := time.Now()
	o := w.options(w.store)
	o.Now = func() time.Time { return clock }
	coupons := catalog.New(o)
	refresh := func() {
		t.Helper()
		require.NoError(t, w.refreshOf(coupons))
	}
	passes := func(d time.Duration) { // on both clocks
		t.Helper()
		clock = clock.Add(d)
		w.exec("UPDATE journal SET written_at = written_at - INTERVAL ? MICROSECOND", d.Microseconds())
	}
	require.NoError(t, coupons.JournalLate())
	age := func() float64 { return gauges(t, coupons.Metrics()[1], "jajeong_journal_age_seconds")[""] }
	w.coupon(1)
	w.coupon(2)
	refresh()
	last := w.apply(1, 7)
	w.journal(1, promise.Mark{Epoch: w.epoch(1), UpTo: last.Arrival}, 1, time.Hour)
	refresh()
	passes(2 * time.Minute)
	refresh()
	require.Zero(t, age(), "the journal has everybody, and coupon 2 has nobody")

	last = w.apply(1, 8)
	refresh()
	require.Zero(t, age(), "a refresh has just found somebody whom the journal lacks")
	passes(50 * time.Second)
	w.journal(1, promise.Mark{Epoch: w.epoch(1), UpTo: last.Arrival - 1}, 1, 20*time.Second)
	refresh()
	require.InDelta(t, 20, age(), 3, "somebody writes it")
	require.NoError(t, coupons.JournalLate())
	passes(41 * time.Second)
	require.ErrorContains(t, coupons.JournalLate(), "the journal of coupon 1 is 6")
	require.Empty(t, logs.All())
	w.apply(2, 7) // this coupon has no journal, but for a shorter time
	refresh()
	passes(10 * time.Second)
	refresh()
	require.InDelta(t, 71, age(), 3)
	require.ErrorContains(t, coupons.JournalLate(), "the journal of coupon 1 is 7")
	require.Equal(t, 1, logs.FilterMessageSnippet("journal is late").FilterField(zap.Uint64("coupon_id", 1)).Len())

	w.journal(1, promise.Mark{Epoch: w.epoch(1), UpTo: last.Arrival}, 1, 0)
	refresh()
	require.InDelta(t, 10, age(), 0.01, "of coupon 2")
	require.NoError(t, coupons.JournalLate())
	require.Equal(t, 1, logs.FilterMessage("journal has caught up").Len())

	w.journal(2, promise.Mark{Epoch: "before:1", UpTo: coupon.MaxArrival}, 1, time.Hour)
	passes(time.Minute)
	require.NoError(t, coupons.DB.Close()) // without MySQL, the journals are as they were
	require.Error(t, coupons.Refresh(t.Context()))
	require.ErrorContains(t, coupons.JournalLate(), "the journal of coupon 2 is 70 s old")
	require.Equal(t, 2, logs.FilterMessageSnippet("journal is late").Len())
}
