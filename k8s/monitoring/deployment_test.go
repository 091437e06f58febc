package monitoring_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patience is the time limit on a busy machine.
const patience = time.Minute

// deployment has both built programs on real servers, and a real Prometheus with the rules.
type deployment struct {
	*jajeongtest.Deployment
	t          *testing.T
	env        []string
	api        string // base URLs, like those below
	apiAdmin   string
	schedule   string
	gateway    string
	prometheus string
}

// deploy starts all servers and programs. It creates the coupons first, so that no test waits for the catalog.
func deploy(t *testing.T, coupons ...coupon.CouponID) *deployment {
	t.Helper()
	m, r := testenv.MySQLFor(t), testenv.RedisFor(t)
	d := &deployment{Deployment: jajeongtest.NewWith(t, jajeongtest.Options{Redis: &r, MySQL: &m}), t: t}
	d.env = append(os.Environ(), "MYSQL_DSN="+m.DSN, "REDIS_ADDRS="+strings.Join(r.Addrs, ","), "REDIS_KEY_PREFIX="+r.Prefix,
		"APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0", "SETTLE_ADMIN_LISTEN=127.0.0.1:0", "USER_RATE=0", "SHUTDOWN_DELAY=0s", "LOG_LEVEL=info",
		"PATH="+filepath.Dir(testenv.Build(t, "./cmd/settle"))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, id := range coupons {
		d.Exec(`INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
			VALUES (?, '심야 쿠폰', 10, UTC_TIMESTAMP(6) - INTERVAL 3 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`, id)
	}
	d.gateway = "http://" + prometheus.StartPushgateway(t).Addr()
	said := d.start(func(l listening) bool { return l.Apply != "" }, testenv.Build(t, "./cmd/apply-api"))
	d.api, d.apiAdmin = "http://"+said.Apply, "http://"+said.Admin
	d.schedule = "http://" + d.start(func(l listening) bool { return l.Admin != "" }, testenv.Build(t, "./cmd/settle"), "schedule").Admin

	rules, err := filepath.Abs("rules.yaml")
	require.NoError(t, err)
	target := func(base string) string { return strings.TrimPrefix(base, "http://") }
	d.prometheus = "http://" + prometheus.Start(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%s]
scrape_configs:
  - {job_name: apply-api, static_configs: [{targets: [%q]}]}
  - {job_name: settle-schedule, static_configs: [{targets: [%q]}]}
  - {job_name: pushgateway, honor_labels: true, static_configs: [{targets: [%q]}]}
`, rules, target(d.apiAdmin), target(d.schedule), target(d.gateway))).Addr()
	return d
}

type listening struct{ Apply, Admin string }

// start starts a server program and returns its addresses once all are known. At the end of the test it gets SIGTERM and must
// exit with 0.
func (d *deployment) start(all func(listening) bool, program string, args ...string) (said listening) {
	d.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = d.env
	logs, err := cmd.StderrPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, cmd.Start())
	drained := make(chan struct{})
	d.t.Cleanup(func() {
		assert.NoError(d.t, cmd.Process.Signal(syscall.SIGTERM))
		<-drained
		assert.NoError(d.t, cmd.Wait())
	})
	for lines := bufio.NewScanner(logs); !all(said) && lines.Scan(); {
		_ = json.Unmarshal(lines.Bytes(), &said)
	}
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, logs) }()
	require.True(d.t, all(said), "%s does not listen", program)
	return said
}

// shell runs a command line, which must succeed.
func (d *deployment) shell(line string) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "/bin/sh", "-c", line)
	cmd.Env = d.env
	output, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s\n%s", line, output)
}

// apply applies for a coupon until the application is accepted.
func (d *deployment) apply(couponID coupon.CouponID, user coupon.UserID) {
	d.t.Helper()
	testenv.Eventually(d.t, patience, fmt.Sprintf("user %d is accepted", user), func() bool {
		return d.ask(http.MethodPost, couponID, user, "") == http.StatusAccepted
	})
}

func (d *deployment) ask(method string, couponID coupon.CouponID, user coupon.UserID, path string) int {
	d.t.Helper()
	request, err := http.NewRequest(method, fmt.Sprintf("%s/v1/coupons/%d/applications%s", d.api, couponID, path), nil)
	require.NoError(d.t, err)
	request.Header.Set("X-User-ID", fmt.Sprint(user))
	response, err := http.DefaultClient.Do(request)
	require.NoError(d.t, err)
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// exposed returns the metrics of a program.
func (d *deployment) exposed(base string) string {
	d.t.Helper()
	response, err := http.Get(base + "/metrics")
	require.NoError(d.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	require.Equal(d.t, http.StatusOK, response.StatusCode)
	return string(text)
}

// promAPI calls the API of Prometheus and fills data.
func (d *deployment) promAPI(path string, parameters url.Values, data any) error {
	response, err := http.Get(d.prometheus + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %s: %s", path, parameters.Encode(), answer.Error)
	}
	return nil
}

// rule is a rule of rules.yaml as Prometheus reports it.
type rule struct {
	Name, Type, Query   string
	Health, LastError   string
	Labels, Annotations map[string]string
}

func (d *deployment) rules() (all []rule) {
	d.t.Helper()
	var loaded struct{ Groups []struct{ Rules []rule } }
	require.NoError(d.t, d.promAPI("/api/v1/rules", nil, &loaded))
	for _, group := range loaded.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(d.t, all)
	return all
}
