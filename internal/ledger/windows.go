package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
)

// difference is a coupon whose window in Redis is not that of its row.
type difference struct{ row, redis coupon.Window }

func sameWindow(a, b coupon.Window) bool {
	return a.Opens.Equal(b.Opens) && a.Closes.Equal(b.Closes) && a.Paused == b.Paused
}

func describe(w coupon.Window) string {
	return fmt.Sprintf("from %s to %s, paused %t", stamp(w.Opens), stamp(w.Closes), w.Paused)
}

// CheckWindows finds coupons whose published window is not the window in Redis, and adds the findings to the verdicts. It compares
// twice; wait must take longer than a change takes to reach Redis, so that a change under way is no finding.
//
// There are two signs of a publication. An API pod writes the catalog's snapshot after it has published the windows in it. And
// Redis stores the version of its window: with the row's version or a newer one, Redis does not take the row's window again.
// Without either sign, for example while no pod runs, there is no finding.
func (l *Ledger) CheckWindows(ctx context.Context, db *sql.DB, coupons []*Verdict, wait func(ctx context.Context) error) error {
	first, err := l.differences(ctx, db, coupons)
	if err != nil || len(first) == 0 {
		return err
	}
	if err := wait(ctx); err != nil {
		return err
	}
	second, err := l.differences(ctx, db, slices.Collect(maps.Keys(first)))
	for v, d := range second {
		if was := first[v].row; was.Version == d.row.Version && sameWindow(was, d.row) {
			v.find(6, DoorDiffers, 1, "the coupon's row has the window %s, Redis has %s", describe(d.row), describe(d.redis))
		}
	}
	return err
}

// differences compares each coupon once. A finalised coupon has no window in Redis.
func (l *Ledger) differences(ctx context.Context, db *sql.DB, coupons []*Verdict) (map[*Verdict]difference, error) {
	published, err := l.publishedWindows(ctx) // before the windows in Redis: pods write the snapshot after them
	if err != nil {
		return nil, err
	}
	found := map[*Verdict]difference{}
	for _, v := range coupons {
		var c coupon.Coupon
		err := db.QueryRowContext(ctx, checkedSQL, v.Coupon).Scan(c.Fields()...)
		if errors.Is(err, sql.ErrNoRows) || c.Finalised() {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("compare windows of coupon %d: %w", v.Coupon, err)
		}
		is, err := l.Store.Inspect(ctx, v.Coupon)
		if err != nil {
			return nil, err
		}
		d := difference{c.Window(), coupon.Window{Opens: is.Opens, Closes: is.Closes, Paused: is.Paused}}
		was, known := published[v.Coupon]
		if is.Known && !sameWindow(d.row, d.redis) && (known && sameWindow(was, d.row) || is.Version >= d.row.Version) {
			found[v] = d
		}
	}
	return found, nil
}

// publishedWindows are the windows of the catalog's snapshot; none when it is unreadable.
func (l *Ledger) publishedWindows(ctx context.Context) (map[coupon.CouponID]coupon.Window, error) {
	text, err := l.Store.LoadCatalog(ctx)
	if err != nil {
		return nil, err
	}
	var snapshot struct{ Coupons []coupon.Coupon }
	if json.Unmarshal(text, &snapshot) != nil {
		return nil, nil
	}
	published := make(map[coupon.CouponID]coupon.Window, len(snapshot.Coupons))
	for _, c := range snapshot.Coupons {
		published[c.ID] = c.Window()
	}
	return published, nil
}
