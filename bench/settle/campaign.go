package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/process"
)

// campaign describes the input of a run. Each coupon has the same numbers of seats and candidates.
type campaign struct {
	coupons, seats, candidates int
	nightly                    bool // the run is a nightly one, instead of a run by hand
}

func (c campaign) String() string {
	kind := "run by hand"
	if c.nightly {
		kind = "nightly run"
	}
	return fmt.Sprintf("%s, coupons of %d seats: %d", kind, c.seats, c.coupons)
}

// waited is how long ago the first application arrived: for a nightly run, before the last midnight.
func (c campaign) waited() time.Duration {
	if c.nightly {
		return 25 * time.Hour
	}
	return time.Hour
}

// args are what the run says beside its servers.
func (c campaign) args() []string {
	if c.nightly {
		return nil
	}
	return []string{"--cutoff=now", "--operator=bench", "--reason=bench"}
}

func (c campaign) issued() int { return c.coupons * min(c.seats, c.candidates) }

// settled has the resources of a run.
type settled struct {
	took   time.Duration // the whole process
	issued time.Duration // until the commit of the coupons
	peak   int64         // bytes of resident memory
	cpu    cpu
}

// cpu is the processor time that a run costs. That of a database that the bench did not start is unknown.
type cpu struct{ job, redis, database time.Duration }

func (c cpu) String() string {
	return fmt.Sprintf("job %s, database %s, Redis %s", c.job.Round(time.Millisecond), c.database, c.redis)
}

// servers returns the processor time of the servers so far.
func (s *stage) servers() (used cpu) {
	used.redis = process.CPUTime(s.redis.Pid())
	if pid := s.Pid(); pid != 0 {
		used.database = process.CPUTime(pid)
	}
	return used
}

// settle measures a run. If beside is not nil, it runs at the same time.
func (s *stage) settle(ctx context.Context, c campaign, beside func(ctx context.Context, db *sql.DB, prefix string) error) (r settled, err error) {
	return s.settleWith(ctx, c, around{beside: beside})
}

// around is what happens around a run, in its database and in Redis below the prefix "<name>:". Fields may be nil.
type around struct {
	bin     string                                                                     // another build of settle
	prepare func(ctx context.Context, db *sql.DB, name string) (end func(), err error) // end is called when the run has ended
	beside  func(ctx context.Context, db *sql.DB, prefix string) error
	after   func(ctx context.Context, db *sql.DB, name string) error
	alone   bool // the bench does not poll the database, which costs the run a little; issued is then unknown
}

