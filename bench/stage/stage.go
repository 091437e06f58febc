// Package stage has what every subject needs: a database server, shops with a database and a Redis of their own, the
// programs of the product, and processes of this program.
package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv"
)

// Stage is open during all measurements of a subject.
type Stage struct {
	*Database
	Dir   string
	Cores string // of servers and programs of the product, such as 0-1; empty: all

	built map[string]string
	pids  []int // of servers
	ends
}

// ends are what Close calls, the last one first.
type ends []func()

// AtEnd adds what Close calls.
func (e *ends) AtEnd(end func()) { *e = append(*e, end) }

// Close may be called again.
func (e *ends) Close() {
	for _, end := range slices.Backward(*e) {
		end()
	}
	*e = nil
}

// Open starts a database server.
func Open(ctx context.Context) (s *Stage, err error) {
	s = &Stage{built: map[string]string{}}
	if s.Dir, err = os.MkdirTemp("", "jajeong-bench-"); err != nil {
		return nil, err
	}
	s.AtEnd(func() { _ = os.RemoveAll(s.Dir) })
	if s.Database, err = startDatabase(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.AtEnd(s.Database.close)
	s.pids = append(s.pids, s.MySQLPid())
	return s, nil
}

// Facts names the servers and the machine.
func (s *Stage) Facts(ctx context.Context) (string, error) {
	redis, err := s.StartRedis(ctx)
	if err != nil {
		return "", err
	}
	defer redis.Close()
	info, err := redis.RDB.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("read the version of Redis: %w", err)
	}
	return fmt.Sprintf("%s, Redis %s, %s, %d cores, %s.", s.Version, info["Server"]["redis_version"], runtime.Version(),
		runtime.NumCPU(), time.Now().Format(time.DateOnly)), nil
}

// Redis is a Redis of its own with a client.
type Redis struct {
	*testenv.Redis
	RDB *redis.Client
}

// StartRedis starts a Redis that keeps every acknowledged write.
func (s *Stage) StartRedis(ctx context.Context) (*Redis, error) {
	server, err := testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true})
	if err != nil {
		return nil, err
	}
	if s.Cores != "" {
		if err := bind(server.Pid(), s.Cores); err != nil {
			return nil, err
		}
	}
	s.pids = append(s.pids, server.Pid())
	options := redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	return &Redis{server, redis.NewClient(&options)}, nil
}

func (r *Redis) Close() {
	_ = r.RDB.Close()
	_ = r.Stop()
}

