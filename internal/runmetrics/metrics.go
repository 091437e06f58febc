// Package runmetrics exports the last run of a process to Prometheus.
package runmetrics

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Metrics describe the current or last run of this process. All are gauges that each run resets: a pushed counter would
// hide that it starts at zero every night. Only the gap stays until a run has ended: a killed run has not found it.
type Metrics struct {
	now func() time.Time

	mu          sync.Mutex
	last        lastRun
	lastSuccess time.Time
	gaps        map[coupon.CouponID]int64 // gaps in the last account of each coupon
	gapKnown    bool
}

// lastRun is the run in progress, or the last one.
type lastRun struct {
	status    coupon.RunStatus // empty before the first run
	cutoff    time.Time        // zero until the run ends
	started   time.Time
	ended     time.Time // zero until the run ends
	processed int
	phases    map[settle.Step]time.Duration // nil before the first run
	coupons   map[coupon.CouponID]settle.Result
}

func New(now func() time.Time) *Metrics { return &Metrics{now: now} }

var (
	statusDesc = prometheus.NewDesc("jajeong_run_status", "1 for the result of the last run, or for RUNNING.",
		[]string{"status"}, nil)
	startedDesc = prometheus.NewDesc("jajeong_run_started_timestamp_seconds", "Start of the last run.", nil, nil)
	successDesc = prometheus.NewDesc("jajeong_run_last_success_timestamp_seconds",
		"Time of the last success of a run.", nil, nil)
	cutoffDesc   = prometheus.NewDesc("jajeong_run_cutoff_timestamp_seconds", "The cutoff of the last run.", nil, nil)
	durationDesc = prometheus.NewDesc("jajeong_run_duration_seconds", "Duration of the last run, so far.", nil, nil)
	couponsDesc  = prometheus.NewDesc("jajeong_run_coupons", "Coupons of the last run by result.", []string{"result"},
		nil)
	outcomesDesc = prometheus.NewDesc("jajeong_run_applications",
		"Applications of the last run by decision: REJECTED ended for good, UNDER_REVIEW moved to the DLQ.",
		[]string{"outcome"}, nil)
	rejectedDesc = prometheus.NewDesc("jajeong_run_rejected_applications",
		"Applications that the last run moved to the DLQ, or that failed there again, by cause.", []string{"cause"},
		nil)
	processedDesc = prometheus.NewDesc("jajeong_run_processed_applications",
		"Applications that the last run has processed; those of a repeated transaction count again.", nil, nil)
	rateDesc = prometheus.NewDesc("jajeong_run_applications_per_second",
		"Processed applications per second, since the start of the run.", nil, nil)
	gapDesc = prometheus.NewDesc("jajeong_run_gap_applications",
		"Accepted applications that cannot be found, of the coupons that are held because of that, once a run has "+
			"ended.", nil, nil)
	phaseDesc = prometheus.NewDesc("jajeong_run_phase_seconds",
		"Time that the last run spent in each step of a settlement, all coupons added up.", []string{"phase"}, nil)
)

// runStatuses are all values of the label status.
var runStatuses = []coupon.RunStatus{coupon.RunRunning, coupon.RunSucceeded, coupon.RunHeld, coupon.RunFailed}

func (m *Metrics) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = lastRun{status: coupon.RunRunning, started: m.now(), phases: map[settle.Step]time.Duration{},
		coupons: map[coupon.CouponID]settle.Result{}}
}

// Note keeps the result of a coupon. Before the first run it does nothing.
func (m *Metrics) Note(r settle.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.coupons != nil {
		m.last.coupons[r.Coupon] = r
	}
}

func (m *Metrics) Progress(applications int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last.processed += applications
}

func (m *Metrics) Spend(phase settle.Step, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.phases != nil {
		m.last.phases[phase] += max(0, took)
	}
}

