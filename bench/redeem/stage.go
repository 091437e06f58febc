package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/bench/database"
	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// maxPaused is the most coupons of the scene paused: each needs a connection of the holders, and one of the others.
const maxPaused = 30

// stage has the servers and the tables of all contenders.
type stage struct {
	options
	*database.Server
	redis   *testenv.Redis
	db      *sql.DB          // for preparations
	servers *connect.Servers // for the clients: pools as the programs of the product have them
	name    string           // of the database
	drop    func()

	redisVersion string
	coupons      int // rows of table coupon
}

func openStage(ctx context.Context, o options) (*stage, error) {
	s := &stage{options: o}
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
	if s.Server, err = database.Start(ctx); err != nil {
		return err
	}
	if s.db, s.name, s.drop, err = s.Fresh(ctx, 0, 0); err != nil {
		return err
	}
	s.servers, err = connect.Open(&connect.MySQLSettings{MySQLDSN: s.DSN(s.name)}, connect.Settling,
		&connect.RedisSettings{RedisAddrs: []string{s.redis.Addr()}}, zap.NewNop())
	if err != nil {
		return err
	}
	rdb, ok := s.servers.Redis.(*redis.Client)
	if !ok {
		return fmt.Errorf("redis is no single server")
	}
	info, err := rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("read the version of Redis: %w", err)
	}
	s.redisVersion = info["Server"]["redis_version"]
	for _, c := range s.contenders {
		if err := s.makeTables(ctx, c.table); err != nil {
			return fmt.Errorf("tables of %s: %w", c.name, err)
		}
	}
	return nil
}

// makeTables gives a plain contender its own tables, with the columns and indexes of the product's.
func (s *stage) makeTables(ctx context.Context, table string) error {
	if table == "user_coupon" {
		return nil
	}
	for _, statement := range []string{
		"CREATE TABLE %s LIKE user_coupon",
		"ALTER TABLE %s ADD COLUMN reserved_until DATETIME(6) NULL",
		"CREATE TABLE %s_order LIKE coupon_order",
		"CREATE TABLE %s_log LIKE coupon_log",
	} {
		if _, err := s.db.ExecContext(ctx, fmt.Sprintf(statement, table)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) close() {
	if s.servers != nil {
		s.servers.Close()
	}
	if s.drop != nil {
		s.drop()
	}
	if s.Server != nil {
		s.Server.Close()
	}
	if s.redis != nil {
		_ = s.redis.Stop()
	}
}

func (s *stage) environment() string {
	return fmt.Sprintf("%s, Redis %s, %d cores, %s", s.Version, s.redisVersion, runtime.NumCPU(), time.Now().Format(time.DateOnly))
}

// issue makes a new coupon and issues it to the users from 1 to n.
func (s *stage) issue(ctx context.Context, c contender, n int) (id int, err error) {
	s.coupons++
	id = s.coupons
	_, err = s.db.ExecContext(ctx, `INSERT INTO coupon (id, name, total_quantity, issued_count, apply_opens_at, apply_closes_at, discount_won)
		VALUES (?, 'bench', ?, ?, UTC_TIMESTAMP(6) - INTERVAL 1 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY, 5000)`, id, n, n)
	const chunk = 1000
	for from := 0; from < n && err == nil; from += chunk {
		var rows []string
		for user := from + 1; user <= min(n, from+chunk); user++ {
			rows = append(rows, fmt.Sprintf("(%d, %d, %[2]d, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 30 DAY)", id, user))
		}
		_, err = s.db.ExecContext(ctx, "INSERT INTO "+c.table+" (coupon_id, user_id, position, applied_at, issued_at, expires_at) VALUES "+strings.Join(rows, ","))
	}
	return id, err
}

// play measures a contender once.
func (s *stage) play(ctx context.Context, scene string, c contender) (result, error) {
	steps := c.open(s.servers.MySQL, s.servers.Redis)
	s.warmUp(ctx, c, steps)
	var r result
	switch scene {
	case distinct:
		id, err := s.issue(ctx, c, s.options.coupons)
		if err != nil {
			return r, err
		}
		runtime.GC()
		server, client := s.cpu()
		r = askDistinct(ctx, steps, coupon.CouponID(id), s.options.coupons, s.clients)
		r.server, r.client = s.cpu()
		r.server, r.client = r.server-server, r.client-client
	case hot:
		id, err := s.issue(ctx, c, s.waves)
		if err != nil {
			return r, err
		}
		runtime.GC()
		r = askHot(ctx, steps, coupon.CouponID(id), s.waves, s.crowd)
	case paused:
		return s.playPaused(ctx, c, steps)
	}
	return r, ctx.Err()
}

// cpu returns the CPU times of MySQL, and of this process with Redis.
func (s *stage) cpu() (server, client time.Duration) {
	return process.CPUTime(s.Pid()), process.CPUTime(os.Getpid()) + process.CPUTime(s.redis.Pid())
}

// warmUp opens all connections.
func (s *stage) warmUp(ctx context.Context, c contender, steps []step) {
	const coupons = 256
	if id, err := s.issue(ctx, c, coupons); err == nil {
		askDistinct(ctx, steps, coupon.CouponID(id), coupons, s.servers.MySQL.Stats().MaxOpenConnections)
	}
}

func (s *stage) playPaused(ctx context.Context, c contender, steps []step) (r result, err error) {
	id, err := s.issue(ctx, c, s.paused)
	if err != nil {
		return r, err
	}
	config, err := mysql.ParseDSN(s.DSN(s.name))
	if err != nil {
		return r, err
	}
	st, err := newStall(config.Addr, s.paused, s.pause)
	if err != nil {
		return r, err
	}
	defer st.listener.Close()
	config.Addr = st.addr()
	pool, err := (&connect.MySQLSettings{MySQLDSN: config.FormatDSN()}).Open(connect.Patient, zap.NewNop())
	if err != nil {
		return r, err
	}
	defer pool.Close()
	holder := c.holder
	if holder == nil {
		holder = c.open
	}
	r = askPaused(ctx, holder(pool, s.servers.Redis), steps, coupon.CouponID(id), s.paused, st.stopped)
	return r, ctx.Err()
}
