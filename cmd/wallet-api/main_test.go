package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/badinput"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithServers{M: m}) }

// program is wallet-api in the process of the test.
type program struct {
	t             *testing.T
	stderr        *testenv.Log
	sigterm       context.CancelFunc // what SIGTERM does
	ended         chan int
	wallet, admin string // addresses, once it listens
	client        *http.Client
}

const adminOpen, listening = testenv.AdminOpen, testenv.Listening

func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{t: t, stderr: new(testenv.Log), sigterm: cancel, ended: make(chan int, 1),
		client: &http.Client{Transport: openapi.Wallet.Transport(t, &http.Transport{DisableKeepAlives: true})}}
	args = append([]string{"--wallet-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--shutdown-delay=0s"}, args...)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var stdout bytes.Buffer
		p.ended <- run(ctx, args, &stdout, p.stderr)
	}()
	t.Cleanup(func() {
		cancel()
		<-gone
		if t.Failed() {
			t.Log(p.stderr.String())
		}
	})
	return p
}

func (p *program) await(msg string) *program {
	p.t.Helper()
	at := p.stderr.Await(p.t, msg)
	p.wallet, p.admin = at.Wallet, at.Admin
	return p
}

func (p *program) exit() int {
	p.t.Helper()
	return testenv.Receive(p.t, "wallet-api ends", p.ended)
}

// page is a page of the admin port. The status is 0 without a response.
func (p *program) page(path string) (status int, text string) {
	return testenv.Page(context.Background(), p.admin+path)
}

func (p *program) awaitReady(status int) {
	p.t.Helper()
	testenv.Eventually(p.t, fmt.Sprint("readiness is ", status), func() bool {
		got, _ := p.page("/readyz")
		return got == status
	})
}

// reserve reserves a coupon for user 7. Without a response, the status is 0.
func (p *program) reserve(order string, id coupon.CouponID, key string) (status int, text string) {
	request, err := http.NewRequest(http.MethodPut, p.wallet+"/v1/orders/"+order+"/coupon",
		strings.NewReader(fmt.Sprintf(`{"couponId":%d,"userId":7,"amountWon":12000}`, id)))
	require.NoError(p.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Accept-Language", "en")
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// keysFile is a file with keys of the service checkout.
func keysFile(t *testing.T, keys ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, keys...)
	return path
}

func writeKeys(t *testing.T, path string, keys ...string) {
	t.Helper()
	var text strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&text, "checkout %x\n", sha256.Sum256([]byte(key)))
	}
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
}

// issue issues a coupon of 5,000 won to user 7, who exists.
func issue(d *jajeongtest.Deployment) coupon.CouponID {
	id := d.AddCoupon(1)
	d.Apply(id, 7)
	d.Exec("UPDATE coupon SET discount_won = 5000 WHERE id = ?", id)
	d.SettleNow()
	return id
}

func TestCheckoutAndShutdown(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(7)
	id := issue(d)
	testenv.Eventually(t, "the call ends within its time", func() bool {
		p := start(t, "--mysql-dsn="+d.Wallet.MySQLDSN, "--service-keys-file="+keysFile(t, "k1"),
			"--reserve-ttl=10s").await(listening)
		p.awaitReady(http.StatusOK)
		testWallet(t, p)
		status, text := reserveDuringShutdown(t, d, p, id)
		require.Equal(t, connect.ExitEnded, p.exit())
		require.NotContains(t, p.stderr.String(), "k1", "keys are never logged")
		if status == http.StatusServiceUnavailable {
			return false
		}
		// 200 after an attempt that lasted too long.
		require.Contains(t, []int{http.StatusCreated, http.StatusOK}, status, text)
		return true
	})
	ttl := d.Number(
		"SELECT TIMESTAMPDIFF(SECOND, l.at, o.reserved_until) FROM coupon_log l JOIN coupon_order o ON o.order_id = " +
			"l.order_id")
	require.EqualValues(t, 10, ttl)
}

func testWallet(t *testing.T, p *program) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, p.wallet+"/v1/wallet/coupons", nil)
	require.NoError(t, err)
	request.Header.Set("X-User-ID", "7")
	testenv.Eventually(t, "the wallet is read", func() bool {
		response, err := p.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, response.StatusCode)
		return response.StatusCode == http.StatusOK
	})
}

