package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
)

// codesOf are what verify finds, strays included.
func codesOf(r ledger.Summary) (codes []ledger.Code) {
	findings := r.Strays
	for _, v := range r.Coupons {
		findings = append(findings, v.Findings...)
	}
	for _, f := range findings {
		codes = append(codes, f.Code)
	}
	return codes
}

// What no run looks for is found by the program, with exit code 3, in both languages.
func TestVerifyFindsWhoIsNeverSettled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do    func(w *world, couponID coupon.CouponID)
		codes []ledger.Code
	}{
		"finalised while people wait": {func(w *world, couponID coupon.CouponID) {
			w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6), apply_closes_at = ? WHERE id = ?", w.now().UTC(), couponID)
		}, []ledger.Code{ledger.NeverSettled}},
		"a coupon deleted": {func(w *world, couponID coupon.CouponID) {
			w.exec("DELETE FROM coupon WHERE id = ?", couponID)
		}, []ledger.Code{ledger.NeverSettled}},
		"a night in the future": {func(w *world, couponID coupon.CouponID) {
			w.exec("INSERT INTO settlement_run (cutoff, finished_at, status) VALUES (UTC_TIMESTAMP(6) + INTERVAL 1 DAY, UTC_TIMESTAMP(6), 'SUCCEEDED')")
		}, []ledger.Code{ledger.NightAhead}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			couponID := w.coupon(3)
			w.users(between(1, 5)...)
			w.apply(couponID, between(1, 5)...)
			w.verify()
			test.do(w, couponID)
			code, report := w.verifyCode()
			require.Equal(t, 3, code)
			require.True(t, report.Violated)
			require.Equal(t, test.codes, codesOf(report))
			code, stdout, _ := w.settle("verify", "--lang=ko")
			require.Equal(t, 3, code)
			require.Contains(t, stdout, "위반 "+string(test.codes[0]))
		})
	}
}

// A door that goes by another window than its row is found when it has had time, and mended by telling it again.
func TestVerifyComparesDoorAndRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	asKim := []string{"--operator=kim", "--reason=INC-3"}
	w.refresh()
	w.verify()
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(couponID)+"}", "closes", w.now().Add(2*time.Hour).UnixMicro()).Err())
	code, report := w.verifyCode()
	require.Equal(t, 3, code)
	require.Equal(t, []ledger.Code{ledger.DoorDiffers}, codesOf(report))
	code, _, stderr := w.settle(append([]string{"coupon", "resume", fmt.Sprint(couponID)}, asKim...)...)
	require.Zero(t, code, stderr)
	w.verify()
}

// What two servers have counted is told wherever the figures are, so that they come out even.
func TestVerifyTellsWhomTwoServersCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, user := range between(1, 2) {
		couponID := w.coupon(1)
		w.users(user)
		w.apply(couponID, user)
		w.exec("INSERT INTO promise (coupon_id, accepted, last_arrival, twice, seen_at) VALUES (?, 3, 0, 2, UTC_TIMESTAMP(6))"+
			" ON DUPLICATE KEY UPDATE accepted = 3, twice = 2", couponID)
	}
	code, total := w.verifyCode()
	require.Zero(t, code)
	require.EqualValues(t, 4, total.Total.Account.AskedAgain)
	require.Equal(t, total.Total.Gap, total.Total.Account.Gap())
	for lang, want := range map[string]string{"en": "written off 0, accepted again after a failover 4: gap 0", "ko": "유실 인정 0, 페일오버 뒤 다시 접수 4: 유실 0"} {
		_, text, _ := w.settle("verify", "--lang="+lang)
		require.Contains(t, text, want)
	}
}
