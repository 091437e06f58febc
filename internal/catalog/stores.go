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
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// saveSnapshot saves the coupons for processes without MySQL. It writes only changes, because a snapshot has megabytes.
func (c *Catalog) saveSnapshot(ctx context.Context, r *reading) error {
	saved := reading{At: r.At, Zone: r.Zone, Coupons: slices.Clone(r.Coupons)}
	slices.SortFunc(saved.Coupons, func(a, b coupon.Coupon) int { return cmp.Compare(a.ID, b.ID) }) // r is unsorted
	coupons, err := json.Marshal(saved.Coupons)
	if err != nil {
		return fmt.Errorf("encode catalog snapshot: %w", err)
	}
	digest := sha256.Sum256(append([]byte(r.Zone), coupons...))
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

// Snapshot reads the coupons that a process with MySQL last saved in Redis; none if there is no snapshot.
type Snapshot struct{ Store Store }

func (s Snapshot) Coupons(ctx context.Context) ([]coupon.Coupon, error) {
	r, err := readSnapshot(ctx, s.Store)
	if err != nil || r == nil {
		return nil, err
	}
	return r.Coupons, nil
}

// Zone returns the time zone of the nights; nil if there is no snapshot.
func (s Snapshot) Zone(ctx context.Context) (*time.Location, error) {
	r, err := readSnapshot(ctx, s.Store)
	if err != nil || r == nil {
		return nil, err
	}
	return r.zone, nil
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
		return nil, errors.New("decode catalog snapshot: it has no time") // {} would remove all coupons
	}
	var err error
	if r.zone, err = deployment.Load("zone", r.Zone); err != nil {
		return nil, fmt.Errorf("decode catalog snapshot: %w", err)
	}
	for _, one := range r.Coupons {
		if one.TotalQuantity < 0 || one.IssuedCount < 0 {
			return nil, fmt.Errorf("decode catalog snapshot: coupon %d has %d of %d seats taken", one.ID,
				one.IssuedCount, one.TotalQuantity)
		}
	}
	return r, nil
}

// selectCoupons gets the limit MaxCoupons+1, so that a surplus of coupons is noticed.
const selectCoupons = `
SELECT ` + coupon.ColumnsWithKnown + ", " + journalColumns + `
  FROM coupon c LEFT JOIN journal w ON w.coupon_id = c.id
 WHERE c.apply_opens_at <= UTC_TIMESTAMP(6) + INTERVAL 30 DAY
   AND c.apply_closes_at >= UTC_TIMESTAMP(6) - INTERVAL 30 DAY
 ORDER BY c.apply_closes_at < UTC_TIMESTAMP(6),
          ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), c.apply_closes_at)), c.id
 LIMIT ?`

// read returns the readable rows, and an error that names the others. The reading is nil if the query failed.
func (c *Catalog) read(ctx context.Context) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	conn, err := c.DB.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach mysql for the catalog: %w", err)
	}
	defer conn.Close()

	// The clock is read first, so that the coupons are at least as new as r.At.
	r := &reading{journals: map[coupon.CouponID]journalRow{}}
	if r.At, err = mysqltx.Now(ctx, conn); err != nil {
		return nil, err
	}
	if r.zone, err = deployment.ReadZone(ctx, conn); err != nil {
		return nil, err
	}
	r.Zone = r.zone.String()
	rows, err := conn.QueryContext(ctx, selectCoupons, MaxCoupons+1)
	if err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	defer rows.Close()
	var failed failures
	for rows.Next() {
		var one coupon.Coupon
		var journal journalRow
		if err := rows.Scan(append(one.FieldsWithKnown(), journal.fields()...)...); err != nil {
			failed.add(fmt.Errorf("read a coupon: coupon %d: %w", one.ID, err))
			continue
		}
		r.Coupons = append(r.Coupons, one)
		if !one.Finalised() {
			r.journals[one.ID] = journal
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	if len(r.Coupons) > MaxCoupons {
		c.Logger.Error("more coupons than the catalog keeps; the coupons that closed first are left out",
			zap.Int("kept", MaxCoupons))
		r.Coupons = r.Coupons[:MaxCoupons]
	}
	return r, failed.join()
}