// End keeps the result of the run. If the report is nil, the run could not begin.
func (m *Metrics) End(report *settle.Report, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last.status, m.last.ended = coupon.RunFailed, m.now()
	if report == nil {
		return
	}
	for _, r := range report.Coupons {
		m.last.coupons[r.Coupon] = r
	}
	m.last.cutoff = report.Cutoff
	m.account(report.Coupons, err == nil)
	if err == nil {
		m.last.status = report.Status
	}
	if m.last.status == coupon.RunSucceeded {
		m.lastSuccess = m.last.ended
	}
}

// account updates the gaps. A coupon that the run could not examine keeps its gap. If a gap is unknown and no other gap
// was found, the metric is not exported: the Pushgateway then keeps the value of the previous process.
func (m *Metrics) account(coupons []settle.Result, whole bool) {
	before, sure := m.gaps, whole
	m.gaps = make(map[coupon.CouponID]int64, len(coupons))
	if !whole {
		maps.Copy(m.gaps, before)
	}
	for _, r := range coupons {
		switch gap, known := before[r.Coupon]; {
		case r.Status == coupon.HeldBack:
			m.gaps[r.Coupon] = max(0, r.Gap)
		case r.Status != coupon.Busy && r.Status != coupon.Failed:
			m.gaps[r.Coupon] = 0
		case known:
			m.gaps[r.Coupon] = gap
		default:
			sure = false
		}
	}
	m.gapKnown = m.gapKnown || sure || m.gap() > 0
}

func (m *Metrics) gap() (sum int64) {
	for _, gap := range m.gaps {
		sum += gap
	}
	return sum
}

func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{statusDesc, startedDesc, successDesc, cutoffDesc, durationDesc, couponsDesc,
		outcomesDesc, rejectedDesc, processedDesc, rateDesc, gapDesc, phaseDesc} {
		to <- desc
	}
}

func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.last
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for desc, at := range map[*prometheus.Desc]time.Time{startedDesc: last.started, cutoffDesc: last.cutoff,
		successDesc: m.lastSuccess} {
		if !at.IsZero() {
			gauge(desc, float64(at.UnixMicro())/1e6)
		}
	}
	for _, status := range runStatuses {
		is := 0.0
		if status == last.status {
			is = 1
		}
		gauge(statusDesc, is, string(status))
	}
	took, rate := last.took(m.now).Seconds(), 0.0
	if took > 0 {
		rate = float64(last.processed) / took
	}
	gauge(durationDesc, took)
	gauge(processedDesc, float64(last.processed))
	gauge(rateDesc, rate)
	for _, phase := range settle.Steps {
		gauge(phaseDesc, last.phases[phase].Seconds(), string(phase))
	}

	var sum settle.Counts
	byStatus, byCause := map[coupon.ResultStatus]int{}, map[coupon.Cause]int{}
	for _, r := range last.coupons {
		byStatus[r.Status]++
		sum = sum.Plus(r.Counts)
		for cause, n := range r.Causes {
			byCause[cause] += n
		}
	}
	for _, status := range coupon.ResultStatuses {
		gauge(couponsDesc, float64(byStatus[status]), string(status))
	}
	for outcome, n := range map[coupon.Outcome]int{coupon.OutcomeIssued: sum.Issued,
		coupon.OutcomeAlreadyIssued: sum.AlreadyIssued,
		coupon.OutcomeNotSelected:   sum.NotSelected, coupon.OutcomeRejected: sum.Rejected,
		"UNDER_REVIEW": sum.UnderReview} {
		gauge(outcomesDesc, float64(n), string(outcome))
	}
	for _, cause := range coupon.Causes {
		gauge(rejectedDesc, float64(byCause[cause]), string(cause))
	}
	if m.gapKnown {
		gauge(gapDesc, float64(m.gap()))
	}
}

func (r lastRun) took(now func() time.Time) time.Duration {
	switch {
	case r.started.IsZero():
		return 0
	case r.ended.IsZero():
		return now().Sub(r.started)
	default:
		return r.ended.Sub(r.started)
	}
}
