package verify_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/verify"
)

// A difference is a finding when the row's window was published and the difference is still there after the wait.
func TestCheckWindowsFindsDifferences(t *testing.T) {
	t.Parallel()
	set := func(field string, value any) func(*fixture) {
		return func(c *fixture) {
			require.NoError(c.T, c.Redis.HSet(c.T.Context(), c.key("state"), field, value).Err())
		}
	}
	snapshot := func(text string) func(*fixture) {
		return func(c *fixture) { require.NoError(c.T, c.Store.SaveCatalog(c.T.Context(), []byte(text))) }
	}
	refresh := func(c *fixture) { c.Refresh() }
	closesLater := func(c *fixture) { set("closes", c.Now().Add(time.Hour).UnixMicro())(c) }
	d := newDeployment(t)
	// newCoupon adds a coupon for a subtest, and no other has a window or a snapshot meanwhile.
	newCoupon := func(t *testing.T) *fixture {
		c := d.newCoupon(t, 5)
		t.Cleanup(func() {
			c.Exec("UPDATE coupon SET finalised_at = NOW(6) WHERE id = ?", c.id)
			require.NoError(t, c.Redis.Del(context.Background(), c.Prefix+"catalog:coupons").Err())
		})
		return c
	}
	paused, pause := set("status", "PAUSED"), alterCoupon("status = 'PAUSED', version = version + 1")
	for name, test := range map[string]struct {
		do, meanwhile func(c *fixture)
		found         int
	}{
		"the same":           {do: refresh},
		"closes later":       {do: all(refresh, closesLater), found: 1},
		"opens earlier":      {do: all(refresh, set("opens", 1)), found: 1},
		"opens at no time":   {do: all(refresh, set("opens", "noon")), found: 1},
		"paused":             {do: all(refresh, paused), found: 1},
		"another line limit": {do: all(refresh, set("line_limit", 7)), found: 1},
		"without the line limit": {do: all(alterCoupon("line_limit = 7, version = version + 1"),
			refresh, redis(1, "HDEL", "state", "line_limit")), found: 1},
		"without a status":                       {do: all(refresh, redis(1, "HDEL", "state", "status")), found: 1},
		"without an end":                         {do: all(refresh, redis(1, "HDEL", "state", "closes")), found: 1},
		"another version of the same window":     {do: all(refresh, set("version", 7))},
		"published by version, no snapshot":      {do: all(refresh, closesLater, snapshot("{}")), found: 1},
		"published by snapshot, another version": {do: all(refresh, closesLater, set("version", 7)), found: 1},
		"a version above MySQL's keeps a change out": {
			do: all(refresh, set("version", int64(9e15)), pause, refresh), found: 1},
		"published by snapshot, a paused row": {do: all(pause, refresh, set("status", "OPEN"), set("version", 1)),
			found: 1},
		"a change that no pod has read": {do: all(refresh, pause)},
		"the end of a pause that no pod has read": {
			do: all(pause, refresh, alterCoupon("status = 'OPEN', version = version + 1"))},
		"a row that no pod has published": {do: alterCoupon(
			"apply_closes_at = apply_closes_at + INTERVAL 1 HOUR, version = version + 1")},
		"the row changes during the wait": {do: all(refresh, paused), meanwhile: pause},
		"the row changes to a third window during the wait": {
			do:        all(refresh, paused, set("version", int64(9e15))),
			meanwhile: alterCoupon("apply_closes_at = apply_closes_at + INTERVAL 1 MINUTE")},
		"Redis changes during the wait": {do: all(refresh, paused), meanwhile: set("status", "OPEN")},
		"finalised":                     {do: all(refresh, closesLater, finalise(""))},
		"not in Redis":                  {do: all(refresh, redis(1, "DEL", "state"))},
		"an unreadable snapshot":        {do: all(refresh, snapshot("{"))},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCoupon(t)
			test.do(c)
			v, err := c.verifier.Check(t.Context(), c.DB, c.id)
			require.NoError(t, err)
			v.Findings = nil // of the coupon itself
			waits := 0
			require.NoError(t, c.verifier.CheckWindows(t.Context(), c.DB, []*verify.Verdict{v},
				func(context.Context) error {
					if waits++; test.meanwhile != nil {
						test.meanwhile(c)
					}
					return nil
				}))
			require.Len(t, v.Findings, test.found, "%+v", v.Findings)
			if test.found > 0 {
				requireFindings(t, found{verify.DoorDiffers: 1}, v)
				require.Equal(t, 1, waits)
			} else if test.meanwhile == nil {
				require.Zero(t, waits, "no difference, no wait")
			}
		})
	}
	t.Run("stopped during the wait", func(t *testing.T) {
		c := newCoupon(t)
		all(refresh, paused)(c)
		stop := errors.New("stop")
		v, err := c.verifier.Check(t.Context(), c.DB, c.id)
		require.NoError(t, err)
		require.ErrorIs(t, c.verifier.CheckWindows(t.Context(), c.DB, []*verify.Verdict{v},
			func(context.Context) error { return stop }), stop)
	})
}
