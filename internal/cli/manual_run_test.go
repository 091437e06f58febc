package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func TestRun_AuditsManualRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2)
	for _, member := range []string{"2", "99"} { // NOT_SELECTED and unknown
		couponID := w.AddCoupon(1)
		w.Apply(couponID, 1)
		only := fmt.Sprintf("--coupon=%d", couponID)
		digest := w.settleNow(only).Coupons[0].WinnersDigest
		w.settleNow(only) // changes nothing
		w.ApplyAt(couponID, member, w.Now())
		w.settleNow(only, "--operator=lee", "--reason=TICKET-7")
		events := jajeongtest.Column[string](w.Deployment,
			"SELECT CONCAT_WS('; ', actor, reason, detail) FROM audit_event WHERE coupon_id = ? AND action = 'SETTLED_BY_HAND' ORDER BY id", couponID)
		require.Len(t, events, 2)
		require.Regexp(t, "^kim; test; .*\"issued\":1,\"digest\":\""+digest, events[0])
		require.Regexp(t, "^lee; TICKET-7; .*\"issued\":0,\"digest\":\"sha256:[0-9a-f]+\"}$", events[1])
	}
	w.verify()
}

func TestRun_AcceptsDigestOfNoWinners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	w.Exec("UPDATE `user` SET status = 'BLOCKED'")
	couponID := w.AddCoupon(1)
	w.Apply(couponID, 1)
	cutoff := "--cutoff=" + w.Now().Format(time.RFC3339Nano)
	preview := w.settleNow("--dry-run", "--coupon=1", cutoff)
	const nobody = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	require.Equal(t, nobody, preview.Coupons[0].Preview.Digest)

	w.Exec("UPDATE `user` SET status = 'ACTIVE'")
	approved := []string{"run", "--coupon=1", cutoff, "--operator=kim", "--reason=x", "--expect-digest=" + nobody}
	code, _, stderr := w.settle(approved...)
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "not the approved "+nobody)
	require.Empty(t, w.Issued(couponID))
	w.Exec("UPDATE `user` SET status = 'BLOCKED'")
	code, _, stderr = w.settle(approved...)
	require.Zero(t, code, stderr)
}

// The DLQ has the application when the run walks the rest.
func TestRun_ReadsUnselectedApplicationWithRefusedRowOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.RefuseOddUsers()
	couponID := w.AddQueue(1, 1, 2, 3)
	w.SettleNow()
	require.Equal(t, []coupon.UserID{2, 3}, w.Outcome(couponID, "NOT_SELECTED"))
	w.Exec("INSERT INTO odd_user (id) VALUES (2)")
	w.SetSeats(couponID, 3)
	preview, run := w.settleNow("--dry-run").Coupons[0], w.SettleNow().Coupons[0]
	require.Equal(t, []int{1, 1, 2}, []int{run.Issued, run.UnderReview, run.Read})
	require.Equal(t, preview.Read, run.Read)
	require.Contains(t, w.UnderReview(couponID), "2")
	w.verify()
}
