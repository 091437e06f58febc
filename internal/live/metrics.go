package live

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/coupon"
)

// reason is why a stream ended, or why it was not kept open.
type reason string

const (
	final    reason = "outcome"  // the outcome was sent
	aged     reason = "age"      // the stream has lived long enough
	client   reason = "client"   // the client hung up
	slow     reason = "slow"     // a write failed, or took too long
	replaced reason = "replaced" // the user has opened two other streams
	drained  reason = "drain"    // the process ends
	answered reason = "answered" // there was no room: one state was sent

	full     reason = "streams"   // MAX_STREAMS, or the process ends
	userRate reason = "user_rate" // USER_RATE
)

type metrics struct {
	ended, refused map[reason]prometheus.Counter
	events         map[coupon.Standing]prometheus.Counter
	looks          map[bool]prometheus.Counter // by whether the look succeeded
	rounds         prometheus.Histogram
}

func newMetrics(to prometheus.Registerer, h *Hub) metrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		to.MustRegister(vec)
		return vec
	}
	gauge := func(name, help string, value func() float64) {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	m := metrics{ended: map[reason]prometheus.Counter{}, refused: map[reason]prometheus.Counter{},
		events: map[coupon.Standing]prometheus.Counter{}, looks: map[bool]prometheus.Counter{},
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "jajeong_live_round_duration_seconds",
			Help:    "Time for one look at a coupon, and for telling its streams what is new.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13), // a millisecond to four seconds
		})}
	to.MustRegister(m.rounds)
	gauge("jajeong_live_streams", "Open streams.", func() float64 { return float64(h.open.Load()) })
	gauge("jajeong_live_streams_limit", "Limit of open streams; MAX_STREAMS.", func() float64 { return float64(h.Max) })
	endedTotal := counters("jajeong_live_streams_ended_total", "Number of streams that ended, by reason.", "reason")
	for _, r := range []reason{final, aged, client, slow, replaced, drained, answered} {
		m.ended[r] = endedTotal.WithLabelValues(string(r))
	}
	refused := counters("jajeong_live_refused_total", "Number of streams that were not kept open because of a limit.",
		"reason")
	for _, r := range []reason{full, userRate} {
		m.refused[r] = refused.WithLabelValues(string(r))
	}
	events := counters("jajeong_live_events_total", "Number of states told, by status.", "status")
	for _, is := range []coupon.Standing{coupon.StandingPending, coupon.StandingUnderReview, coupon.StandingIssued,
		coupon.StandingRejected, coupon.StandingNotSelected, notApplied, unknown} {
		m.events[is] = events.WithLabelValues(string(is))
	}
	looks := counters("jajeong_live_looks_total",
		"Number of questions about a coupon's queue to Redis and MySQL, by result.", "result")
	m.looks[true], m.looks[false] = looks.WithLabelValues("answered"), looks.WithLabelValues("failed")
	return m
}
