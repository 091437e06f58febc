// Package connect opens the connections to Redis and MySQL, makes the logger, and reads settings from flags and
// environment. All wrong settings are reported together.
package connect

import (
	"database/sql"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type Servers struct {
	MySQL *sql.DB
	Redis redis.UniversalClient // nil: the program uses no Redis

	shared bool
}

// Shared returns the same servers for a part of the program that may not close them.
func (s *Servers) Shared() *Servers {
	other := *s
	other.shared = true
	return &other
}

// Open makes both clients. It does not connect, so the servers may be unreachable.
func Open(m *MySQLSettings, patience Patience, r *RedisSettings, logger *zap.Logger) (*Servers, error) {
	db, err := m.Open(patience, logger)
	if err != nil {
		return nil, err
	}
	rdb, err := r.Open()
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Servers{MySQL: db, Redis: rdb}, nil
}

func (s *Servers) Metrics() prometheus.Collector { return (*pools)(s) }

// Close closes the connections, unless they are shared.
func (s *Servers) Close() {
	if s.shared {
		return
	}
	_ = s.Redis.Close()
	_ = s.MySQL.Close()
}

type LogSettings struct {
	LogLevel string `name:"log-level" env:"LOG_LEVEL" enum:"debug,info,warn,error" default:"${log_level}"`
}

func (s *LogSettings) Logger(w io.Writer) *zap.Logger {
	level, err := zapcore.ParseLevel(s.LogLevel)
	if err != nil {
		level = zapcore.InfoLevel
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey = "time"
	encoder.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(w)), level))
}

type pools Servers

var (
	connectionsDesc = prometheus.NewDesc("jajeong_pool_connections", "Open connections, by server and state.",
		[]string{"server", "state"}, nil)
	waitsDesc = prometheus.NewDesc("jajeong_pool_waits_total", "Number of waits for a free connection.",
		[]string{"server"}, nil)
	waitedDesc = prometheus.NewDesc("jajeong_pool_wait_seconds_total",
		"Total time of waits for a free connection.", []string{"server"}, nil)
	timeoutsDesc = prometheus.NewDesc("jajeong_pool_timeouts_total",
		"Number of waits for a free connection that timed out.", []string{"server"}, nil)
)

func (p *pools) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(p, to) }

func (p *pools) Collect(to chan<- prometheus.Metric) {
	gauge := func(value int, server, state string) {
		to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(value), server, state)
	}
	counter := func(desc *prometheus.Desc, value float64, server string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, server)
	}
	mysql := p.MySQL.Stats()
	gauge(mysql.Idle, "mysql", "idle")
	gauge(mysql.InUse, "mysql", "in_use")
	counter(waitsDesc, float64(mysql.WaitCount), "mysql")
	counter(waitedDesc, mysql.WaitDuration.Seconds(), "mysql")
	if p.Redis == nil {
		return
	}
	redis := p.Redis.PoolStats()
	gauge(int(redis.IdleConns), "redis", "idle")
	gauge(int(redis.TotalConns-redis.IdleConns), "redis", "in_use")
	counter(waitsDesc, float64(redis.WaitCount), "redis")
	counter(waitedDesc, float64(redis.WaitDurationNs)/1e9, "redis")
	counter(timeoutsDesc, float64(redis.Timeouts), "redis")
}
