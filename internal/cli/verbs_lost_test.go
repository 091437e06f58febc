package cli

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A verb of an operator succeeds without its last COMMIT, the reply to it, or another operation. It reports no
// violation.
func TestVerbs_RepeatAfterALostConnection(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	listed := jajeongtest.Between[coupon.UserID](101, 5102)
	w.AddUsers(append([]coupon.UserID{1, 2, 3, 4}, listed...)...)
	w.SetStatus("BLOCKED", 3)
	w.servers[0] = "--mysql-dsn=" + w.Accounts["jajeong_operator"]
	person := []string{"--operator=kim", "--reason=test"}
	for name, verb := range map[string]struct {
		args func(couponID coupon.CouponID) []string
		done func(w *world, couponID coupon.CouponID)
	}{
		"dlq drop": {
			func(c coupon.CouponID) []string {
				return []string{"dlq", "drop", fmt.Sprintf("--coupon=%d", c), "--user=3"}
			},
			func(w *world, c coupon.CouponID) { require.Equal(w.T, []coupon.UserID{3}, w.Outcome(c, "REJECTED")) },
		},
		"dlq retry": {
			func(c coupon.CouponID) []string {
				return []string{"dlq", "retry", fmt.Sprintf("--coupon=%d", c), "--user=3", "--cutoff=now"}
			},
			func(w *world, c coupon.CouponID) { require.Equal(w.T, 2, w.Reason(c, "3").Attempts) },
		},
		"coupon close": {
			func(c coupon.CouponID) []string { return []string{"coupon", "close", fmt.Sprint(c)} },
			func(w *world, c coupon.CouponID) {
				require.Len(w.T, w.IDs("SELECT id FROM coupon WHERE id = ? AND apply_closes_at < UTC_TIMESTAMP(6)", c),
					1)
			},
		},
		"coupon pause": {
			func(c coupon.CouponID) []string { return []string{"coupon", "pause", fmt.Sprint(c)} },
			func(w *world, c coupon.CouponID) {
				require.Len(w.T, w.IDs("SELECT id FROM coupon WHERE id = ? AND status = 'PAUSED'", c), 1)
			},
		},
		"coupon add-seats": {
			func(c coupon.CouponID) []string { return []string{"coupon", "add-seats", fmt.Sprint(c), "--seats=2"} },
			func(w *world, c coupon.CouponID) {
				require.Equal(w.T, []uint64{7}, w.IDs("SELECT total_quantity FROM coupon WHERE id = ?", c))
			},
		},
		"coupon grant": {
			func(c coupon.CouponID) []string { return []string{"coupon", "grant", fmt.Sprint(c), "--user=4"} },
			func(w *world, c coupon.CouponID) {
				require.Equal(w.T, []uint64{6}, w.IDs("SELECT total_quantity FROM coupon WHERE id = ?", c))
				w.logged(c, 4, "GRANTED")
			},
		},
		"coupon grant --file": {
			func(c coupon.CouponID) []string {
				return []string{"coupon", "grant", fmt.Sprint(c), "--file=" + listFile(w.T, listed)}
			},
			func(w *world, c coupon.CouponID) {
				require.Equal(w.T, []uint64{uint64(5 + len(listed))},
					w.IDs("SELECT total_quantity FROM coupon WHERE id = ?", c))
				require.EqualValues(w.T, len(listed), w.Number("SELECT COUNT(*) FROM user_coupon u JOIN coupon_log l ON "+
					"l.user_coupon_id = u.id AND l.kind = 'GRANTED' WHERE u.coupon_id = ?", c))
				require.EqualValues(w.T, 2, w.Number("SELECT COUNT(*) FROM audit_event WHERE coupon_id = ? AND "+
					"action = 'COUPON_LIST_GRANTED'", c))
			},
		},
		"coupon revoke": {
			func(c coupon.CouponID) []string {
				return []string{"coupon", "revoke", fmt.Sprint(c), "--user=1", "--free-seat"}
			},
			func(w *world, c coupon.CouponID) {
				require.Equal(w.T, []uint64{6}, w.IDs("SELECT total_quantity FROM coupon WHERE id = ?", c))
				w.logged(c, 1, "REVOKED")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{Deployment: w.For(t), servers: w.servers}
			try := func(lost int64, action faultproxy.Action) (operations, commit int64) {
				couponID := w.AddCoupon(5)
				w.Apply(couponID, 1, 2, 3)
				w.SettleNow(couponID)
				var turns, last atomic.Int64
				var request atomic.Value
				_, servers := w.proxied(func(turn faultproxy.Turn) faultproxy.Action {
					if turn.Proxy != jajeongtest.ToMySQL {
						return faultproxy.Pass()
					}
					n := turns.Add(1)
					if bytes.HasSuffix(turn.Request, []byte("COMMIT")) {
						last.Store(n)
					}
					if n == lost {
						request.Store(strings.ToValidUTF8(string(turn.Request), "?"))
						return action
					}
					return faultproxy.Pass()
				})
				through := *w
				through.servers = servers
				code, stdout, stderr := through.settle(append(verb.args(couponID), person...)...)
				what := fmt.Sprintf("operation %d lost, %q: %s%s", lost, request.Load(), stdout, stderr)
				require.Zero(t, code, what)
				require.NotContains(t, stderr, "coupon 0", what)
				require.NotContains(t, stdout, "nothing was changed", what)
				if name == "coupon grant --file" {
					require.Regexp(t, " (5002명에게|5002 got it)", stdout, what)
				}
				verb.done(w, couponID)
				return turns.Load(), last.Load()
			}
			operations, commit := try(0, faultproxy.Pass())
			require.Positive(t, commit)
			try(commit, faultproxy.DropRequest(nil))
			try(commit, faultproxy.DropReply(nil))
			for step, lost := max(1, operations/int64(testenv.Rounds(3, 1_000))),
				int64(1); lost <= operations; lost += step {
				try(lost, faultproxy.DropRequest(nil))
			}
		})
	}
	w.verify()
}

// logged requires that coupon_log has one row of a user's coupon, and the audit log one event.
func (w *world) logged(couponID coupon.CouponID, user coupon.UserID, kind string) {
	w.T.Helper()
	require.Equal(w.T, []string{kind}, jajeongtest.Column[string](w.Deployment,
		"SELECT l.kind FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id WHERE u.coupon_id = ? AND "+
			"u.user_id = ?", couponID, user))
	require.Len(w.T, w.IDs("SELECT id FROM audit_event WHERE coupon_id = ? AND action = ?", couponID, "COUPON_"+kind),
		1)
}
