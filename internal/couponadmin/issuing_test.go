package couponadmin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/text"
)

// silent is a Redis that does not even return the time.
type silent struct{ unreachable }

func (s silent) Now(context.Context) (time.Time, error) { return time.Time{}, s.err }

func (d *deployment) issuing(couponID coupon.CouponID) (cadence string, lineLimit int64, frozen bool) {
	d.T.Helper()
	require.NoError(d.T, d.DB.QueryRow("SELECT cadence, COALESCE(line_limit, 0), frozen FROM coupon WHERE id = ?",
		couponID).
		Scan(&cadence, &lineLimit, &frozen))
	return cadence, lineLimit, frozen
}

// Redis is not needed to freeze and unfreeze, and nothing but the column changes.
func TestFreeze_WithoutRedis(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	couponID := d.AddCoupon(2)
	version := d.Number("SELECT version FROM coupon WHERE id = ?", couponID)
	d.admin.Redis = silent{unreachable{d.Store, errors.New("away")}}
	for _, step := range []struct {
		begin    change
		frozen   bool
		recorded int
	}{{d.admin.Freeze, true, 1}, {d.admin.Freeze, true, 1}, {d.admin.Unfreeze, false, 1}, {d.admin.Unfreeze, false, 1},
		{d.admin.Freeze, true, 2}} {
		_, _, before := d.issuing(couponID)
		made := d.done(step.begin(ctx, couponID))
		_, _, is := d.issuing(couponID)
		require.Equal(t, step.frozen, is)
		require.Equal(t, before != is, made.Changed)
		require.Len(t, d.audited(couponID, "COUPON_FROZEN"), step.recorded)
		require.Equal(t, step.frozen, made.Summary().Frozen)
		require.Nil(t, made.Summary().SoldOut, "nobody has asked Redis")
	}
	frozen := audit.CouponChange{Frozen: &audit.Change[bool]{To: true}}
	require.Equal(t, []audit.Payload{frozen, frozen}, d.audited(couponID, "COUPON_FROZEN"))
	require.Equal(t, []audit.Payload{audit.CouponChange{Frozen: &audit.Change[bool]{From: true}}},
		d.audited(couponID, "COUPON_UNFROZEN"))
	require.Equal(t, version, d.Number("SELECT version FROM coupon WHERE id = ?", couponID))
	_, err := d.admin.Freeze(ctx, 999)
	require.True(t, text.Is(err, text.NoSuchCoupon))
}

// A settlement holds the coupon's lock: the freeze comes after it.
func TestFreeze_WaitsForTheLock(t *testing.T) {
	t.Parallel()
	c := newOpenCoupon(newDeployment(t))
	c.during(c.admin.Freeze, func() {
		_, _, frozen := c.issuing(c.id)
		require.False(t, frozen)
		c.Apply(c.id, 1)
	})
	_, _, frozen := c.issuing(c.id)
	require.True(t, frozen)
	c.Apply(c.id, 2)
}

// No other change touches the cadence, the line limit or the freeze.
func TestChange_KeepsHowTheCouponIsIssued(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	now := d.Now()
	made := d.done(d.admin.Create(ctx, couponadmin.NewCoupon{Name: "심야", Seats: 2, Opens: now.Add(-time.Hour),
		Closes:       now.Add(time.Hour),
		ValidityDays: 30, Campaign: 7, Cadence: coupon.Immediate, LineLimit: 50}))
	c := &openCoupon{d, made.After.ID}
	c.Refresh()
	d.done(d.admin.Freeze(ctx, c.id))
	d.Exec("UPDATE coupon SET issued_count = 1 WHERE id = ?", c.id)
	addSeats := func(ctx context.Context, id coupon.CouponID) (*couponadmin.Change, error) {
		return d.admin.AddSeats(ctx, id, 3)
	}
	for _, begin := range []change{d.admin.Pause, d.admin.Resume, c.extend(2 * time.Hour), addSeats, d.admin.Recount,
		d.admin.Close} {
		changed := d.done(begin(ctx, c.id))
		require.True(t, changed.Changed)
		cadence, lineLimit, frozen := d.issuing(c.id)
		require.Equal(t, []any{"IMMEDIATE", int64(50), true}, []any{cadence, lineLimit, frozen})
		s := changed.Summary()
		require.Equal(t, []any{coupon.Immediate, true, 50, uint64(7)},
			[]any{s.Cadence, s.Frozen, *s.LineLimit, *s.CampaignID})
	}
	plain := d.AddCoupon(1)
	s := d.done(d.admin.Pause(ctx, plain)).Summary()
	require.Equal(t, coupon.Nightly, s.Cadence)
	require.Nil(t, s.LineLimit)
	require.Nil(t, s.CampaignID)
}

// The cadence changes only while no applicant was told another one.
func TestSetCadence(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	c := newOpenCoupon(d)
	immediate := func() (*couponadmin.Change, error) { return d.admin.SetCadence(ctx, c.id, coupon.Immediate) }
	d.refused(text.RefusedCadenceOpen)(immediate())
	c.Apply(c.id, 1)
	d.done(d.admin.Pause(ctx, c.id))
	d.refused(text.RefusedCadenceWaiting)(immediate())
	d.SettleNow()
	require.Contains(t, d.UnderReview(c.id), "1", "there is no such user")
	d.refused(text.RefusedCadenceWaiting)(immediate())
	d.Drop(c.id, "1")
	version := d.Number("SELECT version FROM coupon WHERE id = ?", c.id)

	require.True(t, d.done(immediate()).Changed)
	require.False(t, d.done(immediate()).Changed)
	changed := audit.CouponChange{Cadence: audit.Changed(coupon.Nightly, coupon.Immediate)}
	require.Equal(t, []audit.Payload{changed}, d.audited(c.id, "COUPON_CADENCE_CHANGED"))
	require.Equal(t, version, d.Number("SELECT version FROM coupon WHERE id = ?", c.id))
	d.done(d.admin.Resume(ctx, c.id))
	require.False(t, d.done(immediate()).Changed, "repeated while it is open")
	_, err := d.admin.SetCadence(ctx, c.id, coupon.Nightly)
	require.True(t, text.Is(err, text.RefusedCadenceOpen))

	d.admin.Redis = silent{unreachable{d.Store, errors.New("away")}}
	_, err = d.admin.SetCadence(ctx, c.id, coupon.Nightly)
	require.ErrorContains(t, err, "away", "nobody knows who waits")
}

// A pause was recorded without Redis, which still takes applications. Whoever applies before the change is counted, and
// nobody applies after the count.
func TestSetCadence_PublishesThePauseBeforeItCounts(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	c := newOpenCoupon(d)
	d.Exec("UPDATE coupon SET status = 'PAUSED', version = version + 1 WHERE id = ?", c.id)
	counted := false
	d.admin.Redis = counting{d.Store, func() {
		counted = true
		require.Equal(t, candidates.Paused, c.Answer(c.id, 1))
	}}
	require.True(t, d.done(d.admin.SetCadence(ctx, c.id, coupon.Immediate)).Changed)
	require.True(t, counted)
}

// counting is a Redis that calls a function before it counts.
type counting struct {
	*candidates.Store
	before func()
}

func (c counting) CountUndecided(ctx context.Context, couponID coupon.CouponID) (waiting, dlq int64, err error) {
	c.before()
	return c.Store.CountUndecided(ctx, couponID)
}
