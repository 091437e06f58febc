package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	redisDialTimeout = 2 * time.Second
	redisIOTimeout   = 3 * time.Second // a command that timed out may have been executed; repeating it is safe
	// redisPool is the number of connections to a node: enough for stampedes on three coupons. Further calls wait.
	redisPool = 64
	// redisPoolTimeout is shorter than the timeout of any call, so that the metrics count a failed wait.
	redisPoolTimeout = 900 * time.Millisecond
)

type RedisSettings struct {
	RedisAddrs        []string `name:"redis-addrs" env:"REDIS_ADDRS" default:"127.0.0.1:6379" placeholder:"HOST:PORT"`
	RedisMasterName   string   `name:"redis-master-name" env:"REDIS_MASTER_NAME" placeholder:"NAME"`
	RedisUsername     string   `name:"redis-username" env:"REDIS_USERNAME" placeholder:"NAME"`
	RedisPassword     string   `name:"redis-password" env:"REDIS_PASSWORD" bytes:"" placeholder:"SECRET"`
	RedisPasswordFile string   `name:"redis-password-file" env:"REDIS_PASSWORD_FILE" type:"path" placeholder:"FILE"`
	RedisTLS          bool     `name:"redis-tls" env:"REDIS_TLS"`
}

// Connections returns the maximum of open connections. A Cluster has one pool for each node.
func (s *RedisSettings) Connections() int {
	if s.RedisMasterName != "" {
		return redisPool + len(s.RedisAddrs)
	}
	return redisPool * max(1, len(s.RedisAddrs))
}

func (s *RedisSettings) Validate() error { return s.validate("") }

// validate names the settings with a prefix, such as EVENT_ for EVENT_REDIS_ADDRS.
func (s *RedisSettings) validate(prefix string) error {
	var problems []error
	if len(s.RedisAddrs) == 0 {
		problems = append(problems, text.UsageErrorf(text.AddrsMissing))
	}
	for i, addr := range s.RedisAddrs {
		if !isAddress(addr) {
			problems = append(problems, text.UsageErrorf(text.WrongAddress, prefix+"REDIS_ADDRS", i+1))
		}
	}
	if _, err := secret(prefix+"REDIS_PASSWORD", s.RedisPassword, s.RedisPasswordFile); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Open does not connect. The client never repeats a command: a second apply could accept an application after a 503.
func (s *RedisSettings) Open() (redis.UniversalClient, error) { return s.open("") }

func (s *RedisSettings) open(prefix string) (redis.UniversalClient, error) {
	password, err := secret(prefix+"REDIS_PASSWORD", s.RedisPassword, s.RedisPasswordFile)
	if err != nil {
		return nil, err
	}
	options := &redis.UniversalOptions{
		Addrs:                 s.RedisAddrs,
		MasterName:            s.RedisMasterName,
		Username:              s.RedisUsername,
		Password:              password,
		MaxRetries:            -1,
		DialTimeout:           redisDialTimeout,
		ReadTimeout:           redisIOTimeout,
		WriteTimeout:          redisIOTimeout,
		DialerRetries:         1, // the next command dials again
		PoolSize:              redisPool,
		PoolTimeout:           redisPoolTimeout,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true, // an ACL need not allow CLIENT SETINFO
	}
	if s.RedisTLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client := redis.NewUniversalClient(options)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		guardNodes(cluster)
	}
	return client, nil
}

// LogRedis sets the logger of all Redis clients in this process.
func LogRedis(logger *zap.Logger) { redis.SetLogger(redisLogger{logger.Named("redis").Sugar()}) }

type redisLogger struct{ log *zap.SugaredLogger }

func (l redisLogger) Printf(_ context.Context, format string, v ...any) { l.log.Warnf(format, v...) }
