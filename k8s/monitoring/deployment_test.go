package monitoring_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
)

// namespace is the label of the deployment in Prometheus.
const namespace = "shop"

func TestMain(m *testing.M) { testenv.Main(m) }

// deployment has the built programs on real servers, a real Pushgateway, and a real Prometheus with the rules.
type deployment struct {
	*jajeongtest.Deployment
	env                         []string
	api, wallet, serve, console *testenv.Program
	gateway, prometheus         string // host:port
}

// deploySettle makes a deployment of settle and the Pushgateway alone, with coupons.
func deploySettle(t *testing.T, coupons ...coupon.CouponID) *deployment {
	t.Helper()
	d := &deployment{Deployment: jajeongtest.New(t)}
	d.env = append(d.Environment(), "PUSH_NAMESPACE="+namespace)
	for _, id := range coupons {
		d.Exec(`INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
			VALUES (?, '심야 쿠폰', 10, UTC_TIMESTAMP(6) - INTERVAL 3 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`, id)
	}
	d.gateway = prometheus.StartPushgateway(t).Addr()
	return d
}

// deploy starts all servers and programs. It creates the coupons first, so that no test waits for the catalog.
func deploy(t *testing.T, coupons ...coupon.CouponID) *deployment {
	t.Helper()
	d := deploySettle(t, coupons...)
	keys := filepath.Join(t.TempDir(), "service-keys")
	require.NoError(t, os.WriteFile(keys, fmt.Appendf(nil, "checkout %x\n", sha256.Sum256([]byte(serviceKey))), 0o600))
	d.api, d.serve = d.Start(append(d.env, "ACCEPT_AFTER=journal"), "./cmd/apply-api"),
		d.Start(append(d.env, "EVENT_SINK=redis"), "./cmd/settle", "serve")
	d.wallet = d.Start(append(d.env, "SERVICE_KEYS_FILE="+keys), "./cmd/wallet-api")
	adminKeys := filepath.Join(t.TempDir(), "admin-keys") // none
	require.NoError(t, os.WriteFile(adminKeys, nil, 0o600))
	d.console = d.Start(d.env, "./cmd/settle", "console", "--console-dev-user=kim", "--listen=127.0.0.1:0",
		"--admin-listen=127.0.0.1:0", "--admin-api-listen=127.0.0.1:0", "--admin-keys-file="+adminKeys)

	rules, err := filepath.Abs("rules.yaml")
	require.NoError(t, err)
	labels := "labels: {namespace: " + namespace + "}"
	d.prometheus = prometheus.Start(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}
rule_files: [%s]
scrape_configs:
  - {job_name: apply-api, static_configs: [{targets: [%q], %s}]}
  - {job_name: wallet-api, static_configs: [{targets: [%q], %s}]}
  - {job_name: settle-serve, static_configs: [{targets: [%q], %s}]}
  - {job_name: console, static_configs: [{targets: [%q], %s}]}
  - {job_name: pushgateway, honor_labels: true, static_configs: [{targets: [%q]}]}
`, rules, d.api.Admin, labels, d.wallet.Admin, labels, d.serve.Admin, labels, d.console.Admin, labels,
		d.gateway)).Addr()
	return d
}

// shell runs a command line, which must succeed.
func (d *deployment) shell(line string) {
	d.T.Helper()
	cmd := exec.CommandContext(d.T.Context(), "/bin/sh", "-c", line)
	cmd.Env = d.env
	output, err := cmd.CombinedOutput()
	require.NoError(d.T, err, "%s\n%s", line, output)
}

// apply applies for a coupon until the application is accepted.
func (d *deployment) apply(couponID coupon.CouponID, user coupon.UserID) {
	d.T.Helper()
	testenv.Eventually(d.T, fmt.Sprintf("user %d is accepted", user), func() bool {
		status := d.ask(http.MethodPost, couponID, user, "")
		return status == http.StatusAccepted || status == http.StatusOK // a response may have been lost
	})
}

func (d *deployment) ask(method string, couponID coupon.CouponID, user coupon.UserID, path string) int {
	return jajeongtest.Ask(nil, d.api.Apply, method, path, couponID, user).HTTP
}

const serviceKey = "of these tests"

// redeem makes a call of checkout about the coupon couponID of user 1, and returns the status.
func (d *deployment) redeem(method, order, path string) int {
	d.T.Helper()
	body := "" // only a reservation has content
	if method == http.MethodPut {
		body = fmt.Sprintf(`{"couponId":%d,"userId":1,"amountWon":12000}`, couponID)
	}
	request, err := http.NewRequest(method, "http://"+d.wallet.Wallet+"/v1/orders/"+order+"/coupon"+path,
		strings.NewReader(body))
	require.NoError(d.T, err)
	request.Header.Set("Authorization", "Bearer "+serviceKey)
	response, err := http.DefaultClient.Do(request)
	require.NoError(d.T, err)
	require.NoError(d.T, response.Body.Close())
	return response.StatusCode
}

// exposed returns the metrics of a program.
func (d *deployment) exposed(addr string) string {
	d.T.Helper()
	response, err := http.Get("http://" + addr + "/metrics")
	require.NoError(d.T, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(d.T, err)
	require.Equal(d.T, http.StatusOK, response.StatusCode)
	return string(text)
}

// promAPI calls the API of Prometheus and fills data.
func (d *deployment) promAPI(path string, parameters url.Values, data any) error {
	response, err := http.Get("http://" + d.prometheus + path + "?" + parameters.Encode())
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
	Name, Query       string
	Health, LastError string
}

func (d *deployment) rules() (all []rule) {
	d.T.Helper()
	var loaded struct{ Groups []struct{ Rules []rule } }
	require.NoError(d.T, d.promAPI("/api/v1/rules", nil, &loaded))
	for _, group := range loaded.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(d.T, all)
	return all
}

// alert is an alert of rules.yaml.
type alert struct {
	Name                string `yaml:"alert"`
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	text := testenv.Content(t, "rules.yaml")
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, group := range file.Groups {
		for _, a := range group.Rules {
			if a.Name != "" { // else it records a metric
				all = append(all, a)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}
