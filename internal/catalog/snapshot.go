package catalog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
)

// saveSnapshot saves a reading for processes that cannot reach MySQL, unless Redis has a snapshot of the same coupons: with
// many coupons it has megabytes, and every process refreshes every few seconds.
func (c *Catalog) saveSnapshot(ctx context.Context, r *reading) error {
	saved := reading{At: r.At, Coupons: slices.Clone(r.Coupons)}
	slices.SortFunc(saved.Coupons, func(a, b coupon.Coupon) int { return cmp.Compare(a.ID, b.ID) }) // the order of the reading depends on the time
	coupons, err := json.Marshal(saved.Coupons)
	if err != nil {
		return fmt.Errorf("encode catalog snapshot: %w", err)
	}
	digest := sha256.Sum256(coupons)
	saved.Digest = hex.EncodeToString(digest[:])
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	head := []byte(`{"digest":"` + saved.Digest + `"`)
	if current, err := c.Store.CatalogHead(ctx, int64(len(head))); err != nil || bytes.Equal(current, head) {
		return err
	}
	snapshot, err := json.Marshal(saved)
	if err != nil {
		return fmt.Errorf("encode catalog snapshot: %w", err)
	}
	return c.Store.SaveCatalog(ctx, snapshot)
}

// Snapshot reads the coupons of the last process that reached MySQL.
type Snapshot struct{ Store Store }

// Coupons returns none when no process has reached MySQL yet.
func (s Snapshot) Coupons(ctx context.Context) ([]coupon.Coupon, error) {
	r, err := readSnapshot(ctx, s.Store)
	if err != nil || r == nil {
		return nil, err
	}
	return r.Coupons, nil
}

func readSnapshot(ctx context.Context, store Store) (*reading, error) {
	snapshot, err := store.LoadCatalog(ctx)
	if err != nil || snapshot == nil {
		return nil, err
	}
	return decodeSnapshot(snapshot)
}

func decodeSnapshot(snapshot []byte) (*reading, error) {
	r := new(reading)
	if err := json.Unmarshal(snapshot, r); err != nil {
		return nil, fmt.Errorf("decode catalog snapshot: %w", err)
	}
	if r.At.IsZero() {
		return nil, errors.New("decode catalog snapshot: it has no time") // null or {}, which would replace all coupons
	}
	for _, one := range r.Coupons {
		if one.TotalQuantity < 0 || one.IssuedCount < 0 {
			return nil, fmt.Errorf("decode catalog snapshot: coupon %d has %d of %d seats taken", one.ID, one.IssuedCount, one.TotalQuantity)
		}
	}
	return r, nil
}
