package cli

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A change that is approved, or pinned to its preview, is made once, also if the reply to a COMMIT is lost.
func TestApprovals_AfterLostCommits(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.AddUsers(1, 2, 3)
	for name, of := range map[string]struct {
		prepare func() coupon.CouponID
		command func(id coupon.CouponID) []string
	}{
		"add-seats": {func() coupon.CouponID { return w.AddCoupon(2) },
			func(id coupon.CouponID) []string { return []string{"coupon", "add-seats", id.String(), "--seats=3"} }},
		"restore": {func() coupon.CouponID {
			id := w.couponFor(2, 1, 2)
			w.Journal(id)
			require.NoError(w.T, w.Redis.ZRem(w.T.Context(), w.Queue(id), "1").Err())
			return id
		}, func(id coupon.CouponID) []string { return []string{"restore", "--coupon=" + id.String()} }},
		"run": {func() coupon.CouponID { return w.couponFor(2, 1, 2, 3) },
			func(id coupon.CouponID) []string {
				return []string{"run", "--coupon=" + id.String(), "--cutoff=" + time.Now().UTC().Format(time.RFC3339Nano)}
			}},
	} {
		w.Exec("DELETE FROM policy WHERE id > 1")
		t.Run(name+", pinned", func(t *testing.T) {
			for lost, more := int64(1), true; more; lost++ {
				id := of.prepare()
				command := of.command(id)
				var commits atomic.Int64
				_, d := w.Proxied(losing(lost, &commits))
				code, _, stderr := w.withServers(d.Flags(d.Operator)).kim(append(command, "--expect-digest="+w.digestOf(command...))...)
				require.Zero(t, code, "commit %d: %s", lost, stderr)
				w.Verify(id)
				more = commits.Load() >= lost
			}
		})
		w.setPolicy("add-seats,restore,run")
		t.Run(name, func(t *testing.T) {
			for lost, more := int64(1), true; more; lost++ {
				id := of.prepare()
				command := of.command(id)
				a := w.ask(command...)
				w.approve(a)
				var commits atomic.Int64
				_, d := w.Proxied(losing(lost, &commits))
				through := w.withServers(d.Flags(d.Operator))
				code, _, stderr := through.kim(append(command, a.flag())...)
				require.Zero(t, code, "commit %d: %s", lost, stderr)
				require.EqualValues(t, 1, w.Number("SELECT COUNT(*) FROM audit_event WHERE coupon_id = ? AND action = 'APPROVAL_USED'", id), fmt.Sprint("commit ", lost))
				w.Verify(id)
				more = commits.Load() >= lost
			}
		})
	}
}

// losing is a rule that drops the reply to one COMMIT, and counts them.
func losing(lost int64, commits *atomic.Int64) faultproxy.Rule {
	return func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte("COMMIT")) && commits.Add(1) == lost {
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	}
}
