package settle_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A night of many small coupons takes as long as their statements. docs/performance.md has these numbers.
func TestSettle_SendsFewStatements(t *testing.T) {
	t.Parallel()
	for trigger, most := range map[coupon.Trigger]int{coupon.Cron: 13, coupon.Manual: 18} {
		t.Run(string(trigger), func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			d.AddUsers(1, 2)
			statements := 0
			_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
				if turn.Proxy == jajeongtest.ToMySQL {
					statements++
				}
				return faultproxy.Pass()
			})
			settler := proxied.Settler(func(s *settle.Settler) { s.Parallel = 1 })
			run := func(coupons int) int {
				order := jajeongtest.Manual()
				order.Trigger, order.CutoffNow = trigger, true
				for range coupons {
					id := d.AddCoupon(2)
					d.Apply(id, 1, 2)
					order.Coupons = append(order.Coupons, id)
				}
				statements = 0
				report, err := settler.RunOnce(t.Context(), order)
				require.NoError(t, err)
				require.Equal(t, 2*coupons, report.Total.Issued)
				return statements
			}
			run(1) // opens the connections
			first := run(1)
			require.Equal(t, most, run(2)-first-1, "a coupon that the order names is also read before")
		})
	}
}

// A server takes over that has not received the run, and has given its id to another one. Nothing is issued there in
// its name. The next run issues.
func TestSettle_IssuesNothingInTheNameOfAnotherRun(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2)
	id := d.AddCoupon(2)
	d.Apply(id, 1, 2)
	lose := sync.OnceFunc(func() { d.Exec("UPDATE settlement_run SET nonce = ?", make([]byte, 16)) })
	_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte("FOR UPDATE")) {
			lose()
		}
		return faultproxy.Pass()
	})
	report, err := proxied.Settle(jajeongtest.Manual(id))
	require.ErrorIs(t, err, history.ErrLost)
	require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes())
	require.Empty(t, d.Issued(id))
	require.Zero(t, d.Number("SELECT COUNT(*) FROM run_coupon"))
	d.SettleNow(id)
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	d.Verify(id)
}
