package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/database"
	"github.com/jajeong/jajeong/internal/testenv"
)

// stage has what all contenders need.
type stage struct {
	*database.Server
	dir          string
	apply        string // path of apply-api
	other        string // path of another build of apply-api; empty: there is none
	redisVersion string
}

func openStage(ctx context.Context) (*stage, error) {
	s := new(stage)
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "jajeong-bench-"); err != nil {
		return err
	}
	if s.apply, err = testenv.BuildBinary(ctx, s.dir, "./cmd/apply-api"); err != nil {
		return err
	}
	if s.Server, err = database.Start(ctx); err != nil {
		return err
	}
	store, err := testenv.StartRedis(ctx, testenv.RedisOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Stop() }()
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer rdb.Close()
	info, err := rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("read the version of Redis: %w", err)
	}
	s.redisVersion = info["Server"]["redis_version"]
	return nil
}

func (s *stage) close() {
	if s.Server != nil {
		s.Server.Close()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *stage) facts() string {
	return fmt.Sprintf("%s, Redis %s, %d cores, %s.\n\n", s.Version, s.redisVersion, runtime.NumCPU(), time.Now().Format(time.DateOnly))
}

// own starts the bench itself as a server.
func (s *stage) own(ctx context.Context, c contender, w wiring) (*testenv.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	return s.program(ctx, self, line, serveVerb, c.name)
}
