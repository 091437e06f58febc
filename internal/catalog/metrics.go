package catalog

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// maxQueueMetrics is the number of coupons with metrics of their own. The coupons that close first have them.
	maxQueueMetrics = 200
	// maxQueues is the maximum of coupons that a scrape reads from Redis, five values each.
	maxQueues      = 2_000
	collectTimeout = 2 * time.Second
)

type Stats interface {
	QueueStats(ctx context.Context, coupons []coupon.CouponID) map[coupon.CouponID]candidates.QueueStats
}

func (c *Catalog) Metrics() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_catalog_age_seconds", Help: "Time since the coupons were last read from MySQL; +Inf: never.",
		}, func() float64 {
			if since, ok := c.Age(); ok {
				return since.Seconds()
			}
			return math.Inf(1)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_journal_age_seconds",
			Help: "Age of the journal that is furthest behind its queue in Redis; 0: none is behind.",
		}, func() float64 { _, age := c.journalAge(); return age.Seconds() }),
	}
}

var openDesc = prometheus.NewDesc("jajeong_coupons_open",
	"Coupons whose window is open and that are not paused, by cadence.", []string{"cadence"}, nil)

// OpenCoupons collects how many coupons are open, by the clock of this process. Before the catalog is loaded, it
// collects nothing.
type OpenCoupons struct{ Catalog *Catalog }

func (o OpenCoupons) Describe(to chan<- *prometheus.Desc) { to <- openDesc }

func (o OpenCoupons) Collect(to chan<- prometheus.Metric) {
	h, now := o.Catalog.content.Load(), o.Catalog.Now()
	if h == nil {
		return
	}
	open := map[coupon.Cadence]int{coupon.Nightly: 0, coupon.Immediate: 0}
	for _, one := range h.byID {
		if !one.Paused() && !one.Finalised() && !now.Before(one.OpensAt) && now.Before(one.ClosesAt) {
			open[one.Cadence]++
		}
	}
	for cadence, n := range open {
		to <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(n), string(cadence))
	}
}

func (c *Catalog) Coupons(context.Context) ([]coupon.Coupon, error) {
	h := c.content.Load()
	if h == nil {
		return nil, nil
	}
	return slices.Collect(maps.Values(h.byID)), nil
}

// Queues collects metrics of all opened coupons until they are finalised. Shards that do not answer are left out.
type Queues struct {
	Coupons func(ctx context.Context) ([]coupon.Coupon, error)
	Stats   Stats
	Zone    func(ctx context.Context) (*time.Location, error) // time zone of the nights
	Now     func() time.Time
}

var (
	lenDesc = prometheus.NewDesc("jajeong_queue_length",
		"Applications in the queue, by coupon; of the 200 coupons that close first.", []string{"coupon_id"}, nil)
	oldDesc = prometheus.NewDesc("jajeong_queue_oldest_arrival_timestamp_seconds",
		"Arrival of the first application in the queue, by coupon.", []string{"coupon_id"}, nil)
	reviewDesc = prometheus.NewDesc("jajeong_dlq_length",
		"Applications in the DLQ, by coupon; of the 200 coupons that close first.", []string{"coupon_id"}, nil)
	reviewedDesc = prometheus.NewDesc("jajeong_dlq_oldest_timestamp_seconds",
		"Time when the entry with the lowest arrival came into the DLQ, by coupon.", []string{"coupon_id"}, nil)
	dueDesc = prometheus.NewDesc("jajeong_settlement_due_timestamp_seconds",
		"Midnight that settles the oldest application in any queue, frozen coupons left out; in the past: its "+
			"settlement is late.", nil, nil)
	ttlDesc = prometheus.NewDesc("jajeong_queue_least_ttl_seconds",
		"Shortest time until a queue with applications expires in Redis.", nil, nil)
)

func (q Queues) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{lenDesc, oldDesc, reviewDesc, reviewedDesc, dueDesc, ttlDesc} {
		to <- desc
	}
}

func (q Queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	coupons, err := q.Coupons(ctx)
	if err != nil {
		return
	}
	zone, err := q.Zone(ctx)
	if err != nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	seconds := func(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

	var due time.Time
	var minTTL time.Duration
	opened := opened(coupons, q.Now())
	ids := make([]coupon.CouponID, len(opened))
	for i, one := range opened {
		ids[i] = one.ID
	}
	all := q.Stats.QueueStats(ctx, ids)
	for i, one := range opened {
		stats, ok := all[one.ID]
		if !ok {
			continue
		}
		if stats.Waiting > 0 {
			// Nights settle immediate coupons, too. A frozen coupon waits for an operator.
			if at := calendar.NextCutoff(stats.Oldest, zone); !one.Frozen && (due.IsZero() || at.Before(due)) {
				due = at
			}
			if stats.TTL > 0 && (minTTL == 0 || stats.TTL < minTTL) {
				minTTL = stats.TTL
			}
		}
		if i >= maxQueueMetrics {
			continue
		}
		label := one.ID.String()
		gauge(lenDesc, float64(stats.Waiting), label)
		gauge(reviewDesc, float64(stats.UnderReview), label)
		if stats.Waiting > 0 {
			gauge(oldDesc, seconds(stats.Oldest), label)
		}
		if !stats.ReviewedSince.IsZero() {
			gauge(reviewedDesc, seconds(stats.ReviewedSince), label)
		}
	}
	if !due.IsZero() {
		gauge(dueDesc, seconds(due))
	}
	if minTTL > 0 {
		gauge(ttlDesc, minTTL.Seconds())
	}
}

// opened returns at most maxQueues coupons that may have a queue, beginning with the coupon that closes first.
func opened(coupons []coupon.Coupon, now time.Time) []coupon.Coupon {
	coupons = slices.DeleteFunc(coupons, func(c coupon.Coupon) bool { return c.Finalised() || c.OpensAt.After(now) })
	slices.SortFunc(coupons, func(a, b coupon.Coupon) int {
		return cmp.Or(a.ClosesAt.Compare(b.ClosesAt),
			cmp.Compare(a.ID, b.ID))
	})
	return coupons[:min(len(coupons), maxQueues)]
}
