package couponadmin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/text"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// unreachable is a Redis that answers no call about windows.
type unreachable struct{ err error }

func (u unreachable) StopApplying(context.Context, coupon.Window, coupon.Promise, bool) (int64, time.Time, error) {
	return 0, time.Time{}, u.err
}

func (u unreachable) Announce(context.Context, coupon.Window, coupon.Promise) (bool, error) {
	return false, u.err
}

func (u unreachable) CountMarked(context.Context, coupon.CouponID) (issued, rejected int64, err error) {
	return 0, 0, u.err
}

func TestUnreachableRedis(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(1)
	away := errors.New("away")
	admin := d.CouponAdmin()
	admin.Windows = unreachable{away}
	_, err := admin.Close(t.Context(), couponID)
	require.ErrorIs(t, err, away, "an end is not written unless Redis applies it")
	require.Zero(t, d.Number("SELECT COUNT(*) FROM audit_event WHERE coupon_id = ?", couponID))

	made, err := admin.Pause(t.Context(), couponID)
	require.NoError(t, err)
	require.True(t, made.Changed)
	require.ErrorIs(t, made.PublishErr, away)
	d.AddUsers(1)
	d.Apply(couponID, 1) // accepted before Redis has the pause: a promise
	d.Refresh()
	require.Equal(t, candidates.Paused, d.Answer(couponID, 2))
	d.SettleNow()
	require.Equal(t, []uint64{1}, d.Issued(couponID))
	d.Verify()
}

func TestChange_ReturnsTheCouponBeforeAndAfter(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(2)
	admin := d.CouponAdmin()
	made, err := admin.AddSeats(t.Context(), couponID, 3)
	require.NoError(t, err)
	require.True(t, made.Changed)
	require.NoError(t, made.PublishErr)
	require.Equal(t, []int{2, 5}, []int{made.Before.TotalQuantity, made.After.TotalQuantity})
	require.Equal(t, made.Before.Version, made.After.Version, "seats do not change the window")

	closed, err := admin.Close(t.Context(), couponID)
	require.NoError(t, err)
	require.Greater(t, closed.After.Version, closed.Before.Version)
	require.True(t, closed.After.ClosesAt.Before(closed.Before.ClosesAt))
	again, err := admin.Close(t.Context(), couponID)
	require.NoError(t, err)
	require.False(t, again.Changed)
	require.Equal(t, closed.After, again.After, "as it is stored")
}

func TestChange_OfAnUnknownCoupon(t *testing.T) {
	t.Parallel()
	_, err := jajeongtest.New(t).CouponAdmin().Pause(t.Context(), 42)
	require.True(t, text.Is(err, text.NoSuchCoupon))
}

func TestNew_RefusesAnIncompleteConfig(t *testing.T) {
	t.Parallel()
	_, err := couponadmin.New(couponadmin.Config{})
	require.Error(t, err)
}
