package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
)

// row is what the catalog has of the coupon.
func (c *fixture) row() (w coupon.Window) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow("SELECT id, apply_opens_at, apply_closes_at, status = 'PAUSED', version FROM coupon WHERE id = ?", c.id).
		Scan(&w.Coupon, &w.Opens, &w.Closes, &w.Paused, &w.Version))
	return w
}

// refresh does what a pod does: it tells the door, and then writes the snapshot.
func (c *fixture) refresh() {
	c.t.Helper()
	w := c.row()
	_, _, err := c.store.Publish(c.t.Context(), w, coupon.Promise{})
	require.NoError(c.t, err)
	c.snapshot(w)
}

func (c *fixture) snapshot(w coupon.Window) {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{"at": w.Opens, "coupons": []any{map[string]any{"id": w.Coupon, "opensAt": w.Opens, "closesAt": w.Closes, "paused": w.Paused}}})
	require.NoError(c.t, err)
	require.NoError(c.t, c.store.SaveCatalog(c.t.Context(), text))
}

func (c *fixture) door(field string, value any) {
	c.t.Helper()
	require.NoError(c.t, c.rdb.HSet(c.t.Context(), c.state(), field, value).Err())
}

// A difference is reported when the row's window has been published and the difference outlasts the wait. A change under way,
// or a row that no pod publishes, is no finding.
func TestDoorsFindsDifferences(t *testing.T) {
	t.Parallel()
	hour := func(c *fixture) int64 { return c.now().Add(time.Hour).UnixMicro() }
	pause := func(c *fixture) {
		c.change(1, "UPDATE coupon SET status = 'PAUSED', version = version + 1 WHERE id = ?", c.id)
	}
	for name, test := range map[string]struct {
		do, meanwhile func(c *fixture)
		found         int
	}{
		"the same":           {do: (*fixture).refresh},
		"closes later":       {do: func(c *fixture) { c.refresh(); c.door("closes", hour(c)) }, found: 1},
		"opens earlier":      {do: func(c *fixture) { c.refresh(); c.door("opens", 1) }, found: 1},
		"opens at no time":   {do: func(c *fixture) { c.refresh(); c.door("opens", "noon") }, found: 1},
		"paused":             {do: func(c *fixture) { c.refresh(); c.door("status", "PAUSED") }, found: 1},
		"without its status": {do: func(c *fixture) { c.refresh(); c.wrote(1)(c.rdb.HDel(c.t.Context(), c.state(), "status").Result()) }, found: 1},
		"without its end": {do: func(c *fixture) {
			c.refresh()
			c.wrote(1)(c.rdb.HDel(c.t.Context(), c.state(), "closes").Result())
		}, found: 1},
		"only another version":                     {do: func(c *fixture) { c.refresh(); c.door("version", 7) }},
		"by hand, and no pod refreshes":            {do: func(c *fixture) { c.refresh(); c.door("closes", hour(c)); c.snapshot(coupon.Window{}) }, found: 1},
		"the snapshot knows, the version does not": {do: func(c *fixture) { c.refresh(); c.door("closes", hour(c)); c.door("version", 7) }, found: 1},
		"a newer version of which MySQL knows nothing": {do: func(c *fixture) { // keeps the change out
			c.refresh()
			c.door("version", int64(9e15))
			pause(c)
			c.refresh()
		}, found: 1},
		"a change that no pod has read":                    {do: func(c *fixture) { c.refresh(); pause(c) }},
		"told a window that is none of the row, by nobody": {do: func(c *fixture) {}},
		"changed while it waits":                           {do: func(c *fixture) { c.refresh(); c.door("status", "PAUSED") }, meanwhile: pause},
		"told while it waits":                              {do: func(c *fixture) { c.refresh(); c.door("status", "PAUSED") }, meanwhile: func(c *fixture) { c.door("status", "OPEN") }},
		"swept": {do: func(c *fixture) {
			c.refresh()
			c.door("closes", hour(c))
			c.change(1, "UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ?", c.id)
		}},
		"lost": {do: func(c *fixture) { c.refresh(); c.wrote(1)(c.rdb.Del(c.t.Context(), c.state()).Result()) }},
		"a snapshot that is none": {do: func(c *fixture) {
			c.refresh()
			require.NoError(c.t, c.store.SaveCatalog(c.t.Context(), []byte("{")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t, 5)
			test.do(c)
			v := &ledger.Verdict{Coupon: c.id}
			waited := 0
			require.NoError(t, c.ledger.Doors(t.Context(), c.db, []*ledger.Verdict{v}, func(context.Context) error {
				if waited++; test.meanwhile != nil {
					test.meanwhile(c)
				}
				return nil
			}))
			require.Len(t, v.Findings, test.found, "%+v", v.Findings)
			if test.found > 0 {
				require.Equal(t, map[ledger.Code]int64{ledger.DoorDiffers: 1}, counts(t, v))
				require.Equal(t, 1, waited)
			} else if test.meanwhile == nil {
				require.Zero(t, waited, "where all is well nobody waits")
			}
		})
	}
	t.Run("told to stop", func(t *testing.T) {
		t.Parallel()
		c := newCoupon(t, 5)
		c.refresh()
		c.door("status", "PAUSED")
		stop := errors.New("stop")
		require.ErrorIs(t, c.ledger.Doors(t.Context(), c.db, []*ledger.Verdict{{Coupon: c.id}}, func(context.Context) error { return stop }), stop)
	})
}
