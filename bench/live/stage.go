package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/database"
	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/testenv"
)

const (
	// sharedCores is the number of cores that the pod, Redis, MySQL and settle share: the first ones.
	sharedCores = 2
	serverCores = "0-1"

	// firstUser is the lowest user id. All user ids have ten digits.
	firstUser = 1_000_000_000
	// busyCoupon is the coupon of the applications beside the streams. It is not settled.
	busyCoupon = 1

	endWithin = 10 * time.Second
)

// stage has the servers, programs and users of all scenes.
type stage struct {
	options
	mysql  *database.Server
	redis  *testenv.Redis
	rdb    *redis.Client // for INFO and the messages of the plain server
	db     *sql.DB
	name   string // of the database
	drop   func()
	folder string // with the programs
	apply  string // path of apply-api
	settle string // path of settle

	urgent       bool // whether this process and the servers have the highest priority
	redisVersion string
	coupons      int    // how many are used
	applicant    uint64 // user id of the last application for the busy coupon
}

func openStage(ctx context.Context, o options) (*stage, error) {
	s := &stage{options: o, coupons: busyCoupon, applicant: 2 * firstUser}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.folder, err = os.MkdirTemp("", "jajeong-bench-"); err != nil {
		return err
	}
	if s.apply, err = testenv.BuildBinary(ctx, s.folder, "./cmd/apply-api"); err != nil {
		return err
	}
	if s.settle, err = testenv.BuildBinary(ctx, s.folder, "./cmd/settle"); err != nil {
		return err
	}
	if err := process.Raise(); err != nil { // of this process and the servers
		say("no high priority, so that other programs disturb the measurement: %v", err)
	} else {
		s.urgent = true
	}
	if s.mysql, err = database.Start(ctx); err != nil {
		return err
	}
	if s.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	info, err := s.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("read the version of Redis: %w", err)
	}
	s.redisVersion = info["Server"]["redis_version"]
	if s.db, s.name, s.drop, err = s.mysql.Fresh(ctx, busyCoupon+s.rounds*len(scenes), s.winners); err != nil {
		return err
	}
	if err := s.addUsers(ctx); err != nil {
		return err
	}
	return s.shareCores()
}

// addUsers makes the users known to the shop.
func (s *stage) addUsers(ctx context.Context) error {
	reader, writer := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(writer, 1<<20)
		for i := range s.streams {
			fmt.Fprintln(out, firstUser+i)
		}
		_ = writer.CloseWithError(out.Flush())
	}()
	const handler = "users"
	mysql.RegisterReaderHandler(handler, func() io.Reader { return reader })
	defer mysql.DeregisterReaderHandler(handler)
	if _, err := s.db.ExecContext(ctx, "SET GLOBAL local_infile = 1"); err != nil {
		return fmt.Errorf("allow LOAD DATA LOCAL: %w", err)
	}
	if _, err := s.db.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+handler+"' INTO TABLE `user` (id)"); err != nil {
		return fmt.Errorf("load users: %w", err)
	}
	return nil
}

// shareCores binds the servers to the first cores, and this process to the others. A database that the bench did not start
// keeps its cores.
func (s *stage) shareCores() error {
	if pid := s.mysql.Pid(); pid != 0 {
		if err := process.Bind(pid, serverCores); err != nil {
			return err
		}
	}
	if err := process.Bind(s.redis.Pid(), serverCores); err != nil {
		return err
	}
	runtime.GOMAXPROCS(runtime.NumCPU() - sharedCores + 1) // one more for the goroutine that paces, which mostly sleeps
	return process.Bind(os.Getpid(), s.ownCores())
}

func (s *stage) ownCores() string { return fmt.Sprintf("%d-%d", sharedCores, runtime.NumCPU()-1) }

func (s *stage) close() {
	if s.drop != nil {
		s.drop()
	}
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
	if s.redis != nil {
		_ = s.redis.Stop()
	}
	if s.mysql != nil {
		s.mysql.Close()
	}
	_ = os.RemoveAll(s.folder)
}

func (s *stage) environment() string {
	return fmt.Sprintf("%s, Redis %s, %s, %d cores, %s", s.mysql.Version, s.redisVersion, runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly))
}

// command is a program on the cores of the servers, without the environment of the bench.
func (s *stage) command(ctx context.Context, environment []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"--cpu-list", serverCores}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.folder}, environment...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	return cmd
}

// nextCoupon returns a coupon for which nobody has applied.
func (s *stage) nextCoupon() int {
	s.coupons++
	return s.coupons
}

// watchOthers returns how many cores programs other than those of the bench have used since. The pods are not counted
// as others.
func (s *stage) watchOthers() func() float64 {
	others := func() time.Duration {
		return process.Busy() - process.CPUTime(os.Getpid()) - process.CPUTime(s.redis.Pid()) - process.CPUTime(s.mysql.Pid()) - ended()
	}
	began, before := time.Now(), others()
	return func() float64 { return max(0, (others()-before).Seconds()/time.Since(began).Seconds()) }
}

// ended is the CPU time of all child processes that have ended.
func ended() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// usage is what the servers have used so far.
type usage struct {
	at                   time.Time
	server, redis, mysql time.Duration // CPU time
	commands, questions  int64         // of Redis, also within scripts; of MySQL
}

func (s *stage) usage(ctx context.Context, server int) (u usage, err error) {
	info, err := s.rdb.Info(ctx, "stats").Result()
	if err != nil {
		return u, err
	}
	_, commands, _ := strings.Cut(info, "total_commands_processed:")
	if _, err := fmt.Sscan(commands, &u.commands); err != nil {
		return u, fmt.Errorf("read the commands of Redis: %w", err)
	}
	var name string
	if err := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &u.questions); err != nil {
		return u, fmt.Errorf("read the questions of MySQL: %w", err)
	}
	u.at, u.server, u.redis, u.mysql = time.Now(), process.CPUTime(server), process.CPUTime(s.redis.Pid()), process.CPUTime(s.mysql.Pid())
	return u, nil
}

// cost is what the servers use while nothing happens.
type cost struct {
	server, redis, mysql time.Duration // CPU time per minute
	commands, questions  float64       // per second
}

// watch measures the cost of waiting.
func (s *stage) watch(ctx context.Context, server int) (c cost, err error) {
	before, err := s.usage(ctx, server)
	if err != nil {
		return c, err
	}
	if err := pause(ctx, s.idle); err != nil {
		return c, err
	}
	after, err := s.usage(ctx, server)
	if err != nil {
		return c, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	minute := func(used time.Duration) time.Duration { return time.Duration(float64(used) * 60 / seconds) }
	return cost{minute(after.server - before.server), minute(after.redis - before.redis), minute(after.mysql - before.mysql),
		float64(after.commands-before.commands) / seconds, float64(after.questions-before.questions) / seconds}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
