package cli

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	require.EqualValues(t, broken, w.Number("SELECT coupon_id FROM seal WHERE wrong"), "the next check looks again")
	require.Positive(t, w.Number("SELECT COUNT(*) FROM verify_progress"))

	w.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, note, run_id, recorded_at)
		VALUES (777, 1, UTC_TIMESTAMP(6), 'NOT_SELECTED', '', 1, UTC_TIMESTAMP(6))`)
	w.Exec("DELETE FROM verify_progress")
	_, verdicts = w.verifyCode()
	require.Len(t, verdicts.Strays, 1)
	require.Positive(t, w.Number("SELECT COUNT(*) FROM verify_progress"))
	require.Zero(t, w.Number("SELECT COUNT(*) FROM verify_progress WHERE name LIKE '%application_outcome'"),
		"the next check looks there again")
	w.Exec("DELETE FROM application_outcome WHERE coupon_id = 777")
	code, stdout, _ = w.settle("verify", fmt.Sprintf("--coupon=%d", whole), fmt.Sprintf("--coupon=%d", whole))
	require.Zero(t, code)
	require.Contains(t, stdout, "1 coupon for 1 seat")
}
