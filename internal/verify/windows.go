package verify

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

type difference struct{ row, redis coupon.Window }

func sameWindow(a, b coupon.Window) bool {
	return a.Opens.Equal(b.Opens) && a.Closes.Equal(b.Closes) && a.Paused == b.Paused && a.LineLimit == b.LineLimit
}

func describe(w coupon.Window) string {
	return fmt.Sprintf("from %s to %s, paused %t, line limit %d", stamp(w.Opens), stamp(w.Closes), w.Paused,
		w.LineLimit)
}

// CheckWindows finds coupons whose window was published, although Redis has another one. It compares those that Check
// found to differ, twice. wait must take longer than a change takes to reach Redis, so that a change under way is no
// finding.
//
// A window was published if the catalog's snapshot has it, which API pods write after the windows, or if Redis has the
// version of the coupon's row or a newer one. Without either, for example while no pod runs, there is no finding.
func (r *Verifier) CheckWindows(ctx context.Context, db *sql.DB, coupons []*Verdict,
	wait func(ctx context.Context) error) error {
	suspects := slices.DeleteFunc(slices.Clone(coupons), func(v *Verdict) bool { return !v.otherWindow })
	if len(suspects) == 0 {
		return nil
	}
	first, err := r.differences(ctx, db, suspects)
	if err != nil || len(first) == 0 {
		return err
	}
	if err := wait(ctx); err != nil {
		return err
	}
	second, err := r.differences(ctx, db, slices.Collect(maps.Keys(first)))
	for v, d := range second {
		if was := first[v].row; was.Version == d.row.Version && sameWindow(was, d.row) {
			v.find(6, DoorDiffers, 1, "the coupon's row has the window %s, Redis has %s", describe(d.row),
				describe(d.redis))
		}
	}
	return err
}

// differ reports whether a coupon has another window in Redis. A finalised coupon has none there.
func differ(row coupon.Coupon, redis candidates.Inspection) bool {
	return redis.Known && !row.Finalised() && !sameWindow(row.Window(), windowOf(redis))
}

func windowOf(is candidates.Inspection) coupon.Window {
	return coupon.Window{Opens: is.Opens, Closes: is.Closes, Paused: is.Paused, LineLimit: is.LineLimit}
}

// differences compares each coupon once.
func (r *Verifier) differences(ctx context.Context, db *sql.DB, coupons []*Verdict) (map[*Verdict]difference, error) {
	published, err := r.publishedWindows(ctx) // first, because pods write the snapshot after the windows in Redis
	if err != nil {
		return nil, err
	}
	found := map[*Verdict]difference{}
	for _, v := range coupons {
		var c coupon.Coupon
		err := db.QueryRowContext(ctx, couponSQL, v.Coupon).Scan(c.Fields()...)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("compare windows of coupon %d: %w", v.Coupon, err)
		}
		is, err := r.Store.Inspect(ctx, v.Coupon)
		if err != nil {
			return nil, err
		}
		was, known := published[v.Coupon]
		if differ(c, is) && (known && sameWindow(was, c.Window()) || is.Version >= c.Window().Version) {
			found[v] = difference{c.Window(), windowOf(is)}
		}
	}
	return found, nil
}

// publishedWindows returns the windows in the catalog's snapshot, or none if the snapshot is not valid JSON.
func (r *Verifier) publishedWindows(ctx context.Context) (map[coupon.CouponID]coupon.Window, error) {
	text, err := r.Store.LoadCatalog(ctx)
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
