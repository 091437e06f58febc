package catalog_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

var queueMetrics = []string{"jajeong_queue_length", "jajeong_queue_oldest_arrival_timestamp_seconds"}

func (w *world) queues(stats catalog.Stats) catalog.Queues {
	return catalog.Queues{Coupons: w.catalog.Coupons, Stats: stats,
		Zone: func(context.Context) (*time.Location, error) { return time.UTC, nil }, Now: time.Now}
}

// gauges returns the values of a metric by its label, at least one.
func gauges(t *testing.T, collector prometheus.Collector, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				label = l.GetValue()
			}
			if f.GetName() == name {
				values[label] = m.GetGauge().GetValue()
			}
		}
	}
	require.NotEmpty(t, values, name)
	return values
}

// Every coupon that has opened and is not finalised has queue metrics, also after it closed.
func TestQueues_AreByCoupon(t *testing.T) {
	w := newWorld(t)
	for id := coupon.CouponID(1); id <= 4; id++ {
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
	seconds := func(at coupon.Arrival) string { return fmt.Sprint(float64(at) / 1e6) }
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
	w.coupon(3)
	w.exec("UPDATE coupon SET frozen = TRUE WHERE id = 3")
	w.refresh()
	w.apply(3, 7) // earlier than all others
	collector := w.queues(w.store)
	whole := []string{"jajeong_settlement_due_timestamp_seconds", "jajeong_queue_least_ttl_seconds",
		"jajeong_dlq_oldest_timestamp_seconds"}
	require.Zero(t, testutil.CollectAndCount(collector, whole[0], whole[2]), "only a frozen coupon has a queue")
	require.NotZero(t, gauges(t, collector, whole[1])[""], "the queue of a frozen coupon expires, too")
	first := w.apply(1, 7)
	w.apply(2, 7)
	later := w.apply(2, 8)
	since := first.Arrival.Time().Add(24 * time.Hour).Truncate(time.Second)
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
jajeong_dlq_length{coupon_id="3"} 0
# HELP jajeong_dlq_oldest_timestamp_seconds Time when the entry with the lowest arrival came into the DLQ, by coupon.
# TYPE jajeong_dlq_oldest_timestamp_seconds gauge
jajeong_dlq_oldest_timestamp_seconds{coupon_id="2"} %d
# HELP jajeong_settlement_due_timestamp_seconds Midnight that settles the oldest application in any queue, frozen coupons left out; in the past: its settlement is late.
# TYPE jajeong_settlement_due_timestamp_seconds gauge
jajeong_settlement_due_timestamp_seconds %v
`, since.Unix(), float64(calendar.NextCutoff(first.Arrival.Time(), time.UTC).Unix()))), "jajeong_dlq_length",
		"jajeong_dlq_oldest_timestamp_seconds", "jajeong_settlement_due_timestamp_seconds"))

	leastTTL := func() float64 {
		stats := w.store.QueueStats(t.Context(), []coupon.CouponID{1, 2})
		return min(stats[1].TTL, stats[2].TTL).Seconds()
	}
	before, told, after := leastTTL(), gauges(t, collector, "jajeong_queue_least_ttl_seconds")[""], leastTTL()
	require.Positive(t, after)
	require.True(t, after <= told && told <= before, "%v, %v, %v", before, told, after)
}

// A window is open from its opening until before its end, by the clock of the process.
func TestOpenCoupons_AreByCadence(t *testing.T) {
	w := newWorld(t)
	collector := catalog.OpenCoupons{Catalog: w.catalog}
	require.Zero(t, testutil.CollectAndCount(collector), "nothing is known yet")
	for id := coupon.CouponID(1); id <= 5; id++ {
		w.coupon(id)
	}
	w.couponBetween(6, "1 HOUR", "2 HOUR")
	w.couponBetween(7, "-2 HOUR", "-1 HOUR")
	w.exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id IN (1, 2, 5, 6, 7)")
	w.exec("UPDATE coupon SET status = 'PAUSED' WHERE id IN (2, 3)")
	w.exec("UPDATE coupon SET frozen = TRUE WHERE id = 5")
	w.refresh()
	require.Equal(t, map[string]float64{"IMMEDIATE": 2, "NIGHTLY": 1}, gauges(t, collector, "jajeong_coupons_open"))
}

// The number of series is bounded; the coupons that close first have them.
func TestQueues_AreBounded(t *testing.T) {
	w := newWorld(t)
	const coupons = 210
	values := make([]string, coupons)
	for i := range values {
		values[i] =
			fmt.Sprintf("(%d, 'c', 1, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL %d MINUTE)", i+1,
				1000-i)
	}
	w.exec("INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at) VALUES " +
		strings.Join(values, ","))
	w.refresh()
	lengths := gauges(t, w.queues(w.store), "jajeong_queue_length")
	require.Len(t, lengths, 200)
	for label := range lengths {
		id, err := strconv.Atoi(label)
		require.NoError(t, err)
		require.Greater(t, id, coupons-200)
	}
}

// The age of the catalog does not need Redis.
func TestQueues_AreMissingWithoutRedis(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	require.InDelta(t, 1, testutil.CollectAndCount(w.catalog.Metrics()[0], "jajeong_catalog_age_seconds"), 0)
	before := time.Now()
	w.refresh()
	require.Zero(t, testutil.CollectAndCount(w.queues(storeAt(t, "127.0.0.1:1"))))
	age, known := w.catalog.Age()
	require.True(t, known)
	require.Less(t, age, time.Since(before))
}

// While nothing changes, refreshes of several processes write no byte to the append-only file or to MySQL.
func TestIdleRefreshesWriteNothing(t *testing.T) {
	w := newWorld(t)
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	w.redis.Client, w.redis.Prefix = client, ""
	w.store, w.catalog = w.process()
	const coupons = 60
	for id := range coupon.CouponID(coupons) {
		w.coupon(id + 1)
	}
	w.couponBetween(coupons+1, "-2 HOUR", "-1 HOUR") // its end moves with the clock
	w.couponBetween(coupons+2, "1 HOUR", "2 HOUR")
	w.refresh()
	for id := range coupon.CouponID(coupons) {
		require.Equal(t, candidates.Accepted, w.apply(id+1, 7).Code)
	}
	w.refresh()

	pods := []*catalog.Catalog{w.catalog}
	for range 2 {
		_, pod := w.process()
		pods = append(pods, pod)
	}
	state := func() (file string, journals string) {
		info, err := client.Info(t.Context(), "persistence").Result()
		require.NoError(t, err)
		err = w.db.QueryRowContext(t.Context(),
			"SELECT CONCAT_WS(' ', COUNT(*), SUM(accepted), MAX(written_at)) FROM journal").Scan(&journals)
		require.NoError(t, err)
		return regexp.MustCompile(`aof_current_size:\d+`).FindString(info), journals
	}
	file, journals := state()
	require.NotEmpty(t, file)
	for range 4 {
		for _, pod := range pods {
			require.NoError(t, w.refreshOf(pod))
		}
	}
	fileNow, journalsNow := state()
	require.Equal(t, file, fileNow)
	require.Equal(t, journals, journalsNow)

	// What changes is written, also over a snapshot that is not this one.
	w.exec("UPDATE coupon SET issued_count = 1 WHERE id = 1")
	require.NoError(t, w.refreshOf(pods[1]))
	changed, _ := state()
	require.NotEqual(t, file, changed)
	require.NoError(t, w.store.SaveCatalog(t.Context(),
		[]byte(`{"digest":"","at":"2020-01-01T00:00:00Z","coupons":[]}`)))
	require.NoError(t, w.refreshOf(pods[2]))
	saved, err := catalog.Snapshot{Store: w.store}.Coupons(t.Context())
	require.NoError(t, err)
	require.Len(t, saved, coupons+2)
	require.EqualValues(t, 1, saved[0].IssuedCount)
}
