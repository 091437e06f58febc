package candidates

import "github.com/prometheus/client_golang/prometheus"

var (
	rememberedDesc = prometheus.NewDesc("jajeong_promises_remembered",
		"Answers that this process remembers, to put people back after another Redis server took over.", nil, nil)
	unrememberedDesc = prometheus.NewDesc("jajeong_promises_not_remembered_total",
		"Answers that this process could not remember, since it remembers as many as it may.", nil, nil)
	putBackDesc = prometheus.NewDesc("jajeong_promises_put_back_total",
		"Applications that this process has put back into a line, since another Redis server took over without them.", nil, nil)
	movedDesc = prometheus.NewDesc("jajeong_promises_moved_total",
		"Applications that this process has given their first arrival again, since their users had applied once more.", nil, nil)
)

// PutBackMetrics tell whom this process remembers and has put back.
func (s *Store) PutBackMetrics() prometheus.Collector { return putBackCollector{s} }

type putBackCollector struct{ *Store }

func (putBackCollector) Describe(to chan<- *prometheus.Desc) {
	to <- rememberedDesc
	to <- unrememberedDesc
	to <- putBackDesc
	to <- movedDesc
}

func (c putBackCollector) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(rememberedDesc, prometheus.GaugeValue, float64(c.remembers.Load()))
	to <- prometheus.MustNewConstMetric(unrememberedDesc, prometheus.CounterValue, float64(c.forgotten.Load()))
	to <- prometheus.MustNewConstMetric(putBackDesc, prometheus.CounterValue, float64(c.putBack.Load()))
	to <- prometheus.MustNewConstMetric(movedDesc, prometheus.CounterValue, float64(c.moved.Load()))
}
