package connect

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Servers are the connections to both servers.
type Servers struct {
	MySQL *sql.DB
	Redis redis.UniversalClient
}

// Open prepares connections to both servers. The servers may be unreachable.
func Open(m *MySQLSettings, r *RedisSettings, logger *zap.Logger) (*Servers, error) {
	db, err := m.Open(logger)
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

// Metrics are about the pools of connections.
func (s *Servers) Metrics() prometheus.Collector { return pools{s.Redis, s.MySQL} }

// Close closes all connections.
func (s *Servers) Close() {
	_ = s.Redis.Close()
	_ = s.MySQL.Close()
}
