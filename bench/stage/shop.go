package stage

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Shop is a deployment of its own: a database, a Redis, and clients as the programs of the product have them.
type Shop struct {
	*Stage
	Redis   *Redis
	RDB     *redis.Client
	DB      *sql.DB // for preparations and questions
	DSN     string
	Servers *connect.Servers
	Store   *candidates.Store

	Last int64 // no arrival of a filled line is above it

	opens, closes time.Time // of every coupon
	ends
}

// Never is more seats than any measurement issues.
const Never = 100_000_000

// OpenShop has open coupons numbered from 1, each with so many seats.
func (s *Stage) OpenShop(ctx context.Context, coupons, seats int) (p *Shop, err error) {
	p = &Shop{Stage: s}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.Redis, err = s.StartRedis(ctx); err != nil {
		return p, err
	}
	p.RDB = p.Redis.RDB
	p.AtEnd(p.Redis.Close)
	db, dsn, drop, err := s.fresh(ctx)
	if err != nil {
		return p, err
	}
	p.DB, p.DSN = db, dsn
	p.AtEnd(drop)
	p.Servers, err = connect.Open(&connect.MySQLSettings{MySQLDSN: dsn}, connect.Settling,
		&connect.RedisSettings{RedisAddrs: []string{p.Redis.Addr()}}, zap.NewNop())
	if err != nil {
		return p, err
	}
	p.AtEnd(p.Servers.Close)
	if p.Store, err = candidates.NewStore(p.Servers.Redis, candidates.Options{}); err != nil {
		return p, err
	}
	now, day := time.Now().UTC().Truncate(time.Second), 24*time.Hour
	p.opens, p.closes = now.Add(-2*day), now.Add(day)
	err = LoadData(ctx, db, "coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)",
		func(w io.Writer) error {
			from, to := p.opens.Format(time.DateTime), p.closes.Format(time.DateTime)
			for id := range coupons {
				fmt.Fprintf(w, "%d\tbench\t%d\t%s\t%s\n", id+1, seats, from, to)
			}
			return nil
		})
	for id := 1; id <= coupons && err == nil; id++ {
		err = p.Publish(ctx, id)
	}
	return p, err
}

// AddUsers makes users known to the shop.
func (p *Shop) AddUsers(ctx context.Context, first, n int) error {
	return LoadData(ctx, p.DB, "`user` (id)", func(w io.Writer) error {
		for user := first; user < first+n; user++ {
			fmt.Fprintln(w, user)
		}
		return nil
	})
}

// Shuffled has the users from first on by position, in a random order that is the same each time.
func Shuffled(first, n int) []int {
	users := rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
	for i := range users {
		users[i] += first
	}
	return users
}

// QueueKey is where the product keeps the line of a coupon.
func QueueKey(id int) string { return fmt.Sprintf("candidates:coupon:%d", id) }

// StateKey is where the product keeps the state of a coupon.
func StateKey(id int) string { return "state:{" + QueueKey(id) + "}" }

// Publish writes the window of a coupon as catalog refreshes do, before its opening and after it: no restore is due.
func (p *Shop) Publish(ctx context.Context, id int) error {
	w := coupon.Window{Coupon: coupon.CouponID(id), Version: 1, Opens: p.closes.Add(-time.Minute), Closes: p.closes}
	if _, _, err := p.Store.Publish(ctx, w, 0); err != nil {
		return err
	}
	w.Opens = p.opens
	_, _, err := p.Store.Publish(ctx, w, 0)
	return err
}

// Fill lets n users apply for a coupon, the first one some time ago and then one each µs. This Redis has served it
// since.
func (p *Shop) Fill(ctx context.Context, id, first, n int, ago time.Duration) error {
	start := time.Now().Add(-ago).UnixMicro()
	users := Shuffled(first, n)
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		members := make([]redis.Z, min(chunk, n-from))
		for i := range members {
			members[i] = redis.Z{Score: float64(start + int64(from+i)), Member: users[from+i]}
		}
		if err := p.RDB.ZAdd(ctx, QueueKey(id), members...).Err(); err != nil {
			return fmt.Errorf("fill the line: %w", err)
		}
	}
	last := start + int64(n)
	p.Last = max(p.Last, last)
	err := p.RDB.HSet(ctx, StateKey(id), "accepted", n, "last", last, "since", start, "restored", start).Err()
	if err != nil {
		err = fmt.Errorf("fill the line: %w", err)
	}
	return err
}

// Exec executes one statement.
func (p *Shop) Exec(ctx context.Context, statement string, args ...any) error {
	if _, err := p.DB.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("%.40s…: %w", statement, err)
	}
	return nil
}

