package recall

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

func (m *Memory) Metrics() []prometheus.Collector {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_promises_remembered",
		Help: "Answers that this process remembers, to put applications back after a failover of Redis.",
	}, func() float64 { return float64(m.remembered.Load()) })
	counter := func(name, help string, count *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(count.Load()) })
	}
	return []prometheus.Collector{gauge,
		counter("jajeong_promises_not_remembered_total",
			"Answers that this process did not remember because its memory was full.", &m.dropped),
		counter("jajeong_promises_put_back_total",
			"Applications that this process put back into the queue after a failover of Redis.", &m.putBack),
		counter("jajeong_promises_moved_total",
			"Applications that this process moved to their first arrival, because their users had applied again "+
				"after a failover.", &m.moved)}
}
