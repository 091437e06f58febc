package adminapi

import "github.com/prometheus/client_golang/prometheus"

// Reasons of refusals.
const (
	withoutKey = "key"
	tooOften   = "rate"
	noRight    = "right"
	busy       = "busy" // too many jobs or reads
)

type metrics struct{ refused *prometheus.CounterVec }

// newMetrics makes the metrics with all their labels.
func newMetrics(to prometheus.Registerer, keys *Keys) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jajeong_admin_api_refused_total", Help: "Number of requests to the management API refused, by reason.",
	}, []string{"reason"})}
	for _, reason := range []string{withoutKey, tooOften, noRight, busy} {
		m.refused.WithLabelValues(reason)
	}
	to.MustRegister(m.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_admin_api_keys_stale",
		Help: "1 if ADMIN_KEYS_FILE is missing or wrong, and earlier keys are in use.",
	}, func() float64 {
		if keys.file.Stale() {
			return 1
		}
		return 0
	}))
	return m
}
