package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

// stage is the servers and programs that all contenders use.
type stage struct {
	redis  *testenv.Redis
	mysql  *testenv.MySQL // nil when TEST_MYSQL_DSN names one
	server *mysql.Config
	rdb    *redis.Client
	bin    string // of settle

	mysqlVersion, redisVersion string
	family                     string // mysql or mariadb
	databases                  int

	jobCores []int // where the job runs; none: anywhere
	urgent   bool  // this process has the highest priority
}

// A server as one would run it: durable commits, a buffer pool that holds the tables, a redo log that does not stall.
var serverArgs = []string{"--innodb-buffer-pool-size=2G", "--innodb-log-file-size=1G", "--innodb-flush-log-at-trx-commit=1", "--local-infile=1", "--max-allowed-packet=64M"}

func openStage(ctx context.Context) (s *stage, err error) {
	s = new(stage)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return nil, err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.redis.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	dsn := os.Getenv("TEST_MYSQL_DSN")
	if dsn == "" {
		if s.mysql, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{Args: serverArgs}); err != nil {
			return nil, err
		}
		dsn = s.mysql.DSN("")
	}
	if s.server, err = mysql.ParseDSN(dsn); err != nil {
		return nil, fmt.Errorf("TEST_MYSQL_DSN: %w", err)
	}
	s.bin = filepath.Join(s.redis.Dir(), "bin")
	if err := os.Mkdir(s.bin, 0o700); err != nil {
		return nil, err
	}
	if s.bin, err = testenv.BuildBinary(ctx, s.bin, "./cmd/settle"); err != nil {
		return nil, err
	}
	return s, s.ask(ctx)
}

func (s *stage) ask(ctx context.Context) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.mysqlVersion); err != nil {
		return fmt.Errorf("ask mysql for its version: %w", err)
	}
	s.family = "mysql"
	if strings.Contains(s.mysqlVersion, "MariaDB") {
		s.family = "mariadb"
	} else {
		s.mysqlVersion = "MySQL " + s.mysqlVersion
	}
	if _, err := db.ExecContext(ctx, "SET GLOBAL local_infile = 1"); err != nil {
		return fmt.Errorf("allow LOAD DATA LOCAL: %w", err)
	}
	info, err := s.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask redis for its version: %w", err)
	}
	s.redisVersion = info["Server"]["redis_version"]
	return nil
}

func (s *stage) close() {
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
	if s.mysql != nil {
		_ = s.mysql.Stop()
	}
	if s.redis != nil {
		_ = s.redis.Stop()
	}
}

func (s *stage) dsn(database string) string {
	config := s.server.Clone()
	config.DBName = database
	config.AllowNativePasswords = true
	return config.FormatDSN()
}

func (s *stage) open(database string) (*sql.DB, error) { return sql.Open("mysql", s.dsn(database)) }

// couponID is the coupon of those who insert without settling.
const couponID = 1

// fresh makes a database with the product's tables and a campaign's coupons, from 1. The caller drops it.
func (s *stage) fresh(ctx context.Context, c campaign) (db *sql.DB, name string, drop func(), err error) {
	s.databases++
	name = fmt.Sprintf("jajeong_bench_%d_%d", os.Getpid(), s.databases)
	admin, err := s.open("")
	if err != nil {
		return nil, "", nil, err
	}
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		_ = admin.Close()
		return nil, "", nil, fmt.Errorf("create database: %w", err)
	}
	drop = func() {
		if db != nil {
			_ = db.Close()
		}
		_, _ = admin.Exec("DROP DATABASE " + name)
		_ = admin.Close()
	}
	product, err := (&connect.MySQLSettings{MySQLDSN: s.dsn(name)}).Open(zap.NewNop())
	if err != nil {
		return nil, name, drop, err
	}
	defer product.Close()
	if _, err := connect.Migrate(ctx, product); err != nil {
		return nil, name, drop, err
	}
	if db, err = s.open(name); err != nil {
		return nil, name, drop, err
	}
	for id := 1; id <= c.coupons && err == nil; id++ {
		_, err = db.ExecContext(ctx, `INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
			VALUES (?, 'bench', ?, UTC_TIMESTAMP(6) - INTERVAL 1 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`, id, c.seats)
	}
	return db, name, drop, err
}

// load sends rows through LOAD DATA LOCAL INFILE.
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
