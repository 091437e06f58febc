package couponadmin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/wallet"
)

// checkout returns the database of wallet-api, under its account.
func checkout(d *jajeongtest.Deployment) *mysqltx.DB {
	pool, err := d.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(func() { _ = pool.Close() })
	return mysqltx.NewBrief(pool)
}

func (d *deployment) order(db *mysqltx.DB, verb wallet.Verb, couponID coupon.CouponID, order string) wallet.Code {
	done, err := wallet.Redeem(d.T.Context(), db, couponID,
		wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: 1, AmountWon: 9000, TTL: time.Hour})
	require.NoError(d.T, err)
	return done.Code
}

func (d *deployment) changed(change *couponadmin.HolderChange, err error) *couponadmin.HolderChange {
	d.T.Helper()
	require.NoError(d.T, err)
	require.NoError(d.T, change.PublishErr)
	return change
}

func (d *deployment) denied(why text.Message) func(*couponadmin.HolderChange, error) {
	return func(_ *couponadmin.HolderChange, err error) {
		d.T.Helper()
		require.True(d.T, text.Is(err, why), err)
	}
}

func (d *deployment) grant(couponID coupon.CouponID, user coupon.UserID) (*couponadmin.HolderChange, error) {
	return d.admin.Grant(d.T.Context(), couponID, couponadmin.Grantee{User: user, Zone: time.UTC})
}

func TestRevoke_FreesASeatForTheNextInLine(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1, 2)
	d.Exec("UPDATE coupon SET apply_closes_at = UTC_TIMESTAMP(6) WHERE id = ?", couponID)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))

	revoked := d.changed(d.admin.Revoke(t.Context(), couponID, 1, true))
	require.Equal(t, []int{1, 2}, []int{revoked.Before.TotalQuantity, revoked.After.TotalQuantity})
	require.Equal(t, coupon.CouponRevoked, revoked.State)
	require.Equal(t, 1, revoked.NotSelected)
	require.False(t, d.changed(d.admin.Revoke(t.Context(), couponID, 1, true)).Changed, "a second run")
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	d.Verify()

	d.denied(text.RefusedNoSeatLeft)(d.admin.Reissue(t.Context(), couponID, 1))
	d.done(d.admin.AddSeats(t.Context(), couponID, 1))
	reissued := d.changed(d.admin.Reissue(t.Context(), couponID, 1))
	require.Equal(t, 2, reissued.After.TotalQuantity, "the seat is taken back")
	require.Equal(t, coupon.CouponIssued, reissued.State)
	require.False(t, d.changed(d.admin.Reissue(t.Context(), couponID, 1)).Changed)
	require.Equal(t, []string{"REVOKED", "REISSUED"},
		jajeongtest.Column[string](d.Deployment, "SELECT kind FROM coupon_log ORDER BY seq"))
	require.EqualValues(t, 2, d.Number("SELECT COUNT(*) FROM audit_event WHERE user_id = 1"))
	d.Verify()
}

func TestRevoke_RefusesACouponThatAnOrderHas(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1)
	d.SettleNow()
	db := checkout(d.Deployment)
	require.Equal(t, wallet.Done, d.order(db, wallet.Reserve, couponID, "A-1"))
	d.denied(text.RefusedReserved)(d.admin.Revoke(t.Context(), couponID, 1, false))
	require.Equal(t, wallet.Done, d.order(db, wallet.Confirm, couponID, "A-1"))
	d.denied(text.RefusedUsed)(d.admin.Revoke(t.Context(), couponID, 1, false))
	d.denied(text.RefusedNotHeld)(d.admin.Revoke(t.Context(), couponID, 9, false))
	require.Equal(t, wallet.Done, d.order(db, wallet.Refund, couponID, "A-1"))
	require.True(t, d.changed(d.admin.Revoke(t.Context(), couponID, 1, false)).Changed)
	require.Equal(t, wallet.Revoked, d.order(db, wallet.Reserve, couponID, "A-2"))
	d.denied(text.RefusedRevokedWithoutSeat)(d.admin.Revoke(t.Context(), couponID, 1, true))
	d.denied(text.RefusedExtendRevoked)(d.admin.ExtendUser(t.Context(), couponID, 1, time.Now().AddDate(1, 0, 0)))
	d.denied(text.RefusedGrantRevoked)(d.grant(couponID, 1))
	d.Verify()
}

