package main

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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
	migrations "github.com/jajeong/jajeong/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(withServers{m}) }

type withServers struct{ *testing.M }

func (w withServers) Run() int {
	code := w.M.Run()
	if err := testenv.StopShared(); err != nil {
		fmt.Println(err)
		code = max(code, 1)
	}
	return code
}

// program is the binary as it is shipped, started with an environment of its own.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr *buffer
	ended          chan int
	apply, admin   string // addresses, once it listens
	client         *http.Client
}

// buffer may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func start(t *testing.T, environment []string, args ...string) *program {
	t.Helper()
	return startCommand(t, exec.Command(testenv.Build(t, "./cmd/apply-api"), args...), environment)
}

func startCommand(t *testing.T, cmd *exec.Cmd, environment []string) *program {
	t.Helper()
	p := &program{
		t: t, stdout: new(buffer), stderr: new(buffer), ended: make(chan int, 1),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second},
	}
	p.cmd = cmd
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	require.NoError(t, p.cmd.Start())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = p.cmd.Wait()
		p.ended <- p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-gone
		if t.Failed() {
			t.Log(p.stderr.String())
		}
	})
	return p
}

// startWaiting starts it on free ports and waits until the admin port is open.
func startWaiting(t *testing.T, environment ...string) *program {
	t.Helper()
	p := start(t, anywhere(environment))
	p.awaitAdmin()
	return p
}

// startServing starts it on free ports and waits until it listens.
func startServing(t *testing.T, environment ...string) *program {
	t.Helper()
	p := start(t, anywhere(environment))
	p.awaitListening()
	return p
}

// anywhere adds free ports.
func anywhere(environment []string) []string {
	return append([]string{"APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0", "SHUTDOWN_DELAY=0s"}, environment...)
}

func (p *program) awaitAdmin() {
	p.t.Helper()
	p.await("admin port open; the public port opens when this process is ready")
}

func (p *program) awaitListening() {
	p.t.Helper()
	p.await("listening")
}

// await waits for a line of the log that tells addresses.
func (p *program) await(msg string) {
	p.t.Helper()
	testenv.Eventually(p.t, 20*time.Second, "apply-api says: "+msg, func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			var event struct{ Msg, Apply, Admin string }
			if json.Unmarshal([]byte(line), &event) == nil && event.Msg == msg {
				p.apply, p.admin = "http://"+event.Apply, "http://"+event.Admin
				return true
			}
		}
		return false
	})
}

func (p *program) exit(within time.Duration) int {
	p.t.Helper()
	select {
	case code := <-p.ended:
		return code
	case <-time.After(within):
		p.t.Fatalf("still running after %s", within)
		return 0
	}
}

