package connect

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

type pools struct {
	rdb redis.UniversalClient
	db  *sql.DB
}

var (
	connectionsDesc = prometheus.NewDesc("jajeong_pool_connections", "Open connections, by server and state.", []string{"server", "state"}, nil)
	waitsDesc       = prometheus.NewDesc("jajeong_pool_waits_total", "Number of waits for a free connection.", []string{"server"}, nil)
	waitedDesc      = prometheus.NewDesc("jajeong_pool_wait_seconds_total", "Total time of waits for a free connection.", []string{"server"}, nil)
	timeoutsDesc    = prometheus.NewDesc("jajeong_pool_timeouts_total", "Number of waits for a free connection that timed out.", []string{"server"}, nil)
)

func (p pools) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{connectionsDesc, waitsDesc, waitedDesc, timeoutsDesc} {
		to <- desc
	}
}

func (p pools) Collect(to chan<- prometheus.Metric) {
	gauge := func(value int, server, state string) {
		to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(value), server, state)
	}
	counter := func(desc *prometheus.Desc, value float64, server string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, server)
	}
	redis, mysql := p.rdb.PoolStats(), p.db.Stats()
	gauge(int(redis.IdleConns), "redis", "idle")
	gauge(int(redis.TotalConns-redis.IdleConns), "redis", "in_use")
	gauge(mysql.Idle, "mysql", "idle")
	gauge(mysql.InUse, "mysql", "in_use")
	counter(waitsDesc, float64(redis.WaitCount), "redis")
	counter(waitsDesc, float64(mysql.WaitCount), "mysql")
	counter(waitedDesc, float64(redis.WaitDurationNs)/1e9, "redis")
	counter(waitedDesc, mysql.WaitDuration.Seconds(), "mysql")
	counter(timeoutsDesc, float64(redis.Timeouts), "redis")
}
