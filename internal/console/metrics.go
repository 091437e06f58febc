package console

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/signin"
)

// Reasons of refusals beside those of signin: the role does not have the right, and too many jobs run.
const (
	noRight  = "right"
	jobsBusy = "jobs"
)

// jobResults are the results of a job, by the exit code of its verb.
var jobResults = map[int]string{0: "done", serversAway: "failed", 2: "refused", 3: "held"}

// resultOf is "failed" for the other exit codes, too.
func resultOf(exit int) string { return cmp.Or(jobResults[exit], jobResults[serversAway]) }

type metrics struct {
	refused *prometheus.CounterVec
	running prometheus.Gauge
	ended   *prometheus.CounterVec
}

// newMetrics makes the metrics with all their labels.
func newMetrics(to prometheus.Registerer) metrics {
	m := metrics{
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jajeong_console_refused_total", Help: "Number of requests refused, by reason.",
		}, []string{"reason"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "jajeong_console_jobs_running", Help: "Jobs that run."}),
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jajeong_console_jobs_total", Help: "Number of jobs that ended, by result.",
		}, []string{"result"}),
	}
	for _, reason := range append([]string{noRight, jobsBusy}, signin.Reasons...) {
		m.refused.WithLabelValues(reason)
	}
	for _, result := range jobResults {
		m.ended.WithLabelValues(result)
	}
	to.MustRegister(m.refused, m.running, m.ended)
	return m
}
