package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
)

// pushed are the metrics that a gateway has of a job and a trigger: values by name and other labels.
func pushed(t *testing.T, gateway, job, trigger string) map[string]string {
	t.Helper()
	response, err := http.Get(gateway + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	found := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^(jajeong_\w+)\{(.*)\} (\S+)$`).FindAllStringSubmatch(string(text),
		-1) {
		labels := regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(line[2], -1)
		key, by, of := line[1], "", ""
		for _, label := range labels {
			switch label[1] {
			case "trigger":
				of = label[2]
			case "job":
				by = label[2]
			case "instance":
			default:
				key += " " + label[2]
			}
		}
		if by == job && of == trigger {
			found[key] = line[3]
		}
	}
	return found
}

func TestRun_PushesMetrics(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 2)
	n.ApplyAt(n.coupons[0], "99", n.Now().Add(-72*time.Hour)) // an unknown user
	gateway := "http://" + prometheus.StartPushgateway(t).Addr()

	release := n.Lock(n.coupons[0])
	r := n.begin("run", "--push-gateway="+gateway)
	testenv.Eventually(t, "the gateway has the run",
		func() bool { return pushed(t, gateway, "settle", "CRON")["jajeong_run_status RUNNING"] == "1" })
	release()
	r.end()
	require.Zero(t, r.code, r.stderr.String())
	night := pushed(t, gateway, "settle", "CRON")
	for key, want := range map[string]string{
		"jajeong_run_status SUCCEEDED":                    "1",
		"jajeong_run_status RUNNING":                      "0",
		"jajeong_run_status FAILED":                       "0",
		"jajeong_run_coupons SETTLED":                     "2",
		"jajeong_run_coupons FAILED":                      "0",
		"jajeong_run_applications ISSUED":                 "4",
		"jajeong_run_applications NOT_SELECTED":           "2",
		"jajeong_run_applications UNDER_REVIEW":           "1",
		"jajeong_run_applications REJECTED":               "0",
		"jajeong_run_applications ALREADY_ISSUED":         "0",
		"jajeong_run_rejected_applications UNKNOWN_USER":  "1",
		"jajeong_run_rejected_applications DATABASE_AWAY": "0",
		"jajeong_run_gap_applications":                    "0",
		"jajeong_run_processed_applications":              "7",
	} {
		require.Equal(t, want, night[key], key)
	}
	for _, cause := range coupon.Causes {
		require.Contains(t, night, "jajeong_run_rejected_applications "+string(cause))
	}
	for _, key := range []string{"jajeong_run_last_success_timestamp_seconds", "jajeong_run_cutoff_timestamp_seconds",
		"jajeong_run_started_timestamp_seconds",
		"jajeong_run_duration_seconds", "jajeong_run_applications_per_second", "jajeong_run_phase_seconds issue",
		"jajeong_run_phase_seconds close_out"} {
		require.Contains(t, night, key)
		require.NotEqual(t, "0", night[key], key)
	}

	// A manual run keeps the metrics of the nightly run, and a failed run keeps the time of the last success.
	n.AddPromises(n.coupons[1], 3)
	n.Exec("UPDATE coupon SET total_quantity = total_quantity + 1 WHERE id = ?", n.coupons[1])
	code, _, _ := n.settle("run", "--cutoff=now", "--operator=kim", "--reason=test", "--push-gateway="+gateway)
	require.Equal(t, exitInvariant, code)
	person := pushed(t, gateway, "settle", "MANUAL")
	require.Equal(t, "1", person["jajeong_run_status HELD"])
	require.Equal(t, "1", person["jajeong_run_coupons HELD"])
	require.Equal(t, "3", person["jajeong_run_gap_applications"])
	require.NotContains(t, person, "jajeong_run_last_success_timestamp_seconds")
	require.Equal(t, night, pushed(t, gateway, "settle", "CRON"))

	// A run without Redis keeps the last known gap.
	code, _, _ = n.settle("run", "--cutoff=now", "--operator=kim", "--reason=test", "--push-gateway="+gateway,
		"--redis-addrs=127.0.0.1:1")
	require.Equal(t, exitInfrastructure, code)
	blind := pushed(t, gateway, "settle", "MANUAL")
	require.Equal(t, "1", blind["jajeong_run_status FAILED"])
	require.Equal(t, "3", blind["jajeong_run_gap_applications"])

	code, _, _ = n.settle("run", "--push-gateway="+gateway, "--redis-addrs=127.0.0.1:1")
	require.Equal(t, exitInfrastructure, code)
	failed := pushed(t, gateway, "settle", "CRON")
	require.Equal(t, "1", failed["jajeong_run_status FAILED"])
	require.Equal(t, "0", failed["jajeong_run_applications ISSUED"])
	require.Equal(t, night["jajeong_run_last_success_timestamp_seconds"],
		failed["jajeong_run_last_success_timestamp_seconds"])

	// Another deployment at the same gateway overwrites nothing.
	code, _, _ = n.settle("run", "--push-gateway="+gateway, "--push-namespace=other", "--redis-addrs=127.0.0.1:1")
	require.Equal(t, exitInfrastructure, code)
	both := pushed(t, gateway, "settle", "CRON")
	require.Equal(t, "1", both["jajeong_run_status other FAILED"])
	require.Equal(t, failed["jajeong_run_started_timestamp_seconds"], both["jajeong_run_started_timestamp_seconds"])
}

func TestRun_WarnsOfUnreachableGateway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are established and never answered
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	for name, gateway := range map[string]string{"refused": "http://127.0.0.1:1", "silent": "http://" +
		silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNight(newWorld(t), 1)
			code, stdout, stderr := n.settle("run", "--push-gateway="+gateway)
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "SETTLED")
			require.Contains(t, stderr, "the last metrics not pushed")
			require.Equal(t, []coupon.UserID{1, 2}, n.Issued(n.coupons[0]))
		})
	}
}

// A check of one coupon and an incomplete check without violations push nothing.
func TestVerify_PushesFindings(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 2)
	gateway := "http://" + prometheus.StartPushgateway(t).Addr()
	verify := func(args ...string) (code int, found map[string]string) {
		testenv.Eventually(t, "the gateway answers within the time of a push", func() bool {
			var stderr string
			code, _, stderr = n.settle(append([]string{"verify", "--push-gateway=" + gateway}, args...)...)
			return !strings.Contains(stderr, "not pushed")
		})
		return code, pushed(t, gateway, "settle-verify", "")
	}
	code, _, stderr := n.settle("run")
	require.Zero(t, code, stderr)
	const findings, success = "jajeong_verify_findings", "jajeong_verify_last_success_timestamp_seconds"

	code, found := verify(fmt.Sprintf("--coupon=%d", n.coupons[0]))
	require.Zero(t, code)
	require.Empty(t, found, "one coupon")

	code, found = verify()
	require.Zero(t, code)
	require.Equal(t, "0", found[findings])
	first := found[success]
	require.NotEmpty(t, first)
	tables := func() map[string]string { return pushed(t, gateway, "settle-tables", "") }
	require.NotEmpty(t, tables()["jajeong_table_bytes coupon"])
	require.Empty(t, tables()["jajeong_table_oldest_timestamp_seconds approval"], "it is empty")
	require.NotEmpty(t, tables()["jajeong_table_oldest_timestamp_seconds user_coupon"])
	ended := n.Now().AddDate(0, 0, -31)
	forgotten := n.AddCouponBetween(5, ended.Add(-time.Hour), ended)
	kept := fmt.Sprint("jajeong_coupon_kept_open_timestamp_seconds ", forgotten)
	code, _ = verify()
	require.Zero(t, code)
	require.NotEmpty(t, tables()[kept])
	n.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ?", forgotten)
	code, found = verify()
	require.Zero(t, code)
	require.Empty(t, tables()[kept])
	first = found[success]

	for _, couponID := range n.coupons {
		n.AddPromises(couponID, 3)
	}
	code, found = verify()
	require.Equal(t, exitInvariant, code)
	require.Equal(t, "2", found[findings])
	require.NotEqual(t, first, found[success], "a check with findings is a success")
	second := found[success]

	n.AddPromises(n.coupons[0], -3)
	code, found = verify(fmt.Sprintf("--coupon=%d", n.coupons[0]))
	require.Zero(t, code)
	require.Equal(t, "2", found[findings])

	// Another deployment at the same gateway overwrites nothing.
	n.AddPromises(n.coupons[1], -3)
	code, found = verify("--push-namespace=other")
	require.Zero(t, code)
	require.Equal(t, "0", found[findings+" other"])
	require.Equal(t, "2", found[findings])

	// A check without Redis pushes nothing.
	code, found = verify("--redis-addrs=127.0.0.1:1")
	require.Equal(t, exitInfrastructure, code)
	require.Equal(t, "2", found[findings])
	require.Equal(t, second, found[success])
	require.Empty(t, pushed(t, gateway, "settle", "CRON"), "runs have a group of their own")
}

func TestRun_RepeatsLastPush(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 1)
	holds, err := url.Parse("http://" + prometheus.StartPushgateway(t).Addr())
	require.NoError(t, err)
	var asked atomic.Int32
	through := httputil.NewSingleHostReverseProxy(holds)
	restarts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(restarts.Close)

	code, _, stderr := n.settle("run", "--push-gateway="+restarts.URL)
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, "the last metrics not pushed")
	require.Equal(t, "1", pushed(t, holds.String(), "settle", "CRON")["jajeong_run_status SUCCEEDED"])
	require.Greater(t, asked.Load(), int32(1))
}

func TestPushGateway_RefusesOtherValues(t *testing.T) {
	t.Parallel()
	for _, gateway := range []string{"pushgateway:9091", "http://", "ftp://pushgateway",
		"http://kim:secret@pushgateway:9091", "::"} {
		for _, verb := range []string{"run", "verify"} {
			code, _, stderr := settleBare(t, verb, "--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--push-gateway="+gateway)
			require.Equal(t, exitUse, code)
			require.Contains(t, stderr, "PUSH_GATEWAY")
			require.NotContains(t, stderr, "secret")
		}
	}
}
