package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// window is when Redis accepts applications.
type window struct {
	opens, closes int64 // µs since 1970
	paused        bool
}

func windowOf(opens, closes time.Time, paused bool) window {
	return window{opens.UnixMicro(), closes.UnixMicro(), paused}
}

func (w window) String() string {
	status := "OPEN"
	if w.paused {
		status = "PAUSED"
	}
	return fmt.Sprintf("%s from %s to %s", status, stamp(time.UnixMicro(w.opens)), stamp(time.UnixMicro(w.closes)))
}

// difference is a coupon whose window in Redis is not that of its row.
type difference struct {
	row, door window
	version   int64 // of the row
}

// Doors finds coupons whose published window is not the window in Redis, and adds the findings to the verdicts. It compares
// twice; wait must take longer than a change takes to reach Redis, so that a change under way is no finding.
//
// There are two signs of a publication. An API pod writes the catalog's snapshot after it has published the windows in it. And
// Redis stores the version of its window: with the row's version or a newer one, Redis does not take the row's window again.
// Without either sign, for example while no pod runs, there is no finding.
func (l *Ledger) Doors(ctx context.Context, db *sql.DB, coupons []*Verdict, wait func(ctx context.Context) error) error {
	first, err := l.differences(ctx, db, coupons)
	if err != nil || len(first) == 0 {
		return err
	}
	if err := wait(ctx); err != nil {
		return err
	}
	second, err := l.differences(ctx, db, slices.Collect(maps.Keys(first)))
	if err != nil {
		return err
	}
	for v, d := range second {
		if was := first[v]; was.row == d.row && was.version == d.version {
			v.find(6, DoorDiffers, 1, "the coupon's row has the window %s, Redis has %s", d.row, d.door)
		}
	}
	return nil
}

const doorRowSQL = "SELECT apply_opens_at, apply_closes_at, status = 'PAUSED', version FROM coupon WHERE id = ? AND finalised_at IS NULL"

// differences compares each coupon once. A finalised coupon has no window in Redis.
func (l *Ledger) differences(ctx context.Context, db *sql.DB, coupons []*Verdict) (map[*Verdict]difference, error) {
	published, err := l.publishedWindows(ctx) // before Redis, which has each window of the snapshot by then
	if err != nil {
		return nil, err
	}
	found := map[*Verdict]difference{}
	for _, v := range coupons {
		var opens, closes time.Time
		var paused bool
		var version int64
		err := db.QueryRowContext(ctx, doorRowSQL, v.Coupon).Scan(&opens, &closes, &paused, &version)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("compare windows of coupon %d: %w", v.Coupon, err)
		}
		door, err := l.Store.Inspect(ctx, v.Coupon)
		if err != nil {
			return nil, err
		}
		d := difference{windowOf(opens, closes, paused), windowOf(door.Opens, door.Closes, door.Paused), version}
		was, known := published[v.Coupon]
		if door.Known && d.row != d.door && (known && was == d.row || door.Version >= d.version) {
			found[v] = d
		}
	}
	return found, nil
}

// publishedWindows are the windows of the catalog's snapshot; none when it is unreadable.
func (l *Ledger) publishedWindows(ctx context.Context) (map[coupon.CouponID]window, error) {
	text, err := l.Store.LoadCatalog(ctx)
	if err != nil {
		return nil, err
	}
	var snapshot struct {
		Coupons []struct {
			ID       coupon.CouponID `json:"id"`
			OpensAt  time.Time       `json:"opensAt"`
			ClosesAt time.Time       `json:"closesAt"`
			Paused   bool            `json:"paused"`
		} `json:"coupons"`
	}
	if json.Unmarshal(text, &snapshot) != nil {
		return nil, nil
	}
	published := make(map[coupon.CouponID]window, len(snapshot.Coupons))
	for _, c := range snapshot.Coupons {
		published[c.ID] = windowOf(c.OpensAt, c.ClosesAt, c.Paused)
	}
	return published, nil
}
