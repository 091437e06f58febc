package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
)

var queueMetrics = []string{"jajeong_queue_length", "jajeong_queue_oldest_arrival_timestamp_seconds"}

// Who waits is told of the coupons that have opened and are not finalised, also of those that have closed.
func TestQueuesAreToldByCoupon(t *testing.T) {
	w := newWorld(t)
	for id := uint64(1); id <= 4; id++ {
		w.coupon(id)
	}
	w.couponBetween(5, "1 HOUR", "1 DAY")
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = 4")
	collector := w.catalog.Metrics(w.store)
	require.Zero(t, testutil.CollectAndCount(collector, queueMetrics...), "nothing is known yet")
	w.refresh()
	first := w.apply(1, 7)
	w.apply(1, 8)
	w.apply(2, 7)
	at := w.apply(2, 7).Arrival
	w.exec("UPDATE coupon SET apply_closes_at = UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE WHERE id = 2")
	w.refresh()
	seconds := func(µs int64) string { return fmt.Sprint(float64(µs) / 1e6) }
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP jajeong_queue_length Applications that wait for their settlement, by coupon; the first that close, at most 200.
# TYPE jajeong_queue_length gauge
jajeong_queue_length{coupon_id="1"} 2
jajeong_queue_length{coupon_id="2"} 1
jajeong_queue_length{coupon_id="3"} 0
# HELP jajeong_queue_oldest_arrival_timestamp_seconds When the first that waits arrived, by coupon.
# TYPE jajeong_queue_oldest_arrival_timestamp_seconds gauge
jajeong_queue_oldest_arrival_timestamp_seconds{coupon_id="1"} `+seconds(first.Arrival)+`
jajeong_queue_oldest_arrival_timestamp_seconds{coupon_id="2"} `+seconds(at)+`
`), queueMetrics...))
}

// However many coupons there are, so many have series: those that close first.
func TestQueuesAreBounded(t *testing.T) {
	w := newWorld(t)
	const coupons = 210
	for id := uint64(1); id <= coupons; id++ {
		w.couponBetween(id, "-1 HOUR", fmt.Sprintf("%d MINUTE", 1000-id))
	}
	w.refresh()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.catalog.Metrics(w.store))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "jajeong_queue_length" {
			require.Len(t, f.GetMetric(), 200)
			for _, m := range f.GetMetric() {
				var id int
				_, err := fmt.Sscan(m.GetLabel()[0].GetValue(), &id)
				require.NoError(t, err)
				require.Greater(t, id, coupons-200)
			}
			return
		}
	}
	t.Fatal("no queues")
}

// The age is told without Redis, too.
func TestWithoutRedisThereAreNoQueues(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	away, err := (&connect.RedisSettings{RedisAddrs: []string{"127.0.0.1:1"}}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { away.Close() })
	store, err := candidates.NewStore(away, candidates.Options{TTL: candidates.MinTTL})
	require.NoError(t, err)
	collector := w.catalog.Metrics(store)
	require.InDelta(t, 1, testutil.CollectAndCount(collector, "jajeong_catalog_age_seconds"), 0)
	w.refresh()
	require.Zero(t, testutil.CollectAndCount(collector, queueMetrics...))
	age, known := w.catalog.Age()
	require.True(t, known)
	require.Less(t, age, time.Minute)
}
