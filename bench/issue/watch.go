package issue

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// watchPause is the resolution: a row is seen at most this time, and one statement, after its commit.
	watchPause = 5 * time.Millisecond
	// A missing id is looked for this long. Afterwards it belongs to a transaction that was rolled back.
	missingFor = 3 * time.Second
	// Wider gaps are not looked into. Only inserts of several rows at once leave them, and those are one transaction.
	widestGap    = 600
	watchTimeout = 2 * time.Second
)

// watcher stamps each row of user_coupon when another connection can read it. It asks every few milliseconds with one
// connection. Where commits raise coupon.issued_count by position, it reads that count of each coupon; else it reads
// the rows with new ids.
type watcher struct {
	db      *sql.DB
	counted bool
	began   time.Time

	visible []time.Duration // by user, since began; 0: not seen
	seen    atomic.Int64    // rows seen so far
	asked   int
	took    time.Duration

	counts  [][]sighting // by coupon, if counted
	highest int64        // id
	missing map[int64]time.Time
	stop    context.CancelFunc
	ended   chan struct{}
}

// sighting tells when a count was first seen.
type sighting struct {
	count int
	at    time.Duration
}

func watch(ctx context.Context, v *stand) *watcher {
	w := &watcher{db: v.DB, counted: v.contender.counted, began: time.Now(), visible: make([]time.Duration, v.users+1),
		counts: make([][]sighting, v.coupons+1), missing: map[int64]time.Time{}, ended: make(chan struct{})}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		defer close(w.ended)
		for ctx.Err() == nil {
			w.ask(ctx)
			time.Sleep(watchPause)
		}
	}()
	return w
}

// end stops watching. Afterwards visible is complete.
func (w *watcher) end(rows []row) {
	w.stop()
	<-w.ended
	if !w.counted {
		return
	}
	for _, r := range rows {
		sightings := w.counts[r.coupon]
		i, _ := slices.BinarySearchFunc(sightings, int(r.place),
			func(s sighting, place int) int { return s.count - place })
		if i < len(sightings) {
			w.visible[r.user] = sightings[i].at
		}
	}
}

// ask reads once. Errors mean that MySQL is away: the next call asks again.
func (w *watcher) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	began := time.Now()
	read := w.readRows
	if w.counted {
		read = w.readCounts
	}
	if read(ctx) == nil {
		w.asked++
		w.took += time.Since(began)
	}
}

func (w *watcher) readCounts(ctx context.Context) error {
	return stage.Each(ctx, w.db, func(rows *sql.Rows) error {
		var id, count int
		if err := rows.Scan(&id, &count); err != nil {
			return err
		}
		before := 0
		if n := len(w.counts[id]); n > 0 {
			before = w.counts[id][n-1].count
		}
		if count > before {
			at := time.Since(w.began)
			w.counts[id] = append(w.counts[id], sighting{count, at})
			w.seen.Add(int64(count - before))
		}
		return nil
	}, "SELECT id, issued_count FROM coupon")
}

func (w *watcher) readRows(ctx context.Context) error {
	if len(w.missing) > 0 {
		late := make([]any, 0, len(w.missing))
		for id, since := range w.missing {
			if time.Since(since) > missingFor {
				delete(w.missing, id)
				continue
			}
			late = append(late, id)
		}
		if len(late) > 0 {
			query := "SELECT id, user_id FROM user_coupon WHERE id IN " + mysqltx.In(len(late))
			if err := w.readIDs(ctx, query, late...); err != nil {
				return err
			}
		}
	}
	return w.readIDs(ctx, "SELECT id, user_id FROM user_coupon WHERE id > ? ORDER BY id", w.highest)
}

func (w *watcher) readIDs(ctx context.Context, query string, args ...any) error {
	return stage.Each(ctx, w.db, func(rows *sql.Rows) error {
		var id int64
		var user int
		if err := rows.Scan(&id, &user); err != nil {
			return err
		}
		at := time.Since(w.began)
		if id > w.highest {
			if id-w.highest <= widestGap {
				for gap := w.highest + 1; gap < id; gap++ {
					w.missing[gap] = time.Now()
				}
			}
			w.highest = id
		} else {
			delete(w.missing, id)
		}
		if w.visible[user] == 0 {
			w.visible[user] = at
			w.seen.Add(1)
		}
		return nil
	}, query, args...)
}

// readIssued reads all rows.
func (v *stand) readIssued(ctx context.Context) (all []row, err error) {
	err = stage.Each(ctx, v.DB, func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.coupon, &r.user, &r.place)
		all = append(all, r)
		return err
	}, "SELECT coupon_id, user_id, "+v.contender.place+" FROM user_coupon")
	return all, err
}

// readNotSelected reads whom Jajeong has told that all seats are issued. The others say so when a user presses.
func (v *stand) readNotSelected(ctx context.Context) (map[key]bool, error) {
	all := map[key]bool{}
	if v.contender.name != yardstick {
		return all, nil
	}
	return all, stage.Each(ctx, v.DB, func(rows *sql.Rows) error {
		var k key
		err := rows.Scan(&k.coupon, &k.user)
		all[k] = true
		return err
	}, "SELECT coupon_id, user_id FROM application_outcome WHERE outcome = 'NOT_SELECTED'")
}
