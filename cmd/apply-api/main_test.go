package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/badinput"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithServers{M: m}) }

// program is the shipped binary, started with an environment of its own.
type program struct {
	t                  *testing.T
	cmd                *exec.Cmd
	stdout, stderr     *testenv.Log
	ended              chan int
	apply, live, admin string // addresses, once it listens
	client             *http.Client
	ctx                context.Context // of requests
}

func start(t *testing.T, environment []string, args ...string) *program {
	t.Helper()
	return startCommand(t, exec.Command(testenv.Build(t, "./cmd/apply-api"), args...), environment)
}

func startCommand(t *testing.T, cmd *exec.Cmd, environment []string) *program {
	t.Helper()
	p := &program{
		t: t, stdout: new(testenv.Log), stderr: new(testenv.Log), ended: make(chan int, 1),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, ctx: testenv.Patient(t),
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

const adminOpen, listening = testenv.AdminOpen, testenv.Listening

// startAt starts the binary on free ports and waits for a line of its log.
func startAt(t *testing.T, msg string, environment ...string) *program {
	t.Helper()
	p := start(t, anywhere(environment))
	p.await(msg)
	return p
}

func anywhere(environment []string) []string {
	return append([]string{"APPLY_LISTEN=127.0.0.1:0", "ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0",
		"SHUTDOWN_DELAY=0s"}, environment...)
}

// await waits for a log line with addresses.
func (p *program) await(msg string) {
	p.t.Helper()
	at := p.stderr.Await(p.t, msg)
	p.apply, p.live, p.admin = at.Apply, at.Live, at.Admin
}

func (p *program) exit() int {
	p.t.Helper()
	return testenv.Receive(p.t, "apply-api ends", p.ended)
}

// get requests a page of the admin port. The status is 0 without a response.
func (p *program) get(path string) (status int, text string) {
	return testenv.Page(p.ctx, p.admin+path)
}

func (p *program) ready() int {
	status, _ := p.get("/readyz")
	return status
}

func (p *program) awaitReady(status int) {
	p.t.Helper()
	testenv.Eventually(p.t, fmt.Sprintf("readiness is %d", status), func() bool { return p.ready() == status })
}

// awaitNoConnections waits until the public port is closed.
func (p *program) awaitNoConnections() {
	p.t.Helper()
	testenv.Eventually(p.t, "the public port is closed", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func (p *program) ask(couponID, user int) (int, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.ctx, http.MethodPost,
		fmt.Sprintf("%s/v1/coupons/%d/applications", p.apply, couponID), nil)
	require.NoError(p.t, err)
	request.Header.Set("X-User-ID", fmt.Sprint(user))
	client := &http.Client{Transport: openapi.Transport(p.t, p.client.Transport)}
	response, err := client.Do(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

// mustApply applies until the pod answers, and requires a status: this machine may be slower than a timeout for Redis.
// Then the application may have been accepted before, and this one is a duplicate.
func (p *program) mustApply(want, couponID, user int) (text string) {
	p.t.Helper()
	status, asked := 0, 0
	testenv.Eventually(p.t, "the pod answers", func() bool {
		asked++
		status, text = p.ask(couponID, user)
		return status != http.StatusServiceUnavailable
	})
	if asked > 1 && want == http.StatusAccepted && status == http.StatusOK {
		return text
	}
	require.Equal(p.t, want, status, text)
	return text
}

// failures returns how many applications failed by a timeout for Redis, and the log of those that failed otherwise. On
// a slow machine, there are timeouts at any time.
func (p *program) failures() (timeouts int, others []string) {
	for line := range strings.Lines(p.stderr.String()) {
		switch {
		case !strings.Contains(line, `"apply failed"`):
		case strings.Contains(line, "timeout") || strings.Contains(line, context.DeadlineExceeded.Error()):
			timeouts++
		default:
			others = append(others, line)
		}
	}
	return timeouts, others
}

// withCoupon is a migrated database with coupon 1, and the DSN of the account of apply-api.
func withCoupon(t *testing.T) (database testenv.SchemaHandle, api string) {
	t.Helper()
	database = migrated.Database(t)
	_, err := database.DB.ExecContext(t.Context(), `INSERT INTO coupon (id, name, total_quantity, apply_opens_at,
		apply_closes_at)
VALUES (1, 'c', 10, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`)
	require.NoError(t, err)
	return database, database.Accounts["jajeong_api"]
}

// apiDSN is the DSN of withCoupon for apply-api.
func apiDSN(t *testing.T) string {
	t.Helper()
	_, api := withCoupon(t)
	return api
}

// addImmediate adds coupon 3, an immediate coupon for whose line one applicant is enough.
func addImmediate(t *testing.T, db *sql.DB) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), `INSERT INTO coupon (id, name, total_quantity, apply_opens_at,
		apply_closes_at, cadence, line_limit)
VALUES (3, 'i', 10, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 DAY, 'IMMEDIATE', 1)`)
	require.NoError(t, err)
}

func TestWrongSettingsAreReportedTogether(t *testing.T) {
	t.Parallel()
	for locale, want := range map[string][]string{
		"C": {
			"apply-api: unknown flag --bogus: see --help",
			`apply-api: REDIS_TLS (--redis-tls) is "maybe": want true or false`,
			"apply-api: APPLY_LISTN is not a setting: known settings are APPLY_LISTEN",
			`apply-api: APPLY_LISTEN is "http": want host:port or :port, with a port up to 65535`,
			`apply-api: ADMIN_LISTEN is ":99999": want host:port or :port, with a port up to 65535`,
			"apply-api: RECEIPT_KEYS_FILE cannot be read: no regular file",
			"apply-api: USER_RATE is -1: want 0.001 to 1000000 requests a second, or 0 for any number",
			`apply-api: CORS_ORIGINS has "https://shop.example.com/": want origins as browsers send them, ` +
				"scheme://host[:port] in lower case, without path, * or the usual port, " +
				"such as https://shop.example.com",
			"apply-api: JWT_ISSUER is set, but IDENTITY is header: set IDENTITY=jwt, or remove it",
			"apply-api: MAX_CONNECTIONS is 2000000: want 1 to 1000000",
			"apply-api: MAX_STREAMS is 0: want 1 to 1000000",
			"apply-api: SHUTDOWN_DELAY is 6m0s: want 0s to 5m0s, such as 5s",
			`apply-api: REDIS_KEY_PREFIX="{x}" must not contain braces: they decide the Cluster slot`,
			"apply-api: MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database",
			"apply-api: REDIS_ADDRS: address 1 is not host:port: want one such as redis:6379, without a user name " +
				"and a password",
		},
		"ko_KR.UTF-8": {"apply-api: SHUTDOWN_DELAY가 6m0s입니다. 0s부터 5m0s까지 가능합니다. 예: 5s"},
	} {
		environment, args := []string{"LC_ALL=" + locale, "SHUTDOWN_DELAY=6m", "MYSQL_DSN=u@tcp(127.0.0.1:1)/d"},
			[]string(nil)
		if locale == "C" {
			environment = append(environment[:2], "APPLY_LISTN=:1", "APPLY_LISTEN=http", "REDIS_ADDRS=nowhere",
				"REDIS_KEY_PREFIX={x}",
				"REDIS_TLS=maybe", "SETTLE_SCHEDULE=0 0 * * *", "RECEIPT_KEYS_FILE=/dev/null", "USER_RATE=-1",
				"JWT_ISSUER=i",
				"CORS_ORIGINS=https://shop.example.com/", "MAX_STREAMS=0", "MAX_CONNECTIONS=2000000")
			args = []string{"--bogus", "--admin-listen=:99999"}
		}
		p := start(t, environment, args...)
		require.Equal(t, 2, p.exit())
		require.Empty(t, p.stdout.String())
		require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(p.stderr.String()), "\n"))
	}
	p := start(t, nil, "--version")
	require.Equal(t, 0, p.exit())
	require.Equal(t, "dev\n", p.stdout.String())
}

func TestPortInUseIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, name := range []string{"APPLY_LISTEN", "ADMIN_LISTEN", "LIVE_LISTEN"} {
		p := start(t, []string{
			"MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "APPLY_LISTEN=127.0.0.1:0", "ADMIN_LISTEN=127.0.0.1:0",
			"LIVE_LISTEN=127.0.0.1:0", name + "=" + taken.Addr().String(),
		})
		require.Equal(t, 1, p.exit())
		require.Contains(t, p.stderr.String(), taken.Addr().String())
		require.Contains(t, p.stderr.String(), name)
	}
}

func TestApplying(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	database, api := withCoupon(t)
	addImmediate(t, database.DB)
	p := startAt(t, listening, append(asAPI(t, redis.Prefix, redis.Addrs...), "MYSQL_DSN="+api, "ISSUE_INTERVAL=5s",
		"REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "REDIS_KEY_PREFIX="+redis.Prefix)...)
	p.awaitReady(http.StatusOK)
	text := p.mustApply(http.StatusAccepted, 3, 7)
	var receipt struct{ AppliedAt, SettlesAt time.Time }
	require.NoError(t, json.Unmarshal([]byte(text), &receipt))
	require.Equal(t, 5*time.Second, receipt.SettlesAt.Sub(receipt.AppliedAt))
	text = p.mustApply(http.StatusConflict, 3, 8)
	require.Contains(t, text, `"code":"LINE_FULL"`)
	require.Contains(t, text, `"mayReopen":true`)

	text = p.mustApply(http.StatusAccepted, 1, 7)
	require.Contains(t, text, `T00:00:00.000000+09:00","detail":"`)
	p.mustApply(http.StatusOK, 1, 7)
	text = p.mustApply(http.StatusNotFound, 2, 7)
	require.Contains(t, text, "COUPON_NOT_FOUND")

	_, metrics := p.get("/metrics")
	for _, metric := range []string{`jajeong_queue_length{coupon_id="1"} 1`,
		"jajeong_settlement_due_timestamp_seconds ",
		"jajeong_redis_eviction_policy_wrong 0", "jajeong_apply_batch_size_count ",
		`jajeong_coupons_open{cadence="IMMEDIATE"} 1`,
		`jajeong_coupons_open{cadence="NIGHTLY"} 1`, `jajeong_apply_requests_total{result="LINE_FULL"} 1`} {
		require.Contains(t, metrics, metric)
	}
	require.GreaterOrEqual(t, p.metric("jajeong_apply_batch_size_count"), 4.0)
	p.terminate()
	require.Equal(t, 0, p.exit())
	require.Empty(t, p.stdout.String())
}

func TestPublicPortOpensAtFirstReadiness(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	require.NoError(t, redis.Kill())
	former := testenv.PrivateRedis(t, testenv.RedisOptions{}) // reserves a port that no outgoing connection takes
	address := former.Addr()
	require.NoError(t, former.Kill())
	p := startAt(t, adminOpen, "MYSQL_DSN="+apiDSN(t), "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0",
		"APPLY_LISTEN="+address)

	// A load balancer without health checks sends a request as soon as the port is open: it must succeed.
	ended, firstStatus := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(ended)
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for user := 1; ; user++ {
			request, _ := http.NewRequest(http.MethodPost, "http://"+address+"/v1/coupons/1/applications", nil)
			request.Header.Set("X-User-ID", fmt.Sprint(user))
			if response, err := p.client.Do(request); err == nil {
				_ = response.Body.Close()
				firstStatus <- response.StatusCode
				return
			}
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
		}
	}()
	testenv.Eventually(t, "the catalog has been read without Redis", func() bool {
		status, text := p.get("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status, text)
		return strings.Contains(text, `"catalog":{"ok":true}`)
	})
	status, text := p.get("/livez")
	require.Equal(t, http.StatusOK, status, text)
	require.NotContains(t, p.stderr.String(), `"listening"`)
	require.NoError(t, redis.Restart(t.Context()))
	<-ended
	timeouts, _ := p.failures()
	require.True(t, <-firstStatus == http.StatusAccepted || timeouts > 0)

	p.await(listening)
	require.NoError(t, redis.Kill())
	status, _ = p.ask(1, 1000)
	require.Equal(t, http.StatusServiceUnavailable, status, "the port stays open")
	p.awaitReady(http.StatusServiceUnavailable)
	require.NoError(t, redis.Restart(t.Context()))
	testenv.Eventually(t, "applications are accepted", func() bool {
		status, _ := p.ask(1, 7)
		return status == http.StatusAccepted || status == http.StatusOK // a response may have been lost
	})
	p.terminate()
	require.Equal(t, 0, p.exit())
}

func TestPublicPortStaysClosedWithoutMySQL(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	p := startAt(t, adminOpen, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "REDIS_ADDRS="+strings.Join(redis.Addrs, ","),
		"REDIS_KEY_PREFIX="+redis.Prefix)
	require.Equal(t, http.StatusServiceUnavailable, p.ready())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, p.exit())
	require.NotContains(t, p.stderr.String(), `"listening"`)
}

func TestBadValuesAreRefused(t *testing.T) { badinput.CheckProgram(t, new(settings), run) }
