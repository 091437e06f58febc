package serve

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

const (
	// maxLags is the number of coupons with a lag of their own. Coupons that are open and close first have one.
	maxLags = 200
	// collectTimeout bounds the reading of the lags. A Prometheus scrape has a longer one.
	collectTimeout = 2 * time.Second
)

// delayBuckets are around the intervals of 20 ms to 5 s, and reach an outage of five minutes. In seconds.
var delayBuckets = []float64{.01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2, 5, 10, 30, 60, 300}

// Results of a look.
const (
	lookEmpty  = "empty"  // nobody waited
	lookLine   = "line"   // at least one coupon had a line
	lookFailed = "failed" // Redis did not answer
)

var lagDesc = prometheus.NewDesc("jajeong_issue_lag_seconds",
	"Time since the arrival of the first application in the queue of an immediate coupon; of 200 coupons with a line.",
	[]string{"coupon_id"}, nil)

// measured has the metrics that the task raises itself.
type measured struct {
	delay  prometheus.Histogram
	looks  *prometheus.CounterVec
	runs   *prometheus.CounterVec
	looked prometheus.Gauge

	interval prometheus.Gauge
}

func newMeasured(interval time.Duration) *measured {
	m := &measured{
		interval: prometheus.NewGauge(prometheus.GaugeOpts{Name: "jajeong_issue_interval_seconds",
			Help: "Time between two looks at the queues of immediate coupons."}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "jajeong_issue_delay_seconds",
			Buckets: delayBuckets,
			Help:    "Time from the arrival of an application to the commit of its immediate coupon."}),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jajeong_issue_looks_total",
			Help: "Looks at the queues of immediate coupons, by result; one for each shard and interval."},
			[]string{"result"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jajeong_issue_runs_total",
			Help: "Immediate runs, by the status of their coupon."}, []string{"status"}),
		looked: prometheus.NewGauge(prometheus.GaugeOpts{Name: "jajeong_issue_looked_at_timestamp_seconds",
			Help: "Last time when the task had looked at every queue that it should, or had none to look at."}),
	}
	m.interval.Set(interval.Seconds())
	for _, result := range []string{lookEmpty, lookLine, lookFailed} {
		m.looks.WithLabelValues(result)
	}
	for _, status := range coupon.ResultStatuses {
		m.runs.WithLabelValues(string(status))
	}
	return m
}

func (m *measured) all() []prometheus.Collector {
	return []prometheus.Collector{m.delay, m.looks, m.runs, m.looked, m.interval}
}

func (m *measured) look(waiting int, err error) {
	result := lookEmpty
	switch {
	case err != nil:
		result = lookFailed
	case waiting > 0:
		result = lookLine
	}
	m.looks.WithLabelValues(result).Inc()
}

func (m *measured) lookedAt(at time.Time) { m.looked.Set(float64(at.UnixMicro()) / 1e6) }

func (m *measured) run(issued settle.Issuance) {
	m.runs.WithLabelValues(string(issued.Status)).Inc()
	for _, delay := range issued.Delays {
		m.delay.Observe(delay.Seconds())
	}
}

func (t *Issue) Describe(to chan<- *prometheus.Desc) {
	for _, c := range append(t.measured.all(), t.locks.gauge) {
		c.Describe(to)
	}
	to <- lagDesc
}

func (t *Issue) Collect(to chan<- prometheus.Metric) {
	for _, c := range append(t.measured.all(), t.locks.gauge) {
		c.Collect(to)
	}
	t.collectLags(to)
}

// collectLags reads Redis. Shards that do not answer are left out.
func (t *Issue) collectLags(to chan<- prometheus.Metric) {
	known := t.latest.Load()
	if known == nil || len(known.coupons) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	opened := make([]coupon.CouponID, 0, len(known.coupons))
	for _, c := range known.coupons {
		if c.opened(known.now(t.Now())) {
			opened = append(opened, c.ID)
		}
	}
	waiting, _ := t.Store.Waiting(ctx, opened)
	now, err := t.Store.Now(ctx)
	if err != nil || len(waiting) == 0 {
		return
	}
	waits := make(map[coupon.CouponID]bool, len(waiting))
	for _, id := range waiting {
		waits[id] = true
	}
	opened = slices.DeleteFunc(opened, func(id coupon.CouponID) bool { return !waits[id] })
	for id, stats := range t.Store.QueueStats(ctx, opened[:min(len(opened), maxLags)]) {
		if stats.Waiting > 0 {
			lag := max(0, now.Sub(stats.Oldest))
			to <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag.Seconds(), id.String())
		}
	}
}
