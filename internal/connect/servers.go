package connect

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Servers are the connections of a program that works with both.
type Servers struct {
	MySQL *sql.DB
	Redis redis.UniversalClient
}

// Open makes ready to connect to both servers. None need be there yet.
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

// Metrics tell how the connections to Redis and MySQL are used.
func (s *Servers) Metrics() prometheus.Collector { return pools{s.Redis, s.MySQL} }

// Close ends all connections.
func (s *Servers) Close() {
	_ = s.Redis.Close()
	_ = s.MySQL.Close()
}
