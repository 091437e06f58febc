package connect

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/text"
)

// Where events go: the values of EVENT_SINK.
const (
	NoSink    = "none"
	RedisSink = "redis"
	KafkaSink = "kafka"
)

// The bounds of EVENT_RETENTION. After a failover, the events of the last ten minutes are published again: events that
// stay for a shorter time could be gone before. A month of events is more than memory is for.
const (
	minEventRetention = 10 * time.Minute
	maxEventRetention = 30 * 24 * time.Hour
)

// RetentionSettings say how long the relay, which alone removes events, leaves them in the stream.
type RetentionSettings struct {
	EventRetention time.Duration `name:"event-retention" env:"EVENT_RETENTION" default:"24h" placeholder:"DURATION"`
}

func (s *RetentionSettings) Validate() error {
	if s.EventRetention < minEventRetention || s.EventRetention > maxEventRetention {
		return text.UsageErrorf(text.WrongEventRetention, s.EventRetention, minEventRetention, maxEventRetention)
	}
	return nil
}

// EventSettings say where events go. Without EVENT_REDIS_ADDRS, the stream is on the Redis of the applications.
type EventSettings struct {
	EventSink       string      `name:"event-sink" env:"EVENT_SINK" enum:"none,redis,kafka" default:"none"`
	EventRedisAddrs []string    `name:"event-redis-addrs" env:"EVENT_REDIS_ADDRS" placeholder:"HOST:PORT"`
	EventRedis      RedisAccess `embed:"" prefix:"event-" envprefix:"EVENT_"`
}

func (s *EventSettings) Validate() error {
	if len(s.EventRedisAddrs) > 0 {
		return s.ownRedis().validate("EVENT_")
	}
	var problems []error
	for _, other := range s.EventRedis.all() {
		if other.given {
			problems = append(problems, text.UsageErrorf(text.EventAddrsMissing, "EVENT_"+other.name))
		}
	}
	return errors.Join(problems...)
}

// OpenRedis makes a client of its own for the stream. It does not connect. line has the settings of the Redis of the
// applications; all of them are used if EVENT_REDIS_ADDRS is not given.
func (s *EventSettings) OpenRedis(line *RedisSettings) (redis.UniversalClient, error) {
	if len(s.EventRedisAddrs) == 0 {
		return line.Open()
	}
	return s.ownRedis().open("EVENT_")
}

func (s *EventSettings) ownRedis() *RedisSettings {
	return &RedisSettings{RedisAddrs: s.EventRedisAddrs, RedisAccess: s.EventRedis}
}
