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

// RedisSettings say where Redis is. One address is a single server, or any node of a Cluster.
type RedisSettings struct {
	RedisAddrs  []string `name:"redis-addrs" env:"REDIS_ADDRS" default:"127.0.0.1:6379" placeholder:"HOST:PORT"`
	RedisAccess `embed:""`
}

// RedisAccess says how to log in to the servers of REDIS_ADDRS. The Redis of the events has the same settings, with
// EVENT_ before the name.
type RedisAccess struct {
	RedisMasterName           string `name:"redis-master-name" env:"REDIS_MASTER_NAME" placeholder:"NAME"`
	RedisUsername             string `name:"redis-username" env:"REDIS_USERNAME" placeholder:"NAME"`
	RedisPasswordFile         string `name:"redis-password-file" env:"REDIS_PASSWORD_FILE" type:"path" placeholder:"FILE"`
	RedisSentinelUsername     string `name:"redis-sentinel-username" env:"REDIS_SENTINEL_USERNAME" placeholder:"NAME"`
	RedisSentinelPasswordFile string `name:"redis-sentinel-password-file" env:"REDIS_SENTINEL_PASSWORD_FILE" type:"path" placeholder:"FILE"`
	RedisTLS                  bool   `name:"redis-tls" env:"REDIS_TLS"`
	RedisTLSDir               string `name:"redis-tls-dir" env:"REDIS_TLS_DIR" type:"path" placeholder:"DIR"`
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
	if s.RedisMasterName == "" {
		for _, other := range s.sentinelLogin() {
			if other.given {
				problems = append(problems, text.UsageErrorf(text.MasterNameMissing, prefix+other.name,
					prefix+"REDIS_MASTER_NAME"))
			}
		}
	}
	_, err := s.access(prefix)
	return errors.Join(append(problems, err)...)
}

func (s *RedisAccess) sentinelLogin() []setting {
	return []setting{
		{"REDIS_SENTINEL_USERNAME", s.RedisSentinelUsername != ""},
		{"REDIS_SENTINEL_PASSWORD_FILE", s.RedisSentinelPasswordFile != ""},
	}
}

func (s *RedisAccess) all() []setting {
	return append([]setting{
		{"REDIS_MASTER_NAME", s.RedisMasterName != ""},
		{"REDIS_USERNAME", s.RedisUsername != ""},
		{"REDIS_PASSWORD_FILE", s.RedisPasswordFile != ""},
		{"REDIS_TLS", s.RedisTLS},
		{"REDIS_TLS_DIR", s.RedisTLSDir != ""},
	}, s.sentinelLogin()...)
}

// access reads the files with secrets and certificates into options. It returns all problems.
func (s *RedisAccess) access(prefix string) (*redis.UniversalOptions, error) {
	password, wrongPassword := secret(prefix+"REDIS_PASSWORD_FILE", s.RedisPasswordFile)
	sentinel, wrongSentinel := secret(prefix+"REDIS_SENTINEL_PASSWORD_FILE", s.RedisSentinelPasswordFile)
	certificates, wrongCertificates := tlsOf(prefix+"REDIS_TLS_DIR", s.RedisTLSDir)
	if certificates == nil && s.RedisTLS {
		certificates = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &redis.UniversalOptions{
		MasterName:       s.RedisMasterName,
		Username:         s.RedisUsername,
		Password:         password,
		SentinelUsername: s.RedisSentinelUsername,
		SentinelPassword: sentinel,
		TLSConfig:        certificates,
	}, errors.Join(wrongPassword, wrongSentinel, wrongCertificates)
}

// Open does not connect. The client never repeats a command: a second apply could accept an application after a 503.
func (s *RedisSettings) Open() (redis.UniversalClient, error) { return s.open("") }

// open makes a client of a Cluster, unless Sentinels name the master: a server that is no Cluster is one with a single
// node.
func (s *RedisSettings) open(prefix string) (redis.UniversalClient, error) {
	options, err := s.access(prefix)
	if err != nil {
		return nil, err
	}
	options.Addrs = s.RedisAddrs
	options.IsClusterMode = s.RedisMasterName == ""
	options.MaxRetries = -1
	options.DialTimeout = redisDialTimeout
	options.ReadTimeout = redisIOTimeout
	options.WriteTimeout = redisIOTimeout
	options.DialerRetries = 1 // the next command dials again
	options.PoolSize = redisPool
	options.PoolTimeout = redisPoolTimeout
	options.ContextTimeoutEnabled = true
	options.DisableIdentity = true // an ACL need not allow CLIENT SETINFO
	client := redis.NewUniversalClient(options)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		guardNodes(cluster, len(s.RedisAddrs) == 1)
	}
	client.AddHook(tlsHook{prefix + "REDIS_TLS_DIR"})
	return client, nil
}

// LogRedis sets the logger of all Redis clients in this process.
func LogRedis(logger *zap.Logger) { redis.SetLogger(redisLogger{logger.Named("redis").Sugar()}) }

type redisLogger struct{ log *zap.SugaredLogger }

func (l redisLogger) Printf(_ context.Context, format string, v ...any) { l.log.Warnf(format, v...) }
