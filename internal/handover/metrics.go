package handover

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

func (m *Memory) Metrics() []prometheus.Collector {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_promises_remembered",
		Help: "Answers that this process remembers until the journal has them.",
	}, func() float64 { return float64(m.remembered.Load()) })
	counter := func(name, help string, count *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(count.Load()) })
	}
	return []prometheus.Collector{gauge,
		counter("jajeong_promises_not_remembered_total",
			"Answers that this process forgot before the journal had them, because its memory was full.", &m.dropped),
		counter("jajeong_promises_handed_over_total",
			"Applications that this process handed over to a restore, because Redis may have lost them.", &m.handed)}
}
