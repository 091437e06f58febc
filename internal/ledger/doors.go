package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// window is what a door goes by.
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

// apart is a coupon whose door goes by another window than its row has.
type apart struct {
	*Verdict
	row, door window
	version   int64 // of the row
}

// Doors finds coupons whose door goes by another window than the row although the door has been told. It looks twice, with a wait
// between that must be longer than a change takes to reach the door: a change under way is no finding. What it finds stands among
// the findings of the coupons.
//
// That the door has been told is known from two traces. The catalog's snapshot is written by a pod when it has told the doors: it
// has the row's window then. And the door has the version of the row it goes by: one that is not older than the row's comes from
// this row, or keeps the row's window out. Where no pod refreshes, and nobody has told the door
// of a change, neither is so, and nothing is known.
func (l *Ledger) Doors(ctx context.Context, db *sql.DB, coupons []*Verdict, wait func(ctx context.Context) error) error {
	suspects, err := l.apart(ctx, db, coupons)
	if err != nil || len(suspects) == 0 {
		return err
	}
	if err := wait(ctx); err != nil {
		return err
	}
	again := make([]*Verdict, len(suspects))
	first := make(map[*Verdict]apart, len(suspects))
	for i, s := range suspects {
		again[i], first[s.Verdict] = s.Verdict, s
	}
	still, err := l.apart(ctx, db, again)
	if err != nil {
		return err
	}
	for _, s := range still {
		if was := first[s.Verdict]; was.row == s.row && was.version == s.version {
			s.find(6, DoorDiffers, 1, "the row says %s, the door goes by %s", s.row, s.door)
		}
	}
	return nil
}

const doorRowSQL = "SELECT apply_opens_at, apply_closes_at, status = 'PAUSED', version FROM coupon WHERE id = ? AND finalised_at IS NULL"

// apart looks at each coupon once. A finalised one has no door any more.
func (l *Ledger) apart(ctx context.Context, db *sql.DB, coupons []*Verdict) (found []apart, err error) {
	told, err := l.toldWindows(ctx) // before the doors: what is in it, they have been told
	if err != nil {
		return nil, err
	}
	for _, v := range coupons {
		var opens, closes time.Time
		var paused bool
		var version int64
		err := db.QueryRowContext(ctx, doorRowSQL, v.Coupon).Scan(&opens, &closes, &paused, &version)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("compare the door of coupon %d: %w", v.Coupon, err)
		}
		door, err := l.Store.Inspect(ctx, v.Coupon)
		if err != nil {
			return nil, err
		}
		a := apart{v, windowOf(opens, closes, paused), windowOf(door.Opens, door.Closes, door.Paused), version}
		was, known := told[v.Coupon]
		if door.Known && a.row != a.door && (known && was == a.row || door.Version >= a.version) {
			found = append(found, a)
		}
	}
	return found, nil
}

// toldWindows are the windows that the doors had been told when a pod last wrote the catalog's snapshot. One that cannot be read
// tells nothing.
func (l *Ledger) toldWindows(ctx context.Context) (map[uint64]window, error) {
	text, err := l.Store.LoadCatalog(ctx)
	if err != nil {
		return nil, err
	}
	var snapshot struct {
		Coupons []struct {
			ID       uint64    `json:"id"`
			OpensAt  time.Time `json:"opensAt"`
			ClosesAt time.Time `json:"closesAt"`
			Paused   bool      `json:"paused"`
		} `json:"coupons"`
	}
	if json.Unmarshal(text, &snapshot) != nil {
		return nil, nil
	}
	told := make(map[uint64]window, len(snapshot.Coupons))
	for _, c := range snapshot.Coupons {
		told[c.ID] = windowOf(c.OpensAt, c.ClosesAt, c.Paused)
	}
	return told, nil
}
