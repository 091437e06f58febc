package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/wallet"
)

// stored is a row of user_coupon, and when the reservation of its order ends; both are SQL.
type stored struct {
	status         coupon.UserCouponStatus
	until, expires string
}

const (
	past   = "UTC_TIMESTAMP(6) - INTERVAL 1 SECOND"
	future = "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
)

// Every reader shows the state of an issued coupon that coupon.StateAt decides.
func TestStates_AllReadersAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var rows []stored
	for _, expires := range []string{past, future} {
		for _, status := range []coupon.UserCouponStatus{coupon.CouponIssued, coupon.CouponReserved, coupon.CouponUsed,
			coupon.CouponRevoked} {
			rows = append(rows, stored{status, past, expires})
		}
		rows = append(rows, stored{coupon.CouponReserved, future, expires})
	}
	instants := map[string]time.Time{past: time.Unix(1, 0), future: time.Unix(3, 0)}
	id := w.AddCoupon(len(rows))
	users := between(1, coupon.UserID(len(rows)))
	w.AddUsers(users...)
	w.Apply(id, users...)
	w.SettleNow()
	want, counts := map[coupon.UserID]coupon.UserCouponStatus{}, map[coupon.UserCouponStatus]int64{}
	for i, row := range rows {
		user, order := i+1, ""
		if row.status == coupon.CouponReserved || row.status == coupon.CouponUsed {
			order = fmt.Sprint("A-", user)
			w.Exec("INSERT INTO coupon_order SELECT ?, id, user_id, 9000, 0, ?, "+row.until+
				" FROM user_coupon WHERE coupon_id = ? AND user_id = ?", order, row.status, id, user)
		}
		w.Exec("UPDATE user_coupon SET status = ?, order_id = NULLIF(?, ''), expires_at = "+row.expires+
			" WHERE coupon_id = ? AND user_id = ?", row.status, order, id, user)
		state := coupon.StateAt(row.status, instants[row.until], instants[row.expires], time.Unix(2, 0))
		want[coupon.UserID(user)] = state
		counts[state]++
	}
	require.Equal(t, coupon.CouponExpired, want[2], "a reservation that ran out, of an expired coupon")
	require.Equal(t, coupon.CouponReserved, want[5], "a live reservation of an expired coupon")

	u := w.report(w.month()).Coupons[0].UserCoupons
	require.Equal(t, counts, map[coupon.UserCouponStatus]int64{coupon.CouponIssued: u.Usable,
		coupon.CouponReserved: u.Reserved,
		coupon.CouponUsed:     u.Used, coupon.CouponExpired: u.Expired, coupon.CouponRevoked: u.Revoked})

	var list struct{ Winners []history.Winner }
	stdout := succeeds(t)(w.settle("coupon", "winners", id.String(), "--output=json"))
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	require.Len(t, list.Winners, len(rows))
	for _, winner := range list.Winners {
		require.Equal(t, want[winner.User], winner.State, "winner %d", winner.User)
	}

	pool, err := w.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	defer pool.Close()
	for user, state := range want {
		page, err := wallet.List(t.Context(), pool, user, wallet.MaxID, 1)
		require.NoError(t, err)
		require.Equal(t, state, page[0].State, "the wallet of user %d", user)
		require.Equal(t, state, w.person(fmt.Sprint(user)).Coupons[0].State, "the export of user %d", user)
		stdout := succeeds(t)(w.settle("explain", "--coupon="+id.String(), fmt.Sprintf("--user=%d", user),
			"--output=json"))
		var x explain.Explanation
		require.NoError(t, json.Unmarshal([]byte(stdout), &x))
		require.Equal(t, state, x.Facts.UserCoupon.State, "the explanation for user %d", user)
	}
}
