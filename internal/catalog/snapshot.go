package catalog

import (
	"context"
	"encoding/json"
	"errors"
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
	return decodeSnapshot(snapshot)
}

func decodeSnapshot(snapshot []byte) (*reading, error) {
	r := new(reading)
	if err := json.Unmarshal(snapshot, r); err != nil {
		return nil, fmt.Errorf("decode catalog snapshot: %w", err)
	}
	if r.At.IsZero() {
		return nil, errors.New("decode catalog snapshot: it has no time") // null or {}: taken over, every coupon would be unknown
	}
	return r, nil
}
