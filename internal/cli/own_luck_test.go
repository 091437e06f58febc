package cli

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// Something between the program and MySQL cuts one coupon's statement each time it comes. The server is well, and the
// others are settled.
func TestOneCouponsBadLuckIsNotTheServers(t *testing.T) {
	t.Parallel()
	w := newWiredWorld(t)
	w.users(1, 2)
	var coupons []uint64
	for range 3 {
		coupon := w.coupon(1)
		w.apply(coupon, 1, 2)
		coupons = append(coupons, coupon)
	}
	unlucky := fmt.Appendf(nil, "SELECT %d, j.user_id, 0 + ", coupons[0])
	_, servers := w.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == toMySQL && bytes.Contains(turn.Request, unlucky) {
			return faultproxy.DropRequest(nil)
		}
		return faultproxy.Pass()
	})
	code, stdout, stderr := w.settleThrough(servers)
	require.Equal(t, 1, code, "%s%s", stdout, stderr)
	require.Empty(t, w.issued(coupons[0]))
	require.Empty(t, w.underReview(coupons[0]), "MySQL is not away")
	require.Equal(t, []uint64{1}, w.issued(coupons[1]))
	require.Equal(t, []uint64{1}, w.issued(coupons[2]))
	require.Empty(t, w.ids("SELECT id FROM settlement_run WHERE status = 'RUNNING'"))

	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(coupons[0]))
	w.verify()
}

func TestARetryIsAuditedOnceWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	w := newWiredWorld(t)
	w.users(1)
	coupon := w.coupon(1)
	w.apply(coupon, 2)
	w.settleNow()
	lost := false
	_, servers := w.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == toMySQL && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) && !lost {
			lost = true
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	there := *w
	there.servers = servers
	code, stdout, stderr := there.dlq("retry", coupon, "--user=2")
	require.Zero(t, code, "%s%s", stdout, stderr)
	require.True(t, lost)
	require.Len(t, w.ids("SELECT id FROM audit_event WHERE action = 'DLQ_RETRIED' AND run_id IS NOT NULL"), 1)
}

func TestADropThatFailsClaimsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	w.apply(coupon, 1, 2)
	w.settleNow()
	w.exec("CREATE TRIGGER refuses BEFORE INSERT ON settlement FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no records today'")
	code, stdout, stderr := w.dlq("drop", coupon, "--user=1", "--output=json")
	require.Equal(t, 2, code)
	require.NotContains(t, stderr, "recorded REJECTED")
	require.Contains(t, stdout, `"rejected": 0`)
	require.Len(t, w.underReview(coupon), 2)
	w.exec("DROP TRIGGER refuses")
	w.verify()
}

// Only a hand that writes into Redis makes two of them.
func TestMembersWithOneArrivalAreNotTakenForEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(5)
	at := w.now()
	w.stand(coupon, "abc", at)
	w.stand(coupon, "def", at)
	w.settleNow()
	code, _, stderr := w.dlq("drop", coupon, "--user=abc")
	require.Zero(t, code, stderr)
	code, _, stderr = w.dlq("drop", coupon, "--user=def")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "by hand")
	w.settleNow()
	require.Contains(t, w.underReview(coupon), "def", "nothing goes without a record")
}

// A score that is no whole number is on one side of a boundary, not on both.
func TestAFractionOfAnArrivalIsCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(2)
	w.users(between(1, 5)...)
	w.apply(coupon, between(1, 5)...)
	w.settleNow()
	var last time.Time
	require.NoError(t, w.db.QueryRow("SELECT MAX(applied_at) FROM application_outcome").Scan(&last))
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(coupon), redis.Z{Score: float64(last.UnixMicro()) + 0.5, Member: "77"}).Err())
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(coupon), redis.Z{Score: float64(last.UnixMicro() - 10), Member: "78"}).Err())
	_, report := w.verifyCode()
	require.EqualValues(t, 2, report.Coupons[0].Account.Waiting)
	require.EqualValues(t, -2, report.Coupons[0].Gap)
}
