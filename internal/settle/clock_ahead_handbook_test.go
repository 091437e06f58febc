package settle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/verify"
)

// The clock of Redis was ahead by an hour, so that no application is accepted. The handbook names a way out: another coupon.
func TestHandbook_ReplacesCouponAfterClockAhead(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(between(1, 4)...)
	couponID := d.AddCoupon(10)
	d.Apply(couponID, 1)
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", couponID), "last", d.Now().Add(time.Hour).UnixMicro()).Err())
	require.Equal(t, candidates.ClockBehind, d.Answer(couponID, 2))
	d.Refresh()
	require.Equal(t, candidates.ClockBehind, d.Answer(couponID, 2), "pods and MySQL remember it")
	require.Contains(t, d.Findings(), verify.ClockAhead)

	admin := d.CouponAdmin()
	_, err := admin.Pause(t.Context(), couponID)
	require.NoError(t, err)
	require.Equal(t, candidates.Paused, d.Answer(couponID, 2))
	_, err = admin.SetSeats(t.Context(), couponID, 1)
	require.NoError(t, err)
	now := d.Now()
	made, err := admin.Create(t.Context(), couponadmin.NewCoupon{Name: "심야", Seats: 2, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour), ValidityDays: 30, Campaign: 3})
	require.NoError(t, err)
	another := made.After.ID
	d.Refresh()
	d.Apply(another, 2)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{2}, d.Issued(another))
}
