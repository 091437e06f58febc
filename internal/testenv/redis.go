package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Redis is up in a tenth of a second; the rest is for a machine that runs many tests at once.
const redisWithin = 20 * time.Second

const redisHint = "To install what is missing: make setup. " +
	"RedisFor also takes an existing server: TEST_REDIS_ADDRS=host:port."

// RedisOptions are the settings of a private Redis. The zero value keeps everything in memory.
type RedisOptions struct {
	// AppendOnly keeps every acknowledged write over Kill and Restart.
	AppendOnly bool
	// Args are further arguments to redis-server; of two values of a setting, theirs counts.
	Args []string
}

// Redis is a private redis-server. Its methods may be called in parallel.
type Redis struct{ *server }

// StartRedis starts a redis-server and waits until it answers. On failure nothing is left behind,
// and the error ends with the server's own words.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	path, err := findProgram("redis-server")
	if err != nil {
		return nil, fmt.Errorf("start redis: %w\n%s", err, redisHint)
	}
	s, err := launch(ctx, program{
		name:    "redis",
		hint:    redisHint,
		within:  redisWithin,
		prepare: func(_ context.Context, s *server) error { return os.WriteFile(usersFile(s), nil, 0o600) },
		command: func(s *server) []string {
			return append([]string{path,
				"--bind", "127.0.0.1",
				"--port", strconv.Itoa(s.port),
				"--dir", s.dir,
				"--aclfile", usersFile(s), // users stay over Restart
				"--save", "",
				"--appendonly", yesNo(opts.AppendOnly),
				// Written before each answer and never waited for: enough to survive a kill.
				"--appendfsync", "no",
				// A rewriting child would outlive its killed parent.
				"--auto-aof-rewrite-percentage", "0",
				"--maxmemory-policy", "noeviction",
			}, opts.Args...)
		},
		ready: redisReady,
	})
	if err != nil {
		return nil, err
	}
	return &Redis{s}, nil
}

func usersFile(s *server) string { return filepath.Join(s.dir, "users.acl") }

// redisReady compares process ids: another Redis may have taken the port first.
func redisReady(ctx context.Context, s *server, pid int) error {
	// Ask for the port first: the client would log every refusal.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	conn.Close()

	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("another Redis answers on port %d", s.port)
	}
	// While it loads its file it refuses everything but INFO.
	return client.Ping(ctx).Err()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