func (p *program) ready() int {
	response, err := p.client.Get(p.admin + "/readyz")
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func (p *program) ask(coupon, user int) (int, string) {
	p.t.Helper()
	request, err := http.NewRequest(http.MethodPost, fmt.Sprintf("%s/v1/coupons/%d/applications", p.apply, coupon), nil)
	require.NoError(p.t, err)
	request.Header.Set("X-User-ID", fmt.Sprint(user))
	client := &http.Client{Transport: openapi.Transport(p.t, p.client.Transport), Timeout: p.client.Timeout}
	response, err := client.Do(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

// migrated fills a database with the schema and coupon 1, and returns the DSN of the program's account there.
func migrated(t *testing.T, dsn string) string {
	t.Helper()
	settings := connect.MySQLSettings{MySQLDSN: dsn}
	db, err := settings.Open(zap.NewNop())
	require.NoError(t, err)
	defer db.Close()
	_, err = connect.Migrate(t.Context(), db)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
VALUES (1, 'c', 10, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`)
	require.NoError(t, err)
	return testenv.Accounts(t, dsn, migrations.Grants)["jajeong_api"]
}

func TestWrongSettingsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, []string{
		"APPLY_LISTN=:1", "APPLY_LISTEN=http", "CANDIDATE_TTL=1h", "REDIS_ADDRS=nowhere", "REDIS_KEY_PREFIX={x}",
		"REDIS_TLS=maybe", "LOG_LEVEL=loud", "SETTLE_TIME_ZONE=Mars", "SETTLE_SCHEDULE=0 0 * * *",
	}, "--bogus", "--shutdown-grace=0s", "--apply-admin-listen=:99999")
	require.Equal(t, 2, p.exit(20*time.Second))
	require.Empty(t, p.stdout.String())
	require.ElementsMatch(t, []string{
		"apply-api: unknown flag --bogus: see --help",
		`apply-api: REDIS_TLS (--redis-tls) is "maybe": want true or false`,
		`apply-api: LOG_LEVEL (--log-level) is "loud": want one of debug, info, warn, error`,
		"apply-api: APPLY_LISTN is not a setting; known are APPLY_ADMIN_LISTEN, APPLY_LISTEN",
		`apply-api: APPLY_LISTEN is "http": want host:port or :port, the port a number up to 65535`,
		`apply-api: APPLY_ADMIN_LISTEN is ":99999": want host:port or :port, the port a number up to 65535`,
		`apply-api: SETTLE_TIME_ZONE is "Mars": want a zone of the IANA database such as Asia/Seoul`,
		"apply-api: SHUTDOWN_GRACE is 0s: want a duration above zero such as 25s",
		`apply-api: REDIS_KEY_PREFIX="{x}" must not contain braces: they decide the Cluster slot`,
		"apply-api: CANDIDATE_TTL is 1h0m0s: want at least 54h0m0s, so that a queue outlives its settlement",
		"apply-api: MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database",
		`apply-api: REDIS_ADDRS: "nowhere" is not host:port`,
	}, strings.Split(strings.TrimSpace(p.stderr.String()), "\n"))
}

func TestWrongLimitsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "USER_RATE=-1", "MAX_IN_FLIGHT=0", "MAX_CONNECTIONS=2000000", "SHUTDOWN_DELAY=25s"})
	require.Equal(t, 2, p.exit(20*time.Second))
	require.ElementsMatch(t, []string{
		"apply-api: USER_RATE is -1: want 0.001 to 1000000 requests a second, or 0 for any number",
		"apply-api: MAX_IN_FLIGHT is 0: want 1 to 1000000",
		"apply-api: MAX_CONNECTIONS is 2000000: want 1 to 1000000",
		"apply-api: SHUTDOWN_DELAY is 25s: want at least 0s and less than SHUTDOWN_GRACE, 25s, such as 5s",
	}, strings.Split(strings.TrimSpace(p.stderr.String()), "\n"))
	p = start(t, []string{"MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "USER_RATE=NaN"})
	require.Equal(t, 2, p.exit(20*time.Second))
	require.Contains(t, p.stderr.String(), "USER_RATE is NaN")
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 0, run(context.Background(), []string{"--help"}, &stdout, &stderr))
	for _, name := range []string{"APPLY_LISTEN", "APPLY_ADMIN_LISTEN", "SETTLE_TIME_ZONE", "SHUTDOWN_GRACE", "SHUTDOWN_DELAY", "USER_RATE", "MAX_IN_FLIGHT", "MAX_CONNECTIONS", "MYSQL_DSN", "REDIS_ADDRS"} {
		require.Contains(t, stdout.String(), "$"+name)
	}
	stdout.Reset()
	require.Equal(t, 0, run(context.Background(), []string{"--version"}, &stdout, &stderr))
	require.Equal(t, "dev\n", stdout.String())
	require.Empty(t, stderr.String())
}

func TestAPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, name := range []string{"APPLY_LISTEN", "APPLY_ADMIN_LISTEN"} {
		p := start(t, []string{
			"MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0", name + "=" + taken.Addr().String(),
		})
		require.Equal(t, 1, p.exit(20*time.Second))
		require.Contains(t, p.stderr.String(), taken.Addr().String())
		require.Contains(t, p.stderr.String(), name)
	}
}

func TestApplyingAndEnding(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	p := startServing(t, "MYSQL_DSN="+migrated(t, testenv.MySQLFor(t).DSN), "REDIS_ADDRS="+strings.Join(redis.Addrs, ","),
		"REDIS_KEY_PREFIX="+redis.Prefix)
	testenv.Eventually(t, 20*time.Second, "it is ready", func() bool { return p.ready() == http.StatusOK })
	status, text := p.ask(1, 7)
	require.Equal(t, http.StatusAccepted, status, text)
	require.Contains(t, text, `T00:00:00.000000+09:00"}`)
	status, _ = p.ask(1, 7)
	require.Equal(t, http.StatusOK, status)
	status, text = p.ask(2, 7)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, text, "COUPON_NOT_FOUND")

	// One request is in the middle of its body when the end comes: it is still answered.
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: 8\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	require.NoError(t, err)
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	require.NoError(t, err)
	require.Contains(t, string(answer[:n]), "100 Continue")

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	testenv.Eventually(t, 10*time.Second, "it is not ready", func() bool { return p.ready() == http.StatusServiceUnavailable })
	testenv.Eventually(t, 10*time.Second, "it takes no more connections", func() bool {
		extra, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
		if err == nil {
			_ = extra.Close()
		}
		return err != nil
	})
	_, err = fmt.Fprint(conn, "{}")
	require.NoError(t, err)
	n, err = conn.Read(answer)
	require.NoError(t, err)
	require.Contains(t, string(answer[:n]), "HTTP/1.1 202 Accepted")
	require.Equal(t, 0, p.exit(20*time.Second))
	require.Empty(t, p.stdout.String())
}

// The public port opens when the process can serve, however long that takes, and from then on it stays open.
func TestThePublicPortOpensWhenTheProcessCanServe(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	require.NoError(t, redis.Kill())
	former := testenv.PrivateRedis(t, testenv.RedisOptions{}) // a port that no outgoing connection takes
	address := former.Addr()
	require.NoError(t, former.Kill())
	p := startWaiting(t, "MYSQL_DSN="+migrated(t, testenv.MySQLFor(t).DSN), "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0", "APPLY_LISTEN="+address)

	// A balancer that sends to whoever listens: nobody is refused.
	ended, heard := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(ended)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for user := 1; ; user++ {
			request, _ := http.NewRequest(http.MethodPost, "http://"+address+"/v1/coupons/1/applications", nil)
			request.Header.Set("X-User-ID", fmt.Sprint(user))
			if response, err := p.client.Do(request); err == nil {
				_ = response.Body.Close()
				heard <- response.StatusCode
				return
			}
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
		}
	}()
	testenv.Eventually(t, 20*time.Second, "the catalog has been read without Redis", func() bool {
		response, err := p.client.Get(p.admin + "/readyz")
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		return strings.Contains(string(text), `"catalog":{"ok":true}`)
	})
	response, err := p.client.Get(p.admin + "/livez")
	require.NoError(t, err)
	_ = response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NotContains(t, p.stderr.String(), `"listening"`)
	require.NoError(t, redis.Restart(t.Context()))
	require.Equal(t, http.StatusAccepted, <-heard)
	<-ended

	p.awaitListening()
	require.NoError(t, redis.Kill())
	status, _ := p.ask(1, 1000)
	require.Equal(t, http.StatusServiceUnavailable, status, "it stays open")
	testenv.Eventually(t, 20*time.Second, "it is not ready", func() bool { return p.ready() == http.StatusServiceUnavailable })
	require.NoError(t, redis.Restart(t.Context()))
	testenv.Eventually(t, 30*time.Second, "it accepts", func() bool {
		status, _ := p.ask(1, 7)
		return status == http.StatusAccepted
	})
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, p.exit(20*time.Second))
}

func TestWithoutMySQLItWaits(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	p := startWaiting(t, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "REDIS_KEY_PREFIX="+redis.Prefix)
	require.Equal(t, http.StatusServiceUnavailable, p.ready())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, p.exit(20*time.Second))
	require.NotContains(t, p.stderr.String(), `"listening"`)
}
