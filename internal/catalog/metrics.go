package catalog

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// maxQueueMetrics bounds the series of queues. Of more coupons those are told that close or have closed first:
	// their settlement is the next.
	maxQueueMetrics = 200
	// maxQueuesLooked bounds what one scrape asks of Redis: five quick commands for each.
	maxQueuesLooked = 2_000
	// collectTimeout is less than a scrape's.
	collectTimeout = 2 * time.Second
)

// Heads looks at queues.
type Heads interface {
	Heads(ctx context.Context, coupons []coupon.CouponID) map[uint64]candidates.Head
}

// Metrics tell how old the catalog is.
func (c *Catalog) Metrics() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_catalog_age_seconds", Help: "Since the coupons were last read from MySQL; +Inf if never.",
	}, func() float64 {
		if since, ok := c.Age(); ok {
			return since.Seconds()
		}
		return math.Inf(1)
	})
}

// Coupons are all that are known, in no order.
func (c *Catalog) Coupons(context.Context) ([]coupon.Coupon, error) {
	h := c.held.Load()
	if h == nil {
		return nil, nil
	}
	all := make([]coupon.Coupon, 0, len(h.byID))
	for _, one := range h.byID {
		all = append(all, one)
	}
	return all, nil
}

// Queues are what stands in Redis of every coupon that has opened and is not finalised, as metrics: who waits and since
// when, who is under review and since when, when the settlement is due and how long Redis will keep who waits for it. All is
// looked up when it is asked for. What Redis does not answer for is not told.
type Queues struct {
	Coupons   func(ctx context.Context) ([]coupon.Coupon, error)
	Heads     Heads
	SettlesAt func(arrival time.Time) time.Time
	Now       func() time.Time
}

var (
	lenDesc      = prometheus.NewDesc("jajeong_queue_length", "Applications that wait for their settlement, by coupon; the first that close, at most 200.", []string{"coupon_id"}, nil)
	oldDesc      = prometheus.NewDesc("jajeong_queue_oldest_arrival_timestamp_seconds", "When the first that waits arrived, by coupon.", []string{"coupon_id"}, nil)
	reviewDesc   = prometheus.NewDesc("jajeong_dlq_length", "Applications under review, by coupon; the first that close, at most 200.", []string{"coupon_id"}, nil)
	reviewedDesc = prometheus.NewDesc("jajeong_dlq_oldest_timestamp_seconds", "Since when the first in line of those under review is there, by coupon.", []string{"coupon_id"}, nil)
	dueDesc      = prometheus.NewDesc("jajeong_settlement_due_timestamp_seconds", "When the application that has waited longest, of all coupons, is to be settled; in the past, its settlement is late.", nil, nil)
	ttlDesc      = prometheus.NewDesc("jajeong_queue_least_ttl_seconds", "How long Redis still keeps the queue that it lets go first, of those in which somebody waits.", nil, nil)
)

// Describe implements prometheus.Collector.
func (q Queues) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{lenDesc, oldDesc, reviewDesc, reviewedDesc, dueDesc, ttlDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (q Queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	coupons, err := q.Coupons(ctx)
	if err != nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	seconds := func(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

	var due time.Time
	var leastTTL time.Duration
	opened := opened(coupons, q.Now())
	heads := q.Heads.Heads(ctx, opened)
	for i, id := range opened {
		head, ok := heads[id]
		if !ok {
			continue
		}
		if head.Waiting > 0 {
			if at := q.SettlesAt(head.Oldest); due.IsZero() || at.Before(due) {
				due = at
			}
			if head.TTL > 0 && (leastTTL == 0 || head.TTL < leastTTL) {
				leastTTL = head.TTL
			}
		}
		if i >= maxQueueMetrics {
			continue
		}
		label := strconv.FormatUint(id, 10)
		gauge(lenDesc, float64(head.Waiting), label)
		gauge(reviewDesc, float64(head.UnderReview), label)
		if head.Waiting > 0 {
			gauge(oldDesc, seconds(head.Oldest), label)
		}
		if !head.ReviewedSince.IsZero() {
			gauge(reviewedDesc, seconds(head.ReviewedSince), label)
		}
	}
	if !due.IsZero() {
		gauge(dueDesc, seconds(due))
	}
	if leastTTL > 0 {
		gauge(ttlDesc, leastTTL.Seconds())
	}
}

// opened are the coupons that may have a queue, those first that close first, at most so many as a scrape looks at.
func opened(coupons []coupon.Coupon, now time.Time) []uint64 {
	coupons = slices.DeleteFunc(coupons, func(c coupon.Coupon) bool { return c.Finalised() || c.OpensAt.After(now) })
	slices.SortFunc(coupons, func(a, b coupon.Coupon) int { return cmp.Or(a.ClosesAt.Compare(b.ClosesAt), cmp.Compare(a.ID, b.ID)) })
	ids := make([]uint64, min(len(coupons), maxQueuesLooked))
	for i := range ids {
		ids[i] = coupons[i].ID
	}
	return ids
}