// reserveDuringShutdown reserves a coupon. The call waits for a lock when SIGTERM comes.
func reserveDuringShutdown(t *testing.T, d *jajeongtest.Deployment, p *program,
	id coupon.CouponID) (status int, text string) {
	t.Helper()
	tx, err := d.DB.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE user_coupon SET seq = seq")
	require.NoError(t, err)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		status, text = p.reserve("A-1", id, "k1")
	}()
	timedOut := func() bool {
		select {
		case <-answered:
			return true
		default:
			return false
		}
	}
	testenv.Eventually(t, "the call is in flight", func() bool {
		_, metrics := p.page("/metrics")
		return strings.Contains(metrics, "jajeong_wallet_in_flight 1\n") || timedOut()
	})
	p.sigterm()
	testenv.Eventually(t, "the public port is closed", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.wallet, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	testenv.Eventually(t, "the process is not ready", func() bool {
		status, _ := p.page("/readyz")
		return status == http.StatusServiceUnavailable || timedOut()
	})
	require.NoError(t, tx.Rollback())
	testenv.Receive(t, "the call is answered", answered)
	return status, text
}

// mustReserve calls until the result is known, and requires a status: this machine may be slower than the time of a
// call. Then the coupon may be reserved before.
func (p *program) mustReserve(want int, order string, id coupon.CouponID, key string) {
	p.t.Helper()
	status, text, calls := 0, "", 0
	testenv.Eventually(p.t, "the result is known", func() bool {
		calls++
		status, text = p.reserve(order, id, key)
		return status != http.StatusServiceUnavailable
	})
	if calls == 1 || want != http.StatusCreated || status != http.StatusOK {
		require.Equal(p.t, want, status, text)
	}
}

func TestMySQLAwayAtStartAndLater(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
	d.AddUsers(7)
	id := issue(d)
	require.NoError(t, server.Kill())
	p := start(t, "--mysql-dsn="+d.Wallet.MySQLDSN, "--service-keys-file="+keysFile(t, "k1")).await(adminOpen)
	p.awaitReady(http.StatusServiceUnavailable)
	status, _ := p.page("/livez")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, p.stderr.String(), `"listening"`)

	require.NoError(t, server.Restart(t.Context()))
	p.await(listening).awaitReady(http.StatusOK)
	p.mustReserve(http.StatusCreated, "A-1", id, "k1")
	require.NoError(t, server.Kill())
	status, text := p.reserve("A-1", id, "k1")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "Ask again with the same order id")
	p.awaitReady(http.StatusServiceUnavailable)
	require.NoError(t, server.Restart(t.Context()))
	p.awaitReady(http.StatusOK)
	p.mustReserve(http.StatusOK, "A-1", id, "k1")
}

// Each part has a program of its own.
func TestOnOneDeployment(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(7)
	t.Run("SchemaIsAwaited", func(t *testing.T) { testSchema(t, d) })
	t.Run("KeysAreRotatedWithoutRestart", func(t *testing.T) { testKeys(t, d) })
	t.Run("ConnectionsAboveTheLimitAreRefused", func(t *testing.T) { testConnections(t, d) })
	t.Run("CallsAreBounded", func(t *testing.T) { testBounds(t, d) })
}

// Until the tables are there, the process is not ready.
func testSchema(t *testing.T, d *jajeongtest.Deployment) {
	d.Exec("RENAME TABLE coupon_log TO elsewhere")
	p := start(t, "--mysql-dsn="+d.Wallet.MySQLDSN).await(adminOpen)
	status, text := p.page("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "check schema")
	require.NotContains(t, text, "redis")
	d.Exec("RENAME TABLE elsewhere TO coupon_log")
	p.await(listening)
}

func testKeys(t *testing.T, d *jajeongtest.Deployment) {
	id := issue(d)
	path := keysFile(t, "old")
	p := start(t, "--mysql-dsn="+d.Wallet.MySQLDSN, "--service-keys-file="+path).await(listening)
	p.mustReserve(http.StatusCreated, "K-1", id, "old")
	status, _ := p.reserve("K-1", id, "new")
	require.Equal(t, http.StatusUnauthorized, status)
	writeKeys(t, path, "old", "new")
	testenv.Eventually(t, "the new key is accepted", func() bool {
		status, _ := p.reserve("K-1", id, "new")
		return status == http.StatusOK
	})
	p.mustReserve(http.StatusOK, "K-1", id, "old")
}

func testConnections(t *testing.T, d *jajeongtest.Deployment) {
	p := start(t, "--mysql-dsn="+d.Wallet.MySQLDSN, "--service-keys-file="+keysFile(t, "k1"),
		"--max-connections=1").await(listening)
	first, err := net.Dial("tcp", strings.TrimPrefix(p.wallet, "http://"))
	require.NoError(t, err)
	defer first.Close()
	// A connection without a request is closed after five seconds.
	_, err = fmt.Fprint(first, "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	testenv.Eventually(t, "the first connection is open", func() bool {
		_, metrics := p.page("/metrics")
		return strings.Contains(metrics, "jajeong_connections_open 1\n")
	})
	status, text := p.reserve("C-1", 1_000_000, "k1")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "too many requests")
	require.NoError(t, first.Close())
	testenv.Eventually(t, "there is room again", func() bool {
		status, _ := p.reserve("C-1", 1_000_000, "k1")
		return status == http.StatusNotFound
	})
}

