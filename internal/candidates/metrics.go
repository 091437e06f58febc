package candidates

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collectTimeout is less than a scrape's.
const collectTimeout = 2 * time.Second

// Metrics tell whether Redis may evict what waits there and how full it is, looked up when they are asked for; nothing when it
// does not answer.
func (s *Store) Metrics() prometheus.Collector { return memoryCollector{s} }

type memoryCollector struct{ *Store }

var (
	evictsDesc = prometheus.NewDesc("jajeong_redis_eviction_policy_wrong",
		"1 where the maxmemory-policy of Redis, or of one master of a Cluster, is not noeviction: it may evict who waits.", nil, nil)
	usedDesc = prometheus.NewDesc("jajeong_redis_memory_used_ratio",
		"How much of its maxmemory Redis uses, or the fullest master of a Cluster; 0 where there is no maxmemory.", nil, nil)
)

func (memoryCollector) Describe(to chan<- *prometheus.Desc) {
	to <- evictsDesc
	to <- usedDesc
}

func (c memoryCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	memory, _ := c.Memory(ctx) // of whoever answers
	if memory.Policy == "" {
		return
	}
	wrong := 0.0
	if memory.Policy != NoEviction {
		wrong = 1
	}
	to <- prometheus.MustNewConstMetric(evictsDesc, prometheus.GaugeValue, wrong)
	to <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, memory.Share())
}
