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
)

const (
	// maxQueueMetrics bounds the series of queues. Of more coupons those are told that close or have closed first:
	// their settlement is the next.
	maxQueueMetrics = 200
	// collectTimeout is less than a scrape's.
	collectTimeout = 2 * time.Second
)

// Heads looks at queues.
type Heads interface {
	Heads(ctx context.Context, coupons []uint64) map[uint64]candidates.Head
}

// Metrics tell how old the catalog is, and of every coupon that has opened and is not finalised how many wait and since
// when, looked up when they are asked for. What Redis does not answer for is not among them.
func (c *Catalog) Metrics(queues Heads) prometheus.Collector { return collector{c, queues} }

type collector struct {
	*Catalog
	queues Heads
}

var (
	ageDesc = prometheus.NewDesc("jajeong_catalog_age_seconds", "Since the coupons were last read from MySQL; +Inf if never.", nil, nil)
	lenDesc = prometheus.NewDesc("jajeong_queue_length", "Applications that wait for their settlement, by coupon; the first that close, at most 200.", []string{"coupon_id"}, nil)
	oldDesc = prometheus.NewDesc("jajeong_queue_oldest_arrival_timestamp_seconds", "When the first that waits arrived, by coupon.", []string{"coupon_id"}, nil)
)

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{ageDesc, lenDesc, oldDesc} {
		to <- desc
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	age := math.Inf(1)
	if since, ok := c.Age(); ok {
		age = since.Seconds()
	}
	to <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, age)

	coupons := c.opened()
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	for id, head := range c.queues.Heads(ctx, coupons) {
		coupon := strconv.FormatUint(id, 10)
		to <- prometheus.MustNewConstMetric(lenDesc, prometheus.GaugeValue, float64(head.Waiting), coupon)
		if head.Waiting > 0 {
			to <- prometheus.MustNewConstMetric(oldDesc, prometheus.GaugeValue, float64(head.Oldest.UnixMicro())/1e6, coupon)
		}
	}
}

// opened are the coupons that may have a queue, at most so many as there are series for.
func (c *Catalog) opened() []uint64 {
	h := c.held.Load()
	if h == nil {
		return nil
	}
	now := c.Now()
	var opened []Coupon
	for _, coupon := range h.byID {
		if !coupon.Finalised && !coupon.OpensAt.After(now) {
			opened = append(opened, coupon)
		}
	}
	slices.SortFunc(opened, func(a, b Coupon) int { return cmp.Or(a.ClosesAt.Compare(b.ClosesAt), cmp.Compare(a.ID, b.ID)) })
	ids := make([]uint64, min(len(opened), maxQueueMetrics))
	for i := range ids {
		ids[i] = opened[i].ID
	}
	return ids
}
