package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/candidates"
)

// metrics of the public API.
type metrics struct {
	apply, standing endpointMetrics
	turnedAway      *prometheus.CounterVec
}

// turnedAwayReasons are all the labels there are.
var turnedAwayReasons = []string{
	"in_flight", "user_rate", "unanswered", string(candidates.Crowded), string(candidates.Late), string(candidates.Resting),
}

func newMetrics(to prometheus.Registerer, flying *inFlight) (m metrics) {
	m.apply = newEndpointMetrics(to, "jajeong_apply", "Applications", []candidates.Code{candidates.Accepted, candidates.Duplicate})
	m.standing = newEndpointMetrics(to, "jajeong_standing", "Questions where an application stands", []candidates.Code{
		candidates.Code(candidates.Pending), candidates.Code(candidates.Issued), candidates.Code(candidates.NotSelected),
	})
	m.turnedAway = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jajeong_apply_refused_total", Help: "Requests refused for want of means: too many at once or of one user, or Redis did not answer.",
	}, []string{"reason"})
	for _, reason := range turnedAwayReasons {
		m.turnedAway.WithLabelValues(reason)
	}
	to.MustRegister(m.turnedAway, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_in_flight", Help: "Requests that are being answered.",
	}, func() float64 { return float64(flying.now.Load()) }))
	return m
}

// endpointMetrics count and time the answers of one endpoint.
type endpointMetrics struct {
	byOutcome map[candidates.Code]prometheus.Counter // of all that there are: never changed
	other     prometheus.Counter                     // of none of them, which would be a bug
	duration  prometheus.Histogram
}

func newEndpointMetrics(to prometheus.Registerer, prefix, what string, outcomes []candidates.Code) endpointMetrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "_requests_total", Help: what + " by what was answered.",
	}, []string{"result"})
	m := endpointMetrics{
		byOutcome: map[candidates.Code]prometheus.Counter{},
		other:     requests.WithLabelValues("OTHER"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "_duration_seconds", Help: what + ": how long they took to answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13), // half a millisecond to two seconds
		}),
	}
	to.MustRegister(requests, m.duration)
	for _, outcome := range outcomes {
		m.byOutcome[outcome] = requests.WithLabelValues(string(outcome))
	}
	for outcome := range problems {
		m.byOutcome[outcome] = requests.WithLabelValues(string(outcome))
	}
	return m
}

func (m *endpointMetrics) observe(outcome candidates.Code, took time.Duration) {
	counter, ok := m.byOutcome[outcome]
	if !ok {
		counter = m.other
	}
	counter.Inc()
	m.duration.Observe(took.Seconds())
}
