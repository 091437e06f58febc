package walletapi

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/wallet"
)

type metrics struct {
	calls   map[string]callMetrics        // by call; not changed after creation
	refused map[string]prometheus.Counter // by reason; not changed after creation
}

type callMetrics struct {
	byResult map[result]prometheus.Counter
	other    prometheus.Counter // counts unexpected results, which would be a bug
	duration prometheus.Observer
}

func newMetrics(to prometheus.Registerer, places chan struct{}) metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jajeong_wallet_requests_total", Help: "Number of requests, by call and result.",
	}, []string{"call", "result"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "jajeong_wallet_duration_seconds", Help: "Time to answer, from the end of the request.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15), // half a millisecond to eight seconds
	}, []string{"call"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jajeong_wallet_refused_total",
		Help: "Number of requests refused because of a limit or because MySQL did not answer.",
	}, []string{"reason"})
	to.MustRegister(requests, duration, refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_wallet_in_flight", Help: "Requests that wait for MySQL.",
		}, func() float64 { return float64(len(places)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_wallet_in_flight_limit", Help: "Limit of requests that wait for MySQL.",
		}, func() float64 { return float64(cap(places)) }))

	m := metrics{calls: map[string]callMetrics{}, refused: map[string]prometheus.Counter{}}
	for _, reason := range []string{"connections", "in_flight", "lists", "user_rate", "unanswered"} {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
	successes := []result{result(wallet.Done), result(wallet.Repeated), result(wallet.Nothing)}
	for _, call := range []string{"list", "read", "reserve", "confirm", "release", "refund"} {
		results := slices.AppendSeq(slices.Clone(successes), maps.Keys(problems))
		if call == "list" {
			results = slices.AppendSeq([]result{listed}, maps.Keys(problems))
		}
		one := callMetrics{map[result]prometheus.Counter{}, requests.WithLabelValues(call, "OTHER"),
			duration.WithLabelValues(call)}
		for _, r := range results {
			one.byResult[r] = requests.WithLabelValues(call, string(r))
		}
		m.calls[call] = one
	}
	return m
}

func (m callMetrics) observe(r result, took time.Duration) {
	counter, ok := m.byResult[r]
	if !ok {
		counter = m.other
	}
	counter.Inc()
	m.duration.Observe(took.Seconds())
}

func (m metrics) refuse(reason string) { m.refused[reason].Inc() }
