package settle

import (
	"maps"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics tell of the last run of this process, while it goes on and when it has ended. All of them are gauges that begin
// anew with each run: a process of one run pushes them, and what is pushed stands there until the next push, so that a
// counter would begin at zero every night and hide that. The gap alone stays until a run has ended: a run that is killed, or
// could not look at a coupon, has not found that nothing is missing.
type Metrics struct {
	now func() time.Time

	mu          sync.Mutex
	status      coupon.RunStatus // empty before the first run
	cutoff      time.Time        // zero until it is chosen
	started     time.Time
	ended       time.Time // zero while it goes on
	lastSuccess time.Time
	dealtWith   int
	phases      map[Step]time.Duration
	coupons     map[uint64]Result
	gaps        map[uint64]int64 // by coupon, as it was found when the account was last seen; outlives a run
	gapTold     bool
}

// NewMetrics returns the metrics of a process that has not run yet.
func NewMetrics(now func() time.Time) *Metrics { return &Metrics{now: now} }

var (
	statusDesc    = prometheus.NewDesc("jajeong_run_status", "1 for how the last run ended, or for RUNNING.", []string{"status"}, nil)
	startedDesc   = prometheus.NewDesc("jajeong_run_started_timestamp_seconds", "When the last run began.", nil, nil)
	successDesc   = prometheus.NewDesc("jajeong_run_last_success_timestamp_seconds", "When a run last succeeded.", nil, nil)
	cutoffDesc    = prometheus.NewDesc("jajeong_run_cutoff_timestamp_seconds", "The cutoff of the last run.", nil, nil)
	durationDesc  = prometheus.NewDesc("jajeong_run_duration_seconds", "How long the last run took, or has taken so far.", nil, nil)
	couponsDesc   = prometheus.NewDesc("jajeong_run_coupons", "Coupons of the last run by how they came out.", []string{"result"}, nil)
	outcomesDesc  = prometheus.NewDesc("jajeong_run_applications", "Applications of the last run by outcome; REJECTED ones went to the DLQ.", []string{"outcome"}, nil)
	rejectedDesc  = prometheus.NewDesc("jajeong_run_rejected_applications", "Applications that the last run put into the DLQ, or noted there once more, by cause.", []string{"cause"}, nil)
	dealtWithDesc = prometheus.NewDesc("jajeong_run_processed_applications", "Applications that the last run has dealt with; of a transaction that is repeated, again.", nil, nil)
	rateDesc      = prometheus.NewDesc("jajeong_run_applications_per_second", "How many of them in a second, from the beginning of the run.", nil, nil)
	gapDesc       = prometheus.NewDesc("jajeong_run_gap_applications", "Accepted applications that cannot be found, of the coupons that are held because of that, once a run has ended.", nil, nil)
	phaseDesc     = prometheus.NewDesc("jajeong_run_phase_seconds", "How long the last run was in each phase of a settlement, all coupons together.", []string{"phase"}, nil)
)

// Every value there can be of a label.
var (
	runStatuses = []coupon.RunStatus{coupon.RunRunning, coupon.RunSucceeded, coupon.RunHeld, coupon.RunFailed}
	allCauses   = []coupon.Cause{coupon.CauseUnknownUser, coupon.CauseInactiveUser, coupon.CauseMalformed, coupon.CausePassedOver, coupon.CauseBadRow, coupon.CauseDatabaseAway}
	steps       = []Step{StepFence, StepLock, StepAccount, StepIssue, StepCount, StepRecord, StepCommit, StepCleanUp, StepCloseOut, StepFinish, StepSweep}
)

// begin forgets the run before.
func (m *Metrics) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status, m.started, m.ended, m.cutoff, m.dealtWith = coupon.RunRunning, m.now(), time.Time{}, time.Time{}, 0
	m.phases, m.coupons = map[Step]time.Duration{}, map[uint64]Result{}
}

// note keeps how far a coupon has come.
func (m *Metrics) note(r Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.coupons != nil { // what is not a nightly or a person's run is not told
		m.coupons[r.Coupon] = r
	}
}

func (m *Metrics) progress(applications int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dealtWith += applications
}

func (m *Metrics) spend(phase Step, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phases != nil {
		m.phases[phase] += max(0, took)
	}
}

// end notes how the run ended; without a report it could not begin.
func (m *Metrics) end(report *Report, err error) {
	status := coupon.RunFailed
	if report != nil {
		for _, r := range report.Coupons {
			m.note(r)
		}
		if err == nil {
			status = report.Status
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status, m.ended = status, m.now()
	if report != nil {
		m.cutoff = report.Cutoff
		m.account(report.Coupons, err == nil)
	}
	if status == coupon.RunSucceeded {
		m.lastSuccess = m.ended
	}
}

// account notes what is missing. A coupon that could not be looked at is missing what it was before. A process that does not
// know what that was tells of nothing, unless of what it did find: what another has pushed stands.
func (m *Metrics) account(coupons []Result, whole bool) {
	before, sure := m.gaps, whole
	m.gaps = make(map[uint64]int64, len(coupons))
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
	m.gapTold = m.gapTold || sure || m.gap() > 0
}

func (m *Metrics) gap() (sum int64) {
	for _, gap := range m.gaps {
		sum += gap
	}
	return sum
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		statusDesc, startedDesc, successDesc, cutoffDesc, durationDesc, couponsDesc, outcomesDesc, rejectedDesc, dealtWithDesc, rateDesc, gapDesc, phaseDesc,
	} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	instant := func(desc *prometheus.Desc, at time.Time) { // none before there was one
		if !at.IsZero() {
			gauge(desc, float64(at.UnixMicro())/1e6)
		}
	}
	for _, status := range runStatuses {
		is := 0.0
		if status == m.status {
			is = 1
		}
		gauge(statusDesc, is, string(status))
	}
	instant(startedDesc, m.started)
	instant(cutoffDesc, m.cutoff)
	instant(successDesc, m.lastSuccess)

	took := m.took().Seconds()
	gauge(durationDesc, took)
	gauge(dealtWithDesc, float64(m.dealtWith))
	rate := 0.0
	if took > 0 {
		rate = float64(m.dealtWith) / took
	}
	gauge(rateDesc, rate)
	for _, phase := range steps {
		gauge(phaseDesc, m.phases[phase].Seconds(), string(phase))
	}

	var sum Total
	byStatus, byCause := map[coupon.ResultStatus]int{}, map[coupon.Cause]int{}
	for _, r := range m.coupons {
		byStatus[r.Status]++
		sum.count(r)
		for cause, n := range r.causes {
			byCause[cause] += n
		}
	}
	for _, status := range coupon.ResultStatuses {
		gauge(couponsDesc, float64(byStatus[status]), string(status))
	}
	gauge(outcomesDesc, float64(sum.Issued), "ISSUED")
	gauge(outcomesDesc, float64(sum.AlreadyIssued), string(coupon.OutcomeAlreadyIssued))
	gauge(outcomesDesc, float64(sum.NotSelected), string(coupon.OutcomeNotSelected))
	gauge(outcomesDesc, float64(sum.UnderReview+sum.Rejected), string(coupon.OutcomeRejected))
	for _, cause := range allCauses {
		gauge(rejectedDesc, float64(byCause[cause]), string(cause))
	}
	if m.gapTold {
		gauge(gapDesc, float64(m.gap()))
	}
}

func (m *Metrics) took() time.Duration {
	switch {
	case m.started.IsZero():
		return 0
	case m.ended.IsZero():
		return m.now().Sub(m.started)
	default:
		return m.ended.Sub(m.started)
	}
}
