package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/bench/database"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

// stage has the servers and programs of all scenes.
type stage struct {
	options
	*database.Server
	redis         *testenv.Redis
	rdb           *redis.Client
	dir           string
	apply, settle string // paths of apply-api and settle

	redisVersion string
}

// openStage starts the servers.
func openStage(ctx context.Context, o options) (*stage, error) {
	s := &stage{options: o}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// build builds the programs of the product.
func (s *stage) build(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "jajeong-bench-"); err != nil {
		return err
	}
	if s.apply, err = testenv.BuildBinary(ctx, s.dir, "./cmd/apply-api"); err != nil {
		return err
	}
	s.settle, err = testenv.BuildBinary(ctx, s.dir, "./cmd/settle")
	return err
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.redis.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	if s.Server, err = database.Start(ctx); err != nil {
		return err
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
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *stage) environment() string {
	return fmt.Sprintf("%s, Redis %s, %d cores, %s", s.Version, s.redisVersion, runtime.NumCPU(), time.Now().Format(time.DateOnly))
}

// numbersSQL has the numbers n from 0 to 999,999.
var numbersSQL = func() string {
	sum, from := "0", ""
	const digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 " +
		"UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	for power, place := 1, 0; place < 6; power, place = 10*power, place+1 {
		sum += fmt.Sprintf(" + %d * t%d.d", power, place)
		from += fmt.Sprintf(", %s AS t%d", digits, place)
	}
	return "SELECT " + sum + " AS n FROM " + from[len(", "):]
}()

// shop is a deployment of its own: a database, a prefix in Redis, and pools as `settle` has them.
type shop struct {
	*stage
	db      *sql.DB // for preparations
	name    string  // of the database; with a colon, the prefix
	servers *connect.Servers
	store   *candidates.Store
	asked   uint64 // applications of the applicants so far
	filled  int64  // no arrival of a filled line is above it
	drop    func()
}

func (s *stage) openShop(ctx context.Context, coupons, seats int) (p *shop, err error) {
	p = &shop{stage: s}
	if p.db, p.name, p.drop, err = s.Fresh(ctx, 0, 0); err != nil {
		return nil, err
	}
	_, err = p.db.ExecContext(ctx, "INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at) SELECT n + 1, 'bench', ?, "+
		"UTC_TIMESTAMP(6) - INTERVAL 1 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY FROM ("+numbersSQL+") AS numbers WHERE n < ?", seats, coupons)
	if err != nil {
		p.drop()
		return nil, err
	}
	p.servers, err = connect.Open(&connect.MySQLSettings{MySQLDSN: s.DSN(p.name)}, connect.Settling,
		&connect.RedisSettings{RedisAddrs: []string{s.redis.Addr()}}, zap.NewNop())
	if err == nil {
		p.store, err = candidates.NewStore(p.servers.Redis, candidates.Options{KeyPrefix: p.prefix(), TTL: 168 * time.Hour})
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *shop) prefix() string { return p.name + ":" }

func (p *shop) close() {
	if p.servers != nil {
		p.servers.Close()
	}
	p.forget()
	p.drop()
}

// forget makes Redis lose every key of the shop.
func (p *shop) forget() {
	ctx := context.Background()
	for keys := p.rdb.Scan(ctx, 0, "*"+p.prefix()+"*", 10_000).Iterator(); keys.Next(ctx); {
		_ = p.rdb.Unlink(ctx, keys.Val())
	}
}

func (p *shop) queue(id coupon.CouponID) string {
	return fmt.Sprintf("%scandidates:coupon:%d", p.prefix(), id)
}

func (p *shop) state(id coupon.CouponID) string { return "state:{" + p.queue(id) + "}" }

// fill lets sizes[0] users apply for coupon 1, and so on. Arrivals are a µs apart. Promises are in MySQL as after a catalog refresh.
func (p *shop) fill(ctx context.Context, sizes ...int) error {
	start := time.Now().Add(-time.Hour).UnixMicro()
	for place, n := range sizes {
		id := coupon.CouponID(place + 1)
		if err := p.publish(ctx, id); err != nil {
			return err
		}
		const chunk = 10_000
		for from := 0; from < n; from += chunk {
			members := make([]redis.Z, min(chunk, n-from))
			for i := range members {
				members[i] = redis.Z{Score: float64(start + int64(from+i)), Member: firstUser + from + i}
			}
			if err := p.rdb.ZAdd(ctx, p.queue(id), members...).Err(); err != nil {
				return fmt.Errorf("fill queue: %w", err)
			}
		}
		last := start + int64(n)
		p.filled = max(p.filled, last)
		if err := p.rdb.HSet(ctx, p.state(id), "accepted", n, "last", last, "since", start).Err(); err != nil {
			return fmt.Errorf("fill queue: %w", err)
		}
		_, err := p.db.ExecContext(ctx, `INSERT INTO promise (coupon_id, accepted, last_arrival, counted_since, seen_at)
			VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))`, id, n, last, start)
		if err != nil {
			return fmt.Errorf("write promise: %w", err)
		}
	}
	return nil
}

// publish writes the window, and lets the epoch of this server begin.
func (p *shop) publish(ctx context.Context, id coupon.CouponID) error {
	now := time.Now()
	w := coupon.Window{Coupon: id, Version: 1, Opens: now.Add(-24 * time.Hour), Closes: now.Add(24 * time.Hour)}
	if _, _, err := p.store.Publish(ctx, w, coupon.Promise{}); err != nil {
		return err
	}
	_, err := p.store.PutBack(ctx, id, nil)
	return err
}

// firstUser is the first user of a filled line.
const firstUser = 1_000_000_000

func (p *shop) journal() *journal.Journal {
	return &journal.Journal{DB: mysqltx.New(p.servers.MySQL), Store: p.store}
}

// command makes a program of the product with the addresses of the shop, and without the environment of the bench.
func (p *shop) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	args = append(args, "--mysql-dsn="+p.DSN(p.name), "--redis-addrs="+p.redis.Addr(), "--redis-key-prefix="+p.prefix())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	cmd.Stderr = os.Stderr
	return cmd
}

const endWithin = 20 * time.Second

// startJournal starts `settle serve --tasks journal`.
func (p *shop) startJournal(ctx context.Context) (pid int, stop func(), err error) {
	cmd := p.command(ctx, p.settle, "serve", "--tasks=journal", "--log-level=error")
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}

func (p *shop) startPod(ctx context.Context) (*testenv.Program, error) {
	cmd := p.command(ctx, p.apply,
		"--apply-listen=127.0.0.1:0", "--apply-admin-listen=127.0.0.1:0", "--live-listen=127.0.0.1:0", "--shutdown-delay=0s")
	cmd.Stderr = nil // StartProgram reads it
	return testenv.StartProgram(ctx, cmd)
}

func (p *shop) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = p.db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

func (p *shop) execute(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := p.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", strings.Fields(statement)[0], err)
		}
	}
	return nil
}
