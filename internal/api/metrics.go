package api

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/batch"
)

type metrics struct{ apply, standing, coupons, time endpointMetrics }

func newMetrics(to prometheus.Registerer, applying semaphores) (m metrics) {
	m.apply = newEndpointMetrics(to, "jajeong_apply", "applications",
		[]result{accepted, duplicate},
		[]string{"connections", "in_flight", "user_rate", "unanswered", string(batch.QueueFull), string(batch.Expired),
			string(batch.BreakerOpen)})
	m.standing = newEndpointMetrics(to, "jajeong_standing", "questions about an application",
		[]result{pending, issued, notSelected},
		[]string{"connections", "in_flight", "user_rate", "unanswered", "histories"})
	m.coupons = newEndpointMetrics(to, "jajeong_coupons", "questions about coupons", []result{answered, notModified},
		[]string{"connections"})
	m.time = newEndpointMetrics(to, "jajeong_time", "questions for the time", []result{answered},
		[]string{"connections", "unanswered"})
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_in_flight",
		Help: "Applications that wait for Redis; in a Cluster, of the shard with the most.",
	}, func() float64 { return float64(applying.fullest()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_in_flight_limit", Help: "Limit of applications that wait for one shard.",
	}, func() float64 { return float64(applying.max) }))
	return m
}

type endpointMetrics struct {
	byResult map[result]prometheus.Counter // one counter for each expected result; not changed after creation
	other    prometheus.Counter            // counts unexpected results, which would be a bug
	duration prometheus.Histogram
	refused  map[string]prometheus.Counter // counts refused requests by reason
}

func newEndpointMetrics(to prometheus.Registerer, prefix, what string, results []result,
	reasons []string) endpointMetrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "_requests_total", Help: "Number of " + what + ", by result.",
	}, []string{"result"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "_refused_total", Help: "Number of " + what +
			" refused because of a limit or because a server did not answer.",
	}, []string{"reason"})
	m := endpointMetrics{
		byResult: map[result]prometheus.Counter{},
		other:    requests.WithLabelValues("OTHER"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "_duration_seconds", Help: "Time to answer " + what + ", from the end of the request.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13), // half a millisecond to two seconds
		}),
		refused: map[string]prometheus.Counter{},
	}
	to.MustRegister(requests, refused, m.duration)
	for _, r := range slices.AppendSeq(results, maps.Keys(problems)) {
		m.byResult[r] = requests.WithLabelValues(string(r))
	}
	for _, reason := range reasons {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
	return m
}

func (m *endpointMetrics) observe(r result, took time.Duration) {
	counter, ok := m.byResult[r]
	if !ok {
		counter = m.other
	}
	counter.Inc()
	m.duration.Observe(took.Seconds())
}

func (m *endpointMetrics) turnAway(r result, reason string) answer {
	m.refused[reason].Inc()
	return refuse(r)
}