// Number returns the only number of a query.
func (p *Shop) Number(ctx context.Context, query string, args ...any) (n int, err error) {
	err = p.DB.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// Command is a program of the product, or another build of it, with the addresses of the shop.
func (p *Shop) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	args = append([]string{program}, args...)
	return p.Stage.Command(ctx, append(args, "--mysql-dsn="+p.DSN, "--redis-addrs="+p.Redis.Addr())...)
}

// Settle is a command of settle.
func (p *Shop) Settle(ctx context.Context, args ...string) (*exec.Cmd, error) {
	program, err := p.Build(ctx, "./cmd/settle")
	return p.Command(ctx, program, args...), err
}

// ByHand are the arguments of a settlement by hand.
var ByHand = []string{"run", "--cutoff=now", "--operator=bench", "--reason=bench", "--output=json"}

// Verify runs `settle verify`, which knows every invariant.
func (p *Shop) Verify(ctx context.Context) error {
	cmd, err := p.Settle(ctx, "verify")
	if err == nil {
		_, err = Output(cmd)
	}
	return err
}

// Serve starts `settle serve` with one task.
func (p *Shop) Serve(ctx context.Context, task string, args ...string) (pid int, stop func(), err error) {
	cmd, err := p.Settle(ctx, append([]string{"serve", "--tasks=" + task, "--log-level=error"}, args...)...)
	if err == nil {
		cmd.Stderr = os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		return 0, func() {}, err
	}
	return cmd.Process.Pid, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}

// Worker is a role of this program with the addresses of the shop.
func (p *Shop) Worker(ctx context.Context, role string, place int) (*exec.Cmd, error) {
	cmd, _, err := p.Role(ctx, role, Wiring{p.Redis.Addr(), p.DSN, place})
	return cmd, err
}

// StartServer starts a role that is a server.
func (p *Shop) StartServer(ctx context.Context, role string) (*testenv.Program, error) {
	cmd, err := p.Worker(ctx, role, 0)
	if err != nil {
		return nil, err
	}
	return testenv.StartProgram(ctx, cmd)
}

// Used is what servers used while something was done.
type Used struct {
	Took          time.Duration
	Redis, MySQL  time.Duration // CPU time; 0: a server that the bench did not start
	Own           time.Duration // CPU time of the processes that were asked for
	RedisCommands float64       // those of scripts included
	Questions     float64       // of MySQL
}

// In is the part of an amount that falls into a time.
func (u Used) In(d time.Duration, amount float64) float64 {
	return amount * d.Seconds() / u.Took.Seconds()
}

// CPUIn is the part of a CPU time that falls into a time.
func (u Used) CPUIn(d, cpu time.Duration) time.Duration { return time.Duration(u.In(d, float64(cpu))) }

// Use measures what the servers and some processes use while do works.
func (p *Shop) Use(ctx context.Context, pids []int, do func() error) (u Used, err error) {
	before, err := p.usedSoFar(ctx, pids)
	began := time.Now()
	if err == nil {
		err = do()
	}
	if err != nil {
		return u, err
	}
	took := time.Since(began)
	after, err := p.usedSoFar(ctx, pids)
	const own = 1 // INFO and SHOW count themselves
	return Used{took, after.Redis - before.Redis, after.MySQL - before.MySQL, after.Own - before.Own,
		after.RedisCommands - before.RedisCommands - own, after.Questions - before.Questions - own}, err
}

func (p *Shop) usedSoFar(ctx context.Context, pids []int) (u Used, err error) {
	info, err := p.RDB.InfoMap(ctx, "stats").Result()
	if err == nil {
		_, err = fmt.Sscan(info["Stats"]["total_commands_processed"], &u.RedisCommands)
	}
	if err == nil {
		var name string
		err = p.DB.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &u.Questions)
	}
	u.Redis, u.MySQL = CPU(p.Redis.Pid()), CPU(p.MySQLPid())
	for _, pid := range pids {
		u.Own += CPU(pid)
	}
	return u, err
}

// StartPod starts apply-api, or another build of it.
func (p *Shop) StartPod(ctx context.Context, other string, args ...string) (*testenv.Program, error) {
	program := other
	if program == "" {
		var err error
		if program, err = p.Build(ctx, "./cmd/apply-api"); err != nil {
			return nil, err
		}
	}
	return testenv.StartProgram(ctx, p.Command(ctx, program, append([]string{"--apply-listen=127.0.0.1:0",
		"--admin-listen=127.0.0.1:0", "--live-listen=127.0.0.1:0", "--shutdown-delay=0s"}, args...)...))
}
