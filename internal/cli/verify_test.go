package cli

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/verify"
)

// The exit code and the output show what the checker finds. internal/verify tests each corruption.
func TestVerify_PrintsPlantedCorruptions(t *testing.T) {
	t.Parallel()
	corruptions := map[string]struct {
		plant func(w *world, couponID coupon.CouponID)
		codes []verify.Code
	}{
		"nothing": {func(*world, coupon.CouponID) {}, nil},
		"a wrong count": {func(w *world, couponID coupon.CouponID) {
			w.Exec("UPDATE coupon SET issued_count = issued_count - 3 WHERE id = ?", couponID)
		}, []verify.Code{verify.CountWrong}},
		"an arrival in the future": {func(w *world, couponID coupon.CouponID) { w.ApplyAt(couponID, "52", w.Now().Add(time.Hour)) }, []verify.Code{verify.LineRewound}},
		"a changed audit event": {func(w *world, couponID coupon.CouponID) {
			w.Exec("UPDATE audit_event SET reason = 'TICKET-8' WHERE coupon_id = ? AND seq = 1", couponID)
		}, []verify.Code{verify.AuditChanged}},
	}
	w := newWorld(t)
	w.AddUsers(between(1, 60)...)
	coupons := map[string]coupon.CouponID{}
	for name := range corruptions {
		coupons[name] = w.AddCoupon(8)
		w.Apply(coupons[name], between(1, 10)...)
	}
	cutoff := w.Now()
	for _, couponID := range coupons {
		w.Apply(couponID, 11, 12)
	}
	w.settleNow("--cutoff=" + cutoff.Format(time.RFC3339Nano))
	w.verify()
	for name, c := range corruptions {
		c.plant(w, coupons[name])
	}

	code, report := w.verifyCode()
	require.Equal(t, exitInvariant, code)
	require.True(t, report.Violated)
	require.Len(t, report.Coupons, len(corruptions))
	for name, c := range corruptions {
		verdict := report.Coupons[slices.IndexFunc(report.Coupons, func(v *verify.Verdict) bool { return v.Coupon == coupons[name] })]
		want := exitDone
		var found []verify.Code
		for _, f := range slices.DeleteFunc(verdict.Findings, verify.Finding.OfCreation) {
			found = append(found, f.Code)
			if !f.Warning {
				want = exitInvariant
			}
		}
		slices.Sort(found)
		require.Equal(t, c.codes, found, name)
		code, stdout, stderr := w.settle("verify", fmt.Sprintf("--coupon=%d", coupons[name]))
		require.Equal(t, want, code, "%s: %s%s", name, stdout, stderr)
		require.Contains(t, stdout, verdict.AuditHead.Hash)
		for _, code := range found {
			require.Contains(t, stdout, string(code), name)
		}
	}
}

func TestVerify_ChecksOtherCouponsBesideBrokenOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken, lossy, whole := w.AddCoupon(1), w.AddCoupon(7), w.AddCoupon(1)
	w.AddUsers(1, 2)
	w.Apply(lossy, 1, 2)
	w.Apply(whole, 1)
	require.NoError(t, w.Redis.ZRem(t.Context(), w.Queue(lossy), "1").Err())
	state := "state:{" + w.Queue(broken) + "}"
	require.NoError(t, w.Redis.Del(t.Context(), state).Err())
	require.NoError(t, w.Redis.Set(t.Context(), state, "a value of another type", 0).Err())
	code, _ := w.settleNowCode()
	require.Equal(t, 2, code, "a key of the wrong type needs an operator, and counts before the gap")

	code, stdout, stderr := w.settle("verify")
	require.Equal(t, 2, code)
	require.Contains(t, stdout, "PROMISE_LOST")
	require.Contains(t, stderr, fmt.Sprintf("coupon %d: ", broken))

	code, verdicts := w.verifyCode()
	require.Equal(t, 2, code)
	require.Len(t, verdicts.Unchecked, 1)
	code, stdout, _ = w.settle("verify", fmt.Sprintf("--coupon=%d", whole), fmt.Sprintf("--coupon=%d", whole))
	require.Zero(t, code)
	require.Contains(t, stdout, "1 coupon for 1 seat")
}
