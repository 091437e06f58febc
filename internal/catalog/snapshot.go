package catalog

import (
	"context"
	"encoding/json"
	"fmt"
)

// Snapshot returns the coupons as a process that reached MySQL last saw them; none when nobody ever did.
func Snapshot(ctx context.Context, store Store) ([]Coupon, error) {
	r, err := readSnapshot(ctx, store)
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
	r := new(reading)
	if err := json.Unmarshal(snapshot, r); err != nil {
		return nil, fmt.Errorf("decode catalog snapshot: %w", err)
	}
	return r, nil
}
