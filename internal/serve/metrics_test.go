package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		later := open(3)
		later.Opens = time.Now().Add(refreshInterval)
		s := newServers(open(1), open(2), later)
		r := s.start(t, 1)
		s.apply(1)
		s.apply(1)
		pass(2 * interval)
		s.change(func() {
			s.settle = nil
			s.looking = errAway
		})
		pass(interval + interval/10)
		s.change(func() { s.looking, s.lines[2], s.lines[3] = nil, 5, 5 })
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(r.Issue)
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP jajeong_issue_lag_seconds Time since the arrival of the first application in the queue of an immediate coupon; of 200 coupons with a line.
# TYPE jajeong_issue_lag_seconds gauge
jajeong_issue_lag_seconds{coupon_id="2"} 3
`), "jajeong_issue_lag_seconds"))
		require.Equal(t, 1, testutil.CollectAndCount(r.measured.delay))
		require.EqualValues(t, 1, testutil.ToFloat64(r.measured.runs.WithLabelValues("SETTLED")))
		require.EqualValues(t, 1, testutil.ToFloat64(r.measured.looks.WithLabelValues(lookLine)))
		require.EqualValues(t, 1, testutil.ToFloat64(r.measured.looks.WithLabelValues(lookFailed)))
	})
}

func TestMetrics_BoundsLags(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers()
		for id := range coupon.CouponID(2 * maxLags) {
			s.coupons = append(s.coupons, open(id+1))
		}
		r := s.start(t, 1)
		s.change(func() {
			for _, c := range s.coupons {
				s.lines[c.ID] = 1
			}
		})
		require.Equal(t, maxLags, testutil.CollectAndCount(r.Issue, "jajeong_issue_lag_seconds"))
	})
}
