package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// line is who stands at which place: every user from 1 to n once, in no order, as people come, and the same each time.
func line(n int) []uint32 {
	users := make([]uint32, n)
	for i := range users {
		users[i] = uint32(i + 1)
	}
	rand.New(rand.NewPCG(1, uint64(n))).Shuffle(n, func(i, j int) { users[i], users[j] = users[j], users[i] })
	return users
}

// first is the arrival of place 0, in µs; each further place arrives a µs later.
func first() int64 { return time.Now().Add(-time.Hour).UnixMicro() }

// settleRun is the product: the whole process, from its start to its exit.
func settleRun(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	return s.settle(ctx, n, n)
}

// settle measures a run for a coupon with so many seats and candidates.
func (s *stage) settle(ctx context.Context, seats, candidates int) (time.Duration, int64, error) {
	db, name, drop, err := s.fresh(ctx, seats)
	if err != nil {
		return 0, 0, err
	}
	defer drop()
	err = load(ctx, db, "`user` (id)", func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		for user := 1; user <= candidates; user++ {
			fmt.Fprintln(out, user)
		}
		return out.Flush()
	})
	if err != nil {
		return 0, 0, fmt.Errorf("load users: %w", err)
	}
	prefix := name + ":"
	if err := s.lineUp(ctx, prefix, candidates); err != nil {
		return 0, 0, err
	}
	defer s.clear(prefix)

	cmd := exec.CommandContext(ctx, s.bin, "run", "--cutoff=now", "--operator=bench", "--reason=bench", "--output=json",
		"--mysql-dsn="+s.dsn(name), "--redis-addrs="+s.redis.Addr(), "--redis-key-prefix="+prefix)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("settle run: %w", err)
	}
	peak := watchMemory(cmd.Process.Pid)
	err = cmd.Wait()
	took := time.Since(began)
	if err != nil {
		return 0, 0, fmt.Errorf("settle run: %w: %s", err, out.String())
	}
	var report struct{ Total struct{ Issued int } }
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Total.Issued != min(seats, candidates) {
		return 0, 0, fmt.Errorf("settle run issued %d of %d: %w", report.Total.Issued, seats, err)
	}
	return took, <-peak, nil
}

// watchMemory tells the peak resident memory of a process, in bytes, once it has ended. The kernel keeps the peak; the
// ru_maxrss of a child would count this process's own memory, which it shares until it becomes another program.
func watchMemory(pid int) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		var last int64
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, after, found := strings.Cut(string(status), "VmHWM:")
			if err != nil || !found {
				peak <- last
				return
			}
			var kib int64
			if _, err := fmt.Sscan(after, &kib); err == nil {
				last = kib * 1024
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return peak
}

// lineUp writes the line as apply would have left it.
func (s *stage) lineUp(ctx context.Context, prefix string, n int) error {
	queue := fmt.Sprintf("%scandidates:coupon:%d", prefix, couponID)
	start, users := first(), line(n)
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		members := make([]redis.Z, min(chunk, n-from))
		for i := range members {
			members[i] = redis.Z{Score: float64(start + int64(from+i)), Member: users[from+i]}
		}
		if err := s.rdb.ZAdd(ctx, queue, members...).Err(); err != nil {
			return fmt.Errorf("line up: %w", err)
		}
	}
	state := "state:{" + queue + "}"
	return s.rdb.HSet(ctx, state, "accepted", n, "last", start+int64(n)).Err()
}

func (s *stage) clear(prefix string) {
	ctx := context.Background()
	keys := s.rdb.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		_ = s.rdb.Unlink(ctx, keys.Val())
	}
	for keys = s.rdb.Scan(ctx, 0, "*{"+prefix+"*", 1000).Iterator(); keys.Next(ctx); {
		_ = s.rdb.Unlink(ctx, keys.Val())
	}
}

const userCouponColumns = "coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id"

// inOneTransaction measures work on a fresh database.
func (s *stage) inOneTransaction(ctx context.Context, n int, work func(tx *sql.Tx) error) (time.Duration, int64, error) {
	db, _, drop, err := s.fresh(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	defer drop()
	if err := db.PingContext(ctx); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := work(tx); err != nil {
		return 0, 0, err
	}
	err = tx.Commit()
	took := time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	var stored int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM user_coupon").Scan(&stored); err != nil || stored != n {
		return 0, 0, fmt.Errorf("%d rows stored, want %d: %w", stored, n, err)
	}
	return took, 0, nil
}

const (
	issuedAt  = "2026-11-21 00:00:00.000000"
	expiresAt = "2026-12-21 00:00:00.000000"
)

// loadData is the yardstick: the issued rows alone, in arrival order, already laid out in memory.
func loadData(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	var file strings.Builder
	start := first()
	for place, user := range line(n) {
		appliedAt := time.UnixMicro(start + int64(place)).UTC().Format("2006-01-02 15:04:05.000000")
		fmt.Fprintf(&file, "%d\t%d\t%d\t%s\t%s\t%s\t1\n", couponID, user, place+1, appliedAt, issuedAt, expiresAt)
	}
	return s.inOneTransaction(ctx, n, func(tx *sql.Tx) error {
		return load(ctx, tx, "user_coupon ("+userCouponColumns+")", func(w io.Writer) error {
			_, err := io.Copy(w, strings.NewReader(file.String()))
			return err
		})
	})
}

// multiRow inserts 1,000 rows at once, as careful code does.
func multiRow(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	users := line(n)
	return s.inOneTransaction(ctx, n, func(tx *sql.Tx) error { return insert(ctx, tx, users, 1000) })
}

// singleRow inserts one row at a time, as most code does.
func singleRow(ctx context.Context, s *stage, n int) (time.Duration, int64, error) {
	users := line(n)
	return s.inOneTransaction(ctx, n, func(tx *sql.Tx) error { return insert(ctx, tx, users, 1) })
}

func insert(ctx context.Context, tx *sql.Tx, line []uint32, rows int) error {
	start, n := first(), len(line)
	for from := 0; from < n; from += rows {
		text := []byte("INSERT INTO user_coupon (" + userCouponColumns + ") VALUES ")
		for place := from; place < min(from+rows, n); place++ {
			if place > from {
				text = append(text, ',')
			}
			text = append(text, '(')
			text = strconv.AppendInt(text, couponID, 10)
			text = append(text, ',')
			text = strconv.AppendInt(text, int64(line[place]), 10)
			text = append(text, ',')
			text = strconv.AppendInt(text, int64(place+1), 10)
			text = append(text, ",'"...)
			text = time.UnixMicro(start+int64(place)).UTC().AppendFormat(text, "2006-01-02 15:04:05.000000")
			text = append(text, "','"+issuedAt+"','"+expiresAt+"',1)"...)
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return err
		}
	}
	return nil
}
