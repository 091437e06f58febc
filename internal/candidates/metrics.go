package candidates

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collectTimeout is less than a scrape's.
const collectTimeout = 2 * time.Second

// Metrics tell whether Redis may evict what waits there, looked up when they are asked for; nothing when it does not answer.
func (s *Store) Metrics() prometheus.Collector { return policyCollector{s} }

type policyCollector struct{ *Store }

var evictsDesc = prometheus.NewDesc("jajeong_redis_eviction_policy_wrong",
	"1 where the maxmemory-policy of Redis, or of one master of a Cluster, is not noeviction: it may evict who waits.", nil, nil)

func (policyCollector) Describe(to chan<- *prometheus.Desc) { to <- evictsDesc }

func (c policyCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	policy, _ := c.EvictionPolicy(ctx) // of whoever answers
	if policy == "" {
		return
	}
	wrong := 0.0
	if policy != NoEviction {
		wrong = 1
	}
	to <- prometheus.MustNewConstMetric(evictsDesc, prometheus.GaugeValue, wrong)
}
