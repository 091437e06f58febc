package recall

import "github.com/prometheus/client_golang/prometheus"

var (
	rememberedDesc = prometheus.NewDesc("jajeong_promises_remembered",
		"Answers that this process remembers, to put applications back after a failover of Redis.", nil, nil)
	droppedDesc = prometheus.NewDesc("jajeong_promises_not_remembered_total",
		"Answers that this process did not remember because its memory was full.", nil, nil)
	putBackDesc = prometheus.NewDesc("jajeong_promises_put_back_total",
		"Applications that this process put back into the queue after a failover of Redis.", nil, nil)
	movedDesc = prometheus.NewDesc("jajeong_promises_moved_total",
		"Applications that this process moved to their first arrival, because their users had applied again after a failover.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Memory) Describe(to chan<- *prometheus.Desc) {
	to <- rememberedDesc
	to <- droppedDesc
	to <- putBackDesc
	to <- movedDesc
}

// Collect implements prometheus.Collector.
func (m *Memory) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(rememberedDesc, prometheus.GaugeValue, float64(m.remembered.Load()))
	to <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(m.dropped.Load()))
	to <- prometheus.MustNewConstMetric(putBackDesc, prometheus.CounterValue, float64(m.putBack.Load()))
	to <- prometheus.MustNewConstMetric(movedDesc, prometheus.CounterValue, float64(m.moved.Load()))
}
