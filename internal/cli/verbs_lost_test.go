package cli

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// The verb must succeed, by itself or when it is repeated, and report no violation that does not exist.
func TestALostConnectionAtAnyOperationOfAPersonsVerb(t *testing.T) {
	t.Parallel()
	person := []string{"--operator=kim", "--reason=test"}
	for name, verb := range map[string]struct {
		args func(couponID coupon.CouponID) []string
		done func(w *world, couponID coupon.CouponID)
	}{
		"dlq drop": {
			func(c coupon.CouponID) []string {
				return []string{"dlq", "drop", fmt.Sprintf("--coupon=%d", c), "--user=3"}
			},
			func(w *world, c coupon.CouponID) { require.Equal(w.t, []coupon.UserID{3}, w.outcome(c, "REJECTED")) },
		},
		"dlq retry": {
			func(c coupon.CouponID) []string {
				return []string{"dlq", "retry", fmt.Sprintf("--coupon=%d", c), "--user=3", "--cutoff=now"}
			},
			func(w *world, c coupon.CouponID) { require.Equal(w.t, 2, w.reason(c, "3").Attempts) },
		},
		"coupon close": {
			func(c coupon.CouponID) []string { return []string{"coupon", "close", fmt.Sprint(c)} },
			func(w *world, c coupon.CouponID) {
				require.Len(w.t, w.ids("SELECT id FROM coupon WHERE id = ? AND apply_closes_at < UTC_TIMESTAMP(6)", c), 1)
			},
		},
		"coupon pause": {
			func(c coupon.CouponID) []string { return []string{"coupon", "pause", fmt.Sprint(c)} },
			func(w *world, c coupon.CouponID) {
				require.Len(w.t, w.ids("SELECT id FROM coupon WHERE id = ? AND status = 'PAUSED'", c), 1)
			},
		},
		"coupon add-seats": {
			func(c coupon.CouponID) []string { return []string{"coupon", "add-seats", fmt.Sprint(c), "--total=7"} },
			func(w *world, c coupon.CouponID) {
				require.Equal(w.t, []uint64{7}, w.ids("SELECT total_quantity FROM coupon WHERE id = ?", c))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWiredWorld(t)
			w.users(1, 2, 3)
			w.setStanding("BLOCKED", 3)
			w.servers[0] = "--mysql-dsn=" + w.accounts["jajeong_operator"]
			for lost, last := int64(1), int64(1); lost <= last; lost++ {
				couponID := w.coupon(5)
				w.apply(couponID, 1, 2, 3)
				w.settleNow(fmt.Sprintf("--coupon=%d", couponID))
				var turns atomic.Int64
				var request atomic.Value
				_, servers := w.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
					if turn.Proxy != toMySQL {
						return faultproxy.Pass()
					}
					if turns.Add(1) == lost {
						request.Store(strings.ToValidUTF8(string(turn.Request), "?"))
						return faultproxy.DropRequest(nil)
					}
					return faultproxy.Pass()
				})
				through := *w
				through.servers = servers
				code, stdout, stderr := through.settle(append(verb.args(couponID), person...)...)
				last = turns.Load()
				what := fmt.Sprintf("operation %d lost, %q: %s%s", lost, request.Load(), stdout, stderr)
				require.Contains(t, []int{0, 1}, code, what)
				require.NotContains(t, stderr, "coupon 0", what)
				if code == 1 { // what is only read is not asked again
					code, stdout, stderr = w.settle(append(verb.args(couponID), person...)...)
					require.Zero(t, code, "%s; again: %s%s", what, stdout, stderr)
				}
				verb.done(w, couponID)
			}
			w.verify()
		})
	}
}