// Build builds a program of the product, such as ./cmd/settle, once.
func (s *Stage) Build(ctx context.Context, pkg string) (program string, err error) {
	if s.built[pkg] != "" {
		return s.built[pkg], nil
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/jajeong/jajeong").Output()
	if err != nil {
		return "", fmt.Errorf("find the product's module: %w", err)
	}
	program = filepath.Join(s.Dir, filepath.Base(pkg))
	build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-trimpath", "-o", program,
		pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	s.built[pkg] = program
	return program, nil
}

// endWithin is how long a program may take to end.
const endWithin = 20 * time.Second

// Command is a program on the cores of the servers, without the environment of the bench.
func (s *Stage) Command(ctx context.Context, args ...string) *exec.Cmd {
	if s.Cores != "" {
		args = append([]string{"taskset", "--cpu-list", s.Cores}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	return cmd
}

// WorkVerb is the verb by which this program is one of its roles, such as a contender's server.
const WorkVerb = "work"

// Role is a role of this program, a process of its own. It reads spec as JSON from its stdin, which stays open until
// it is to end, or until the bench ends.
func (s *Stage) Role(ctx context.Context, role string, spec any) (*exec.Cmd, io.WriteCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, err
	}
	cmd := s.Command(ctx, self, WorkVerb, role)
	in, err := cmd.StdinPipe()
	if err == nil {
		_, err = in.Write(append(line, '\n')) // a decoder sees only then where a string ends
	}
	return cmd, in, err
}

// Roles are what this program can be beside the bench, by name. A role ends with its stdin.
type Roles map[string]Work

// Work is what a role does.
type Work func(ctx context.Context, in *json.Decoder, stdout, stderr io.Writer) error

// Wiring has the addresses that a worker or server reads from stdin.
type Wiring struct {
	Redis, DSN string
	Place      int // of a worker among its equals
}

// Worker is a role that runs until its stdin ends.
func Worker(run func(ctx context.Context, w Wiring) error) Work {
	return func(ctx context.Context, in *json.Decoder, _, _ io.Writer) error {
		var w Wiring
		if err := in.Decode(&w); err != nil {
			return fmt.Errorf("read wiring: %w", err)
		}
		ctx, stop := context.WithCancel(ctx)
		go func() {
			defer stop()
			var nothing any
			for in.Decode(&nothing) == nil {
			}
		}()
		return run(ctx, w)
	}
}

// Server is a role that answers HTTP. It announces its address as the programs of the product do.
func Server(open func(ctx context.Context, w Wiring) (http.Handler, error)) Work {
	return func(ctx context.Context, in *json.Decoder, stdout, stderr io.Writer) error {
		return Worker(func(ctx context.Context, w Wiring) error {
			handler, err := open(ctx, w)
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			told := map[string]string{"level": "info", "msg": "listening", "apply": listener.Addr().String()}
			if err := json.NewEncoder(stderr).Encode(told); err != nil {
				return err
			}
			go func() { _ = http.Serve(listener, handler) }()
			<-ctx.Done()
			return nil
		})(ctx, in, stdout, stderr)
	}
}

// Apart gives the servers the first cores and this process the others, so that the scheduler is not measured. A
// database that the bench did not start keeps its cores. On few cores, all share them.
func (s *Stage) Apart(servers int) (told string, err error) {
	if runtime.NumCPU() <= servers || servers == 0 {
		return "Servers and clients share all cores.", nil
	}
	s.Cores = fmt.Sprintf("0-%d", servers-1)
	own := fmt.Sprintf("%d-%d", servers, runtime.NumCPU()-1)
	for _, pid := range s.pids {
		if pid != 0 {
			if err := bind(pid, s.Cores); err != nil {
				return "", err
			}
		}
	}
	runtime.GOMAXPROCS(runtime.NumCPU() - servers + 1) // one more for the goroutine that paces, which mostly sleeps
	return fmt.Sprintf("The servers have cores %s, the clients %s.", s.Cores, own), bind(os.Getpid(), own)
}

// WatchOthers returns how many cores programs other than those of the bench have used since.
func (s *Stage) WatchOthers() func() float64 {
	used := map[int]time.Duration{} // by servers that may have ended
	others := func() time.Duration {
		busy := busy() - CPU(os.Getpid()) - ofEnded()
		for _, pid := range s.pids {
			used[pid] = max(used[pid], CPU(pid))
			busy -= used[pid]
		}
		return busy
	}
	began, before := time.Now(), others()
	return func() float64 { return max(0, (others()-before).Seconds()/time.Since(began).Seconds()) }
}

// Output runs a command and returns what it prints. The error has its log.
func Output(cmd *exec.Cmd) ([]byte, error) {
	out, _, err := OutputAndPeak(cmd)
	return out, err
}

// OutputAndPeak also returns the peak resident memory in bytes.
func OutputAndPeak(cmd *exec.Cmd) (out []byte, peak int64, err error) {
	var printed, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &log
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	watched := watchPeak(cmd.Process.Pid)
	if err = cmd.Wait(); err != nil {
		const most = 2000
		err = fmt.Errorf("%s: %w: %s%.*s", strings.Join(cmd.Args, " "), err, log.String(), most, printed.String())
	}
	return printed.Bytes(), <-watched, err
}

// Wait returns after a while, or with an error at the end of the context.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until asks at short intervals until something is so.
func Until(ctx context.Context, what string, within time.Duration, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		if yes, err := is(); err != nil || yes {
			return err
		}
		if err := Wait(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s: not after %s: %w", what, within, err)
		}
	}
}

// Say tells the progress.
func Say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