// A call that waits too long for a lock is answered, and can be repeated.
func testBounds(t *testing.T, d *jajeongtest.Deployment) {
	id := issue(d)
	p := start(t, "--mysql-dsn="+d.Wallet.MySQLDSN, "--service-keys-file="+keysFile(t, "k1")).await(listening)
	tx, err := d.DB.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE user_coupon SET seq = seq")
	require.NoError(t, err)
	status, text := p.reserve("B-1", id, "k1")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "It is not known")
	require.NoError(t, tx.Rollback())
	p.mustReserve(http.StatusCreated, "B-1", id, "k1")
}

func refusals(t *testing.T, args ...string) []string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, connect.ExitSettings, run(t.Context(), args, &stdout, &stderr))
	require.Empty(t, stdout.String())
	return strings.Split(strings.TrimSpace(stderr.String()), "\n")
}

func TestWrongSettingsAreReportedTogether(t *testing.T) {
	t.Setenv("WALLET_LISTN", ":1")
	t.Setenv("APPLY_LISTEN", ":8080") // of apply-api, which may share a ConfigMap
	t.Setenv("WALLET_API_PORT_8082_TCP", "tcp://10.0.0.1:8082")
	wrong := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(wrong, []byte("# keys\ncheckout s3cret\n"), 0o600))
	require.ElementsMatch(t, []string{
		"wallet-api: unknown flag --redis-addrs: see --help",
		"wallet-api: WALLET_LISTN is not a setting: known settings are WALLET_LISTEN",
		`wallet-api: WALLET_LISTEN is "http": want host:port or :port, with a port up to 65535`,
		"wallet-api: RESERVE_TTL is 9s: want 10s to 24h0m0s, such as 15m",
		"wallet-api: USER_RATE is -1: want 0.001 to 1000000 requests a second, or 0 for any number",
		`wallet-api: CORS_ORIGINS has "*": want origins as browsers send them, scheme://host[:port] in lower case, ` +
			"without path, * or the usual port, such as https://shop.example.com",
		"wallet-api: SERVICE_KEYS_FILE: line 2 is wrong: want the name of a service (up to 64 of A-Z a-z 0-9 . _ -), " +
			"a space, " +
			"and the SHA-256 of its key in 64 hexadecimal digits",
		"wallet-api: MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database",
	}, refusals(t, "--redis-addrs=x:1", "--wallet-listen=http", "--reserve-ttl=9s",
		"--user-rate=-1", "--cors-origins=https://shop.example.com,*", "--service-keys-file="+wrong))
	t.Setenv("WALLET_LISTN", "")
	require.NoError(t, os.Unsetenv("WALLET_LISTN"))
	require.Contains(t, refusals(t, "--mysql-dsn=u@tcp(127.0.0.1:1)/d", "--reserve-ttl=25h",
		"--service-keys-file="+wrong+".missing"),
		"wallet-api: SERVICE_KEYS_FILE cannot be read: no such file or directory")
	t.Setenv("LC_ALL", "ko_KR.UTF-8")
	require.Equal(t, []string{"wallet-api: RESERVE_TTL이 25h0m0s입니다. 10s부터 24h0m0s까지 가능합니다. 예: 15m"},
		refusals(t, "--mysql-dsn=u@tcp(127.0.0.1:1)/d", "--reserve-ttl=25h"))
}

func TestStartWarnsOfRisks(t *testing.T) {
	t.Parallel()
	p := start(t, "--mysql-dsn=u@tcp(127.0.0.1:1)/d?tls=skip-verify")
	p.await(adminOpen)
	require.Contains(t, p.stderr.String(), "MYSQL_DSN does not verify the certificate of MySQL")
}

func TestBadValuesAreRefused(t *testing.T) { badinput.CheckProgram(t, new(settings), run) }
