package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/candidates"
)

// metrics of the public API.
type metrics struct{ apply, standing endpointMetrics }

func newMetrics(to prometheus.Registerer, applying rooms) (m metrics) {
	m.apply = newEndpointMetrics(to, "jajeong_apply", "Applications",
		[]candidates.Code{candidates.Accepted, candidates.Duplicate},
		[]string{"connections", "in_flight", "user_rate", "unanswered", string(candidates.Crowded), string(candidates.Late), string(candidates.Resting)})
	m.standing = newEndpointMetrics(to, "jajeong_standing", "Questions where an application stands",
		[]candidates.Code{candidates.Code(candidates.Pending), candidates.Code(candidates.Issued), candidates.Code(candidates.NotSelected)},
		[]string{"connections", "in_flight", "user_rate", "unanswered", "histories"})
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_in_flight", Help: "Applications that wait for Redis, in a Cluster for the shard for which most do.",
	}, func() float64 { return float64(applying.fullest()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_in_flight_limit", Help: "How many may for one shard; MAX_IN_FLIGHT.",
	}, func() float64 { return float64(applying.most) }))
	return m
}

// endpointMetrics count and time the answers of one endpoint.
type endpointMetrics struct {
	byOutcome map[candidates.Code]prometheus.Counter // of all that there are: never changed
	other     prometheus.Counter                     // of none of them, which would be a bug
	duration  prometheus.Histogram
	refused   map[string]prometheus.Counter
}

func newEndpointMetrics(to prometheus.Registerer, prefix, what string, outcomes []candidates.Code, reasons []string) endpointMetrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "_requests_total", Help: what + " by what was answered.",
	}, []string{"result"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "_refused_total", Help: what + " that were refused for want of means: too many at once or of one user, or a server did not answer.",
	}, []string{"reason"})
	m := endpointMetrics{
		byOutcome: map[candidates.Code]prometheus.Counter{},
		other:     requests.WithLabelValues("OTHER"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "_duration_seconds", Help: what + ": how long they took to answer, once all of the request was there.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13), // half a millisecond to two seconds
		}),
		refused: map[string]prometheus.Counter{},
	}
	to.MustRegister(requests, refused, m.duration)
	for _, outcome := range outcomes {
		m.byOutcome[outcome] = requests.WithLabelValues(string(outcome))
	}
	for outcome := range problems {
		m.byOutcome[outcome] = requests.WithLabelValues(string(outcome))
	}
	for _, reason := range reasons {
		m.refused[reason] = refused.WithLabelValues(reason)
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

// turnAway is a refusal for want of means, not for the sake of the application.
func (m *endpointMetrics) turnAway(outcome candidates.Code, reason string) answer {
	m.refused[reason].Inc()
	return refuse(outcome)
}

// tooOften is a refusal of a user who has to wait so long.
func (m *endpointMetrics) tooOften(wait time.Duration) answer {
	a := m.turnAway(tooManyRequests, "user_rate")
	a.retryAfter = wait
	return a
}
