package couponadmin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
)

func (d *deployment) grantList(couponID coupon.CouponID,
	users ...coupon.UserID) (*couponadmin.ListGrant, error) {
	return d.admin.GrantList(d.T.Context(), couponID,
		couponadmin.Grantees{List: userlist.List{Users: users}, Zone: time.UTC})
}

func TestGrantList(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	id := d.AddQueue(4, 1, 2)
	d.AddUsers(3, 5, 6, 7)
	d.Exec("UPDATE user SET status = 'BLOCKED' WHERE id = 6")
	d.SettleNow(id)
	_, err := d.admin.Revoke(t.Context(), id, 2, false)
	require.NoError(t, err)
	d.Apply(id, 5)

	d.admin.DryRun = true
	planned, err := d.grantList(id, 1, 2, 3, 5, 6, 7, 99)
	require.NoError(t, err)
	require.Equal(t, 3, planned.Granted)
	require.Len(t, d.Issued(id), 2)
	d.admin.DryRun = false

	made, err := d.grantList(id, 1, 2, 3, 5, 6, 7, 99)
	require.NoError(t, err)
	require.NoError(t, made.PublishErr)
	require.Equal(t, []int{7, 3, 1, 1, 1, 1}, []int{made.Users, made.Granted, made.Held, made.Revoked, made.Unknown,
		made.Inactive})
	require.Equal(t, []couponadmin.NotGiven{{User: 2, Why: "REVOKED"}, {User: 6, Why: "INACTIVE_USER"},
		{User: 99, Why: "UNKNOWN_USER"}}, made.NotGiven)
	require.Equal(t, planned.Plan, made.Plan)
	require.Equal(t, []int{7, 5}, []int{made.Coupon.TotalQuantity, made.Coupon.IssuedCount})
	require.ElementsMatch(t, []coupon.UserID{1, 2, 3, 5, 7}, d.Issued(id))
	require.EqualValues(t, 3, d.Number("SELECT COUNT(*) FROM coupon_log WHERE kind = 'GRANTED' AND seats = 1"))
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM audit_event WHERE action = 'COUPON_LIST_GRANTED' "+
		"AND seats = 3 AND user_id IS NULL"))
	d.Verify()

	again, err := d.grantList(id, 1, 2, 3, 5, 6, 7, 99)
	require.NoError(t, err)
	require.Equal(t, []int{0, 4}, []int{again.Granted, again.Held})
	require.Empty(t, again.Plan.Action)
	d.SettleNow(id)
	require.ElementsMatch(t, []coupon.UserID{1, 2, 3, 5, 7}, d.Issued(id))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(id, "ALREADY_ISSUED"))
	d.Verify()
}

// A page fails: those before it stay, and the same list goes on.
func TestGrantList_GoesOn(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	all := jajeongtest.Between[coupon.UserID](1, 12_000)
	d.AddUsers(all...)
	id := d.AddCoupon(1)
	ctx, stop := context.WithCancel(t.Context())
	made, err := d.admin.GrantList(ctx, id, couponadmin.Grantees{List: userlist.List{Users: all}, Zone: time.UTC,
		Progress: func(int) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 5000, made.Granted)
	d.Verify()

	d.done(d.admin.Freeze(t.Context(), id))
	_, err = d.grantList(id, all...)
	require.True(t, text.Is(err, text.RefusedGrantFrozen), err)
	d.done(d.admin.Unfreeze(t.Context(), id))
	made, err = d.grantList(id, all...)
	require.NoError(t, err)
	require.Equal(t, []int{7000, 5000, 12_000}, []int{made.Granted, made.Held, made.Done()})
	require.EqualValues(t, 12_000, d.Number("SELECT COUNT(*) FROM user_coupon"))
	require.EqualValues(t, 12_001, d.Number("SELECT total_quantity FROM coupon"))
	d.Verify()

	// People see a list as one deed, however many pages it has.
	entries, err := history.Reader{DB: d.DB}.AuditEntries(t.Context(), id, 3)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, []audit.Action{audit.CouponListGranted, audit.CouponUnfrozen, audit.CouponFrozen},
		[]audit.Action{entries[0].Action, entries[1].Action, entries[2].Action})
	list, _ := entries[0].Detail.Payload(audit.CouponListGranted).(audit.GrantedList)
	require.Equal(t, &audit.Change[int]{From: 5001, To: 12_001}, list.Seats)
}
