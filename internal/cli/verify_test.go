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
	code, stdout, _ = w.settle("verify", fmt.Sprintf("--coupon=%d", whole), fmt.Sprintf("--coupon=%d", whole))
	require.Zero(t, code)
	require.Contains(t, stdout, "1 coupon for 1 seat")
}