func (s *stage) settleWith(ctx context.Context, c campaign, a around) (r settled, err error) {
	beside := a.beside
	db, name, drop, err := s.Fresh(ctx, c.coupons, c.seats)
	if err != nil {
		return r, err
	}
	defer drop()
	err = load(ctx, db, "`user` (id)", func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		for user := 1; user <= c.candidates; user++ {
			fmt.Fprintln(out, user)
		}
		return out.Flush()
	})
	if err != nil {
		return r, fmt.Errorf("load users: %w", err)
	}
	prefix := name + ":"
	defer s.clear(prefix)
	start := time.Now().Add(-c.waited()).UnixMicro()
	for coupon := 1; coupon <= c.coupons; coupon++ {
		if err := s.fillQueue(ctx, prefix, coupon, start, c.candidates); err != nil {
			return r, err
		}
	}
	_, err = db.ExecContext(ctx, "INSERT INTO promise (coupon_id, accepted, last_arrival, counted_since, seen_at) SELECT id, ?, ?, ?, UTC_TIMESTAMP(6) FROM coupon",
		c.candidates, start+int64(c.candidates), start) // like a catalog refresh
	if err != nil {
		return r, fmt.Errorf("write promises: %w", err)
	}

	endPrepared := func() {}
	if a.prepare != nil {
		end, err := a.prepare(ctx, db, name)
		endPrepared = sync.OnceFunc(end)
		defer endPrepared()
		if err != nil {
			return r, fmt.Errorf("prepare the run: %w", err)
		}
	}
	job := s.jobCommand(append([]string{cmp.Or(a.bin, s.bin), "run", "--output=json", "--mysql-dsn=" + s.DSN(name), "--redis-addrs=" + s.redis.Addr(),
		"--redis-key-prefix=" + prefix}, c.args()...)...)
	cmd := exec.CommandContext(ctx, job[0], job[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	besideCtx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	before := s.servers()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("settle run: %w", err)
	}
	peak := watchMemory(cmd.Process.Pid)
	issued := make(chan time.Duration, 1)
	if !a.alone {
		go watchIssued(besideCtx, db, c, began, issued)
	}
	go func() {
		if beside == nil {
			ended <- nil
			return
		}
		ended <- beside(besideCtx, db, prefix)
	}()
	err = cmd.Wait()
	r.took = time.Since(began)
	after := s.servers()
	r.cpu = cpu{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), after.redis - before.redis, after.database - before.database}
	endPrepared()
	end()
	if err != nil {
		return r, fmt.Errorf("settle run: %w: %s", err, out.String())
	}
	r.peak = <-peak
	if !a.alone {
		r.issued = min(r.took, <-issued)
	}
	var report struct {
		Total struct{ Issued, Rejected, UnderReview int }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return r, fmt.Errorf("settle run: %w", err)
	}
	blocked := report.Total.Rejected + report.Total.UnderReview // users that beside has blocked
	if beside == nil && blocked > 0 || report.Total.Issued+blocked != c.issued() {
		return r, fmt.Errorf("settle run issued %d of %d and did not issue %d", report.Total.Issued, c.issued(), blocked)
	}
	if err := <-ended; err != nil || a.after == nil {
		return r, err
	}
	return r, a.after(ctx, db, name)
}

// watchIssued sends the time until the last coupon is issued, with a precision of some milliseconds.
func watchIssued(ctx context.Context, db *sql.DB, c campaign, began time.Time, after chan<- time.Duration) {
	var counted int
	for ctx.Err() == nil && counted < min(c.seats, c.candidates) {
		time.Sleep(5 * time.Millisecond)
		_ = db.QueryRowContext(ctx, "SELECT issued_count FROM coupon WHERE id = ?", c.coupons).Scan(&counted)
	}
	after <- time.Since(began)
}

// watchMemory returns the peak resident memory of a process in bytes, at its end.
func watchMemory(pid int) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		var last int64
		for {
			bytes, known := process.PeakMemory(pid)
			if !known {
				peak <- last
				return
			}
			last = bytes
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return peak
}

// queue returns the users from 1 to n by position, in a random order that is the same each time.
func queue(n int) []uint32 {
	users := make([]uint32, n)
	for i := range users {
		users[i] = uint32(i + 1)
	}
	rand.New(rand.NewPCG(1, uint64(n))).Shuffle(n, func(i, j int) { users[i], users[j] = users[j], users[i] })
	return users
}

// first is the arrival of position 0 in µs. Each further position arrives a µs later.
func first() int64 { return time.Now().Add(-time.Hour).UnixMicro() }

// fillQueue writes the queue as the apply script does.
func (s *stage) fillQueue(ctx context.Context, prefix string, coupon int, start int64, n int) error {
	key := fmt.Sprintf("%scandidates:coupon:%d", prefix, coupon)
	users := queue(n)
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		members := make([]redis.Z, min(chunk, n-from))
		for i := range members {
			members[i] = redis.Z{Score: float64(start + int64(from+i)), Member: users[from+i]}
		}
		if err := s.rdb.ZAdd(ctx, key, members...).Err(); err != nil {
			return fmt.Errorf("fill queue: %w", err)
		}
	}
	state := "state:{" + key + "}"
	server, err := s.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("fill queue: %w", err)
	}
	// The run id of this server, so that the settlement does not wait as after a failover.
	return s.rdb.HSet(ctx, state, "accepted", n, "last", start+int64(n), "run_id", server["Server"]["run_id"], "since", start, "base", 0, "base_twice", 0).Err()
}

func (s *stage) clear(prefix string) {
	ctx := context.Background()
	for keys := s.rdb.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator(); keys.Next(ctx); {
		_ = s.rdb.Unlink(ctx, keys.Val())
	}
}