func TestGrant_AddsASeatOfItsOwn(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1, 2)
	d.AddUsers(3, 4)
	d.SetStatus("BLOCKED", 4)
	granted := d.changed(d.grant(couponID, 3))
	require.True(t, granted.Changed)
	require.Equal(t, []int{2, 1}, []int{granted.After.TotalQuantity, granted.After.IssuedCount})
	require.Zero(t, granted.ExpiresAt.Sub(granted.ExpiresAt.Truncate(24*time.Hour)), "a midnight of the zone")
	require.Equal(t, candidates.AlreadyIssued, d.Answer(couponID, 3))
	require.False(t, d.changed(d.grant(couponID, 3)).Changed, "a second run")
	d.changed(d.grant(couponID, 2)) // whose application waits
	d.denied(text.RefusedInactiveUser)(d.grant(couponID, 4))
	d.denied(text.RefusedUnknownUser)(d.grant(couponID, 99))
	d.SettleNow()
	require.ElementsMatch(t, []coupon.UserID{1, 2, 3}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "ALREADY_ISSUED"))
	d.Verify()

	frozen := d.AddCoupon(1)
	d.done(d.admin.Freeze(t.Context(), frozen))
	d.denied(text.RefusedGrantFrozen)(d.grant(frozen, 3))
}

// An operator undoes a use: the order is refunded for good, and the coupon is free for another one.
func TestUnuse_RefundsTheOrder(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1)
	d.SettleNow()
	db := checkout(d.Deployment)
	unuse := func() (*couponadmin.HolderChange, error) { return d.admin.Unuse(t.Context(), couponID, 1) }
	require.False(t, d.changed(unuse()).Changed, "nobody has used it")
	require.Equal(t, wallet.Done, d.order(db, wallet.Reserve, couponID, "A-1"))
	d.denied(text.RefusedUnuseReserved)(unuse())
	require.Equal(t, wallet.Done, d.order(db, wallet.Confirm, couponID, "A-1"))

	undone := d.changed(unuse())
	require.True(t, undone.Changed)
	require.Equal(t, "A-1", undone.Undone.ID)
	require.Equal(t, coupon.CouponIssued, undone.State)
	require.Equal(t, []approval.Change{{What: "user_coupon.status", From: "USED", To: "ISSUED"},
		{What: "order", From: "A-1", To: "REFUNDED"}}, undone.Plan.Changes)
	require.False(t, d.changed(unuse()).Changed, "a second run")
	require.Equal(t, wallet.OrderRefunded, d.order(db, wallet.Reserve, couponID, "A-1"))
	require.Equal(t, wallet.OrderRefunded, d.order(db, wallet.Confirm, couponID, "A-1"))
	require.Equal(t, wallet.Repeated, d.order(db, wallet.Refund, couponID, "A-1"))
	require.Equal(t, []string{"1 RESERVED checkout", "2 USED checkout", "3 REFUNDED park"},
		jajeongtest.Column[string](d.Deployment, "SELECT CONCAT_WS(' ', seq, kind, actor) FROM coupon_log ORDER BY seq"))
	require.Equal(t, []audit.Payload{audit.HolderChange{}}, d.Payloads(couponID, audit.CouponUnused))
	d.Verify()

	require.Equal(t, wallet.Done, d.order(db, wallet.Reserve, couponID, "A-2"))
	require.Equal(t, wallet.Done, d.order(db, wallet.Confirm, couponID, "A-2"))
	d.Exec("UPDATE user_coupon SET expires_at = issued_at + INTERVAL 1 MICROSECOND")
	require.Equal(t, coupon.CouponExpired, d.changed(unuse()).State)
	d.denied(text.RefusedNotHeld)(d.admin.Unuse(t.Context(), couponID, 9))
	d.changed(d.admin.Revoke(t.Context(), couponID, 1, false))
	d.denied(text.RefusedUnuseRevoked)(unuse())
}

func TestExtendUser_MovesTheEndToALaterMidnight(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1)
	d.SettleNow()
	end := inTwoYears
	extended := d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, end))
	require.True(t, extended.Changed)
	require.Equal(t, end, extended.ExpiresAt)
	require.Equal(t, end, jajeongtest.Column[time.Time](d.Deployment, "SELECT expires_at FROM user_coupon")[0])
	require.False(t, d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, end)).Changed, "a second run")
	d.denied(text.RefusedExtendShorter)(d.admin.ExtendUser(t.Context(), couponID, 1, end.AddDate(0, 0, -1)))
	d.denied(text.RefusedExtendPast)(d.admin.ExtendUser(t.Context(), couponID, 1, end.AddDate(-4, 0, 0)))
	d.denied(text.RefusedNotHeld)(d.admin.ExtendUser(t.Context(), couponID, 9, end))
}

func TestHolders_ChangeWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1)
	d.AddUsers(2)
	d.SettleNow()
	away := errors.New("away")
	d.admin.Redis = unreachable{d.Store, away}
	d.changed(d.admin.Revoke(t.Context(), couponID, 1, false))
	d.changed(d.admin.Reissue(t.Context(), couponID, 1))
	d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, inTwoYears))
	revoked, err := d.admin.Revoke(t.Context(), couponID, 1, true)
	require.NoError(t, err)
	require.True(t, revoked.Changed)
	require.ErrorIs(t, revoked.PublishErr, away)
	require.EqualValues(t, 2, d.Number("SELECT total_quantity FROM coupon WHERE id = ?", couponID))
}
