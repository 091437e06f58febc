package connect

import (
	"database/sql"
	"errors"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Servers are the two that everything is kept in.
type Servers struct {
	DB    *sql.DB
	Redis redis.UniversalClient
}

// Open returns both, or neither. It connects to none: one that is away is met by the first call.
func Open(mysql *MySQLSettings, redis *RedisSettings, logger *zap.Logger) (s Servers, err error) {
	if s.DB, err = mysql.Open(logger); err != nil {
		return Servers{}, err
	}
	if s.Redis, err = redis.Open(); err != nil {
		return Servers{}, errors.Join(err, s.DB.Close())
	}
	return s, nil
}

// Close closes both.
func (s Servers) Close() error { return errors.Join(s.Redis.Close(), s.DB.Close()) }
