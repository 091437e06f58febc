package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/database"
	"github.com/jajeong/jajeong/internal/testenv"
)

// stage has the servers and programs of all contenders.
type stage struct {
	*database.Server
	redis *testenv.Redis
	rdb   *redis.Client
	bin   string // path of settle

	redisVersion string

	jobCores string // cores of the job, such as 1-3; empty: all
	urgent   bool   // whether this process has the highest priority
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
	if s.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.redis.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	if s.Server, err = database.Start(ctx); err != nil {
		return err
	}
	s.bin = filepath.Join(s.redis.Dir(), "bin")
	if err := os.Mkdir(s.bin, 0o700); err != nil {
		return err
	}
	if s.bin, err = testenv.BuildBinary(ctx, s.bin, "./cmd/settle"); err != nil {
		return err
	}
	return s.ask(ctx)
}

func (s *stage) ask(ctx context.Context) error {
	db, err := s.Open("")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "SET GLOBAL local_infile = 1"); err != nil {
		return fmt.Errorf("allow LOAD DATA LOCAL: %w", err)
	}
	info, err := s.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("read the version of Redis: %w", err)
	}
	s.redisVersion = info["Server"]["redis_version"]
	return nil
}

func (s *stage) close() {
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
	if s.Server != nil {
		s.Server.Close()
	}
	if s.redis != nil {
		_ = s.redis.Stop()
	}
}

// couponID is the coupon of the contenders that insert rows.
const couponID = 1

// load writes rows with LOAD DATA LOCAL INFILE.
func load(ctx context.Context, q interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, into string, rows func(w io.Writer) error) error {
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(rows(writer)) }()
	const handler = "rows"
	mysql.RegisterReaderHandler(handler, func() io.Reader { return reader })
	defer mysql.DeregisterReaderHandler(handler)
	_, err := q.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+handler+"' INTO TABLE "+into)
	return err
}
