package report_test

import (
	"bytes"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/wallet"
)

// A coupon of 5,000 won and one of 10 %, at most 3,000 won, are issued and used by calls of a checkout.
func TestReportOfIssuedCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	fixed, percent := d.AddQueue(6, 1, 2, 3, 4, 5, 6), d.AddCoupon(3)
	d.Apply(percent, 1, 2, 3)
	d.Exec("UPDATE coupon SET discount_won = 5000, campaign_id = 7 WHERE id = ?", fixed)
	d.Exec("UPDATE coupon SET discount_percent = 10, discount_max_won = 3000, campaign_id = 7 WHERE id = ?", percent)
	d.SettleNow()
	pool := d.WalletPool()
	call := func(id coupon.CouponID, user coupon.UserID, order string, verbs ...wallet.Verb) {
		for _, verb := range verbs {
			done, err := wallet.Redeem(t.Context(), mysqltx.NewBrief(pool), id,
				wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: user, AmountWon: 20_000,
					TTL: time.Hour})
			require.NoError(t, err)
			require.Equal(t, wallet.Done, done.Code)
		}
	}
	call(fixed, 1, "F-1", wallet.Reserve, wallet.Confirm)
	call(fixed, 2, "F-2", wallet.Reserve)
	call(fixed, 3, "F-3", wallet.Reserve)
	d.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6) WHERE order_id = 'F-3'") // ran out: usable
	call(fixed, 4, "F-4", wallet.Reserve, wallet.Confirm, wallet.Refund)
	// What was used does not expire.
	d.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6) WHERE coupon_id = ? AND user_id IN (4, 1)", fixed)
	d.Exec("UPDATE user_coupon SET status = 'REVOKED' WHERE coupon_id = ? AND user_id = 5", fixed)
	d.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, 9, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)",
		fixed)
	call(percent, 1, "P-1", wallet.Reserve, wallet.Confirm)
	call(percent, 2, "P-2", wallet.Reserve)

	now := d.Now()
	r := read(d, report.Period{From: now.Add(-time.Hour), To: now.Add(time.Hour), Bucket: time.Minute})
	require.WithinRange(t, r.AsOf, now, d.Now())
	won := big.NewInt
	wantFixed := report.UserCoupons{Issued: 7, ByHand: 1, Usable: 3, Reserved: 1, Used: 1, Expired: 1, Revoked: 1,
		UsedWon: won(5000), OpenWon: won(20_000), ExpiredWon: won(5000), RevokedWon: won(5000)}
	wantPercent := report.UserCoupons{Issued: 3, Usable: 1, Reserved: 1, Used: 1, UsedWon: won(2000),
		OpenWon: won(6000), ExpiredWon: won(0), RevokedWon: won(0)}
	sum := report.UserCoupons{Issued: 10, ByHand: 1, Usable: 4, Reserved: 2, Used: 2, Expired: 1, Revoked: 1,
		UsedWon: won(7000), OpenWon: won(26_000), ExpiredWon: won(5000), RevokedWon: won(5000)}
	same := func(want, got report.UserCoupons) {
		t.Helper()
		require.Equal(t, want, got, "%+v", got)
	}
	same(wantFixed, r.Coupons[0].UserCoupons)
	// As big.Int has two zeros.
	r.Coupons[1].UserCoupons.ExpiredWon, r.Coupons[1].UserCoupons.RevokedWon = won(0), won(0)
	same(wantPercent, r.Coupons[1].UserCoupons)
	same(sum, r.Total.UserCoupons)
	require.Len(t, r.Campaigns, 1)
	same(sum, r.Campaigns[0].UserCoupons)
	require.EqualValues(t, 7, r.Campaigns[0].CampaignID)
	require.Equal(t, 2, r.Campaigns[0].Coupons)
	require.EqualValues(t, 9, r.Campaigns[0].Applications)

	require.EqualValues(t, 3*3000, r.Coupons[1].ValueWon.Int64())
	require.EqualValues(t, 6*5000+3*3000, r.Total.ValueWon.Int64())
	var table bytes.Buffer
	report.Edition{Report: r, Period: report.Period{From: now, To: now, Bucket: time.Minute},
		Locale: output.Locale{Language: text.English, Zone: seoul}}.Table(&table)
	require.Contains(t, table.String(), "≤ 9,000 ")
	require.Contains(t, table.String(), "≤ 39,000 ")
	require.Contains(t, table.String(), " 30,000 ", "the amount of a fixed discount is exact")
	require.Contains(t, table.String(), "Sums of campaigns")
}

// The sums by SQL are those of coupon.StateAt on each row, for every kind of row.
func TestReportAgreesWithStateAt(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	statuses := []coupon.UserCouponStatus{coupon.CouponIssued, coupon.CouponReserved, coupon.CouponUsed,
		coupon.CouponRevoked}
	past, future := "UTC_TIMESTAMP(6) - INTERVAL 1 SECOND", "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
	times := map[string]time.Time{past: time.Unix(1, 0), future: time.Unix(3, 0)}
	for _, apart := range []int64{1, 10} { // far apart, another query counts them
		id := d.AddCoupon(100)
		d.Exec("UPDATE coupon SET discount_won = 10 WHERE id = ?", id)
		want := map[coupon.UserCouponStatus]int64{}
		row := d.Number("SELECT COALESCE(MAX(id), 0) FROM user_coupon")
		user := coupon.UserID(0)
		add := func(status coupon.UserCouponStatus, expires, until string) {
			row += apart
			user++
			order := ""
			if status == coupon.CouponReserved || status == coupon.CouponUsed {
				order = id.String() + "-" + user.Member()
				d.Exec("INSERT INTO coupon_order VALUES (?, 1, 1, 100, 7, ?, "+until+")", order, status)
			}
			d.Exec("INSERT INTO user_coupon (id, coupon_id, user_id, status, order_id, expires_at) VALUES (?, ?, ?, "+
				"?, NULLIF(?, ''), "+expires+")",
				row, id, user, status, order)
			want[coupon.StateAt(status, times[until], times[expires], time.Unix(2, 0))]++
		}
		for _, status := range statuses {
			for expires := range times {
				for _, until := range []string{past, future} {
					add(status, expires, until)
				}
			}
		}
		u := read(d, day(t, "2025-11-20"), id).Coupons[0].UserCoupons
		require.Equal(t, want, map[coupon.UserCouponStatus]int64{coupon.CouponIssued: u.Usable,
			coupon.CouponReserved: u.Reserved, coupon.CouponUsed: u.Used,
			coupon.CouponExpired: u.Expired, coupon.CouponRevoked: u.Revoked})
		require.EqualValues(t, user, u.Issued)
		require.Equal(t, 7*want[coupon.CouponUsed], u.UsedWon.Int64())
		require.Equal(t, 10*(u.Usable+u.Reserved), u.OpenWon.Int64())
	}
}
