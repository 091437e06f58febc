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
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
)

var queueMetrics = []string{"jajeong_queue_length", "jajeong_queue_oldest_arrival_timestamp_seconds"}

func (w *world) queues(heads catalog.Heads) catalog.Queues {
	return catalog.Queues{Coupons: w.catalog.Coupons, Heads: heads, SettlesAt: func(at time.Time) time.Time { return at.Add(time.Hour) }, Now: time.Now}
}

// Every coupon that has opened and is not finalised has queue metrics, also after it closed.
func TestQueues_AreByCoupon(t *testing.T) {
	w := newWorld(t)
	for id := uint64(1); id <= 4; id++ {
		w.coupon(id)
	}
	w.couponBetween(5, "1 HOUR", "1 DAY")
	w.exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = 4")
	collector := w.queues(w.store)
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
# HELP jajeong_queue_length Applications in the queue, by coupon; of the 200 coupons that close first.
# TYPE jajeong_queue_length gauge
jajeong_queue_length{coupon_id="1"} 2
jajeong_queue_length{coupon_id="2"} 1
jajeong_queue_length{coupon_id="3"} 0
# HELP jajeong_queue_oldest_arrival_timestamp_seconds Arrival of the first application in the queue, by coupon.
# TYPE jajeong_queue_oldest_arrival_timestamp_seconds gauge
jajeong_queue_oldest_arrival_timestamp_seconds{coupon_id="1"} `+seconds(first.Arrival)+`
jajeong_queue_oldest_arrival_timestamp_seconds{coupon_id="2"} `+seconds(at)+`
`), queueMetrics...))
}

// The first cutoff that is due, the time until a queue expires, and the DLQ.
func TestQueues_DueTimeTTLAndReview(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	w.coupon(2)
	w.refresh()
	collector := w.queues(w.store)
	whole := []string{"jajeong_settlement_due_timestamp_seconds", "jajeong_queue_least_ttl_seconds", "jajeong_dlq_oldest_timestamp_seconds"}
	require.Zero(t, testutil.CollectAndCount(collector, whole...), "nobody waits")
	first := w.apply(1, 7)
	w.apply(2, 7)
	later := w.apply(2, 8)
	since := time.UnixMicro(first.Arrival).Add(24 * time.Hour).UTC().Truncate(time.Second)
	moved, err := w.store.Review(t.Context(), 2, 0, since, []coupon.Failure{{
		Application: coupon.Application{Member: "8", Arrival: later.Arrival, Source: coupon.SourceQueue},
		Cause:       coupon.CauseUnknownUser,
	}})
	require.NoError(t, err)
	require.EqualValues(t, 1, moved)
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(fmt.Sprintf(`
# HELP jajeong_dlq_length Applications in the DLQ, by coupon; of the 200 coupons that close first.
# TYPE jajeong_dlq_length gauge
jajeong_dlq_length{coupon_id="1"} 0
jajeong_dlq_length{coupon_id="2"} 1
# HELP jajeong_dlq_oldest_timestamp_seconds Time when the entry with the lowest arrival came into the DLQ, by coupon.
# TYPE jajeong_dlq_oldest_timestamp_seconds gauge
jajeong_dlq_oldest_timestamp_seconds{coupon_id="2"} %d
# HELP jajeong_settlement_due_timestamp_seconds Cutoff of the oldest application in any queue; in the past: its settlement is late.
# TYPE jajeong_settlement_due_timestamp_seconds gauge
jajeong_settlement_due_timestamp_seconds %v
`, since.Unix(), float64(first.Arrival)/1e6+3600)), "jajeong_dlq_length", "jajeong_dlq_oldest_timestamp_seconds", "jajeong_settlement_due_timestamp_seconds"))

	heads := w.store.QueueStats(t.Context(), []uint64{1, 2})
	least := min(heads[1].TTL, heads[2].TTL)
	require.Positive(t, least)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "jajeong_queue_least_ttl_seconds" {
			require.InDelta(t, least.Seconds(), f.GetMetric()[0].GetGauge().GetValue(), 60)
			return
		}
	}
	t.Fatal("no life is told")
}

// The number of series is bounded; the coupons that close first have them.
func TestQueues_AreBounded(t *testing.T) {
	w := newWorld(t)
	const coupons = 210
	for id := uint64(1); id <= coupons; id++ {
		w.couponBetween(id, "-1 HOUR", fmt.Sprintf("%d MINUTE", 1000-id))
	}
	w.refresh()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.queues(w.store))
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

// The age of the catalog does not need Redis.
func TestQueues_AreMissingWithoutRedis(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	away, err := (&connect.RedisSettings{RedisAddrs: []string{"127.0.0.1:1"}}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { away.Close() })
	store, err := candidates.NewStore(away, candidates.Options{TTL: candidates.MinTTL})
	require.NoError(t, err)
	require.InDelta(t, 1, testutil.CollectAndCount(w.catalog.Metrics(), "jajeong_catalog_age_seconds"), 0)
	w.refresh()
	require.Zero(t, testutil.CollectAndCount(w.queues(store)))
	age, known := w.catalog.Age()
	require.True(t, known)
	require.Less(t, age, time.Minute)
}
