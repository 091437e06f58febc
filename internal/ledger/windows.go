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

type difference struct{ row, redis coupon.Window }

func sameWindow(a, b coupon.Window) bool {
	return a.Opens.Equal(b.Opens) && a.Closes.Equal(b.Closes) && a.Paused == b.Paused && a.LineLimit == b.LineLimit
}

func describe(w coupon.Window) string {
	return fmt.Sprintf("from %s to %s, paused %t, line limit %d", stamp(w.Opens), stamp(w.Closes), w.Paused, w.LineLimit)
}

// CheckWindows finds coupons whose window was published, although Redis has another one. It compares twice. wait must
// take longer than a change takes to reach Redis, so that a change under way is no finding.
//
// A window was published if the catalog's snapshot has it, which API pods write after the windows, or if Redis has the
// version of the coupon's row or a newer one. Without either, for example while no pod runs, there is no finding.
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

// differences compares each coupon once. It skips finalised coupons, which have no window in Redis.
func (l *Ledger) differences(ctx context.Context, db *sql.DB, coupons []*Verdict) (map[*Verdict]difference, error) {
	published, err := l.publishedWindows(ctx) // first, because pods write the snapshot after the windows in Redis
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
		d := difference{c.Window(), coupon.Window{Opens: is.Opens, Closes: is.Closes, Paused: is.Paused, LineLimit: is.LineLimit}}
		was, known := published[v.Coupon]
		if is.Known && !sameWindow(d.row, d.redis) && (known && sameWindow(was, d.row) || is.Version >= d.row.Version) {
			found[v] = d
		}
	}
	return found, nil
}

// publishedWindows returns the windows in the catalog's snapshot, or none if the snapshot is not valid JSON.
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
