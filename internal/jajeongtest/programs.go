package jajeongtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Environment is the environment of a built program: the administrators' accounts, free ports, and settle on PATH.
func (d *Deployment) Environment() []string {
	d.T.Helper()
	environment := os.Environ()
	if d.Prefix != "" {
		environment = append(environment, "REDIS_KEY_PREFIX="+d.Prefix)
	}
	if d.Admin.GaleraSingleWriter {
		environment = append(environment, "GALERA_SINGLE_WRITER=true")
	}
	return append(environment,
		"MYSQL_DSN="+d.Admin.MySQLDSN, "REDIS_ADDRS="+strings.Join(d.Admin.RedisAddrs, ","),
		"APPLY_LISTEN=127.0.0.1:0", "ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0", "WALLET_LISTEN=127.0.0.1:0",
		"USER_RATE=0", "SHUTDOWN_DELAY=0s", "LOG_LEVEL=info",
		"PATH="+filepath.Dir(testenv.Build(d.T, "./cmd/settle"))+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// Start starts a server program. At the end of the test the program must exit with 0 after SIGTERM.
func (d *Deployment) Start(environment []string, pkg string, args ...string) *testenv.Program {
	d.T.Helper()
	cmd := exec.Command(testenv.Build(d.T, pkg), args...)
	cmd.Env = environment
	p, err := testenv.StartProgram(testenv.Patient(d.T), cmd)
	require.NoError(d.T, err)
	d.T.Cleanup(func() { assert.NoError(d.T, p.Stop()) })
	return p
}

// SettleByProgram settles everything that has arrived by the program settle. Unlike SettleNow, it gives pods the time
// of the product to put applications back, which matters after another Redis server took over.
func (d *Deployment) SettleByProgram(couponID coupon.CouponID) {
	d.T.Helper()
	code, output := d.RunToEnd(func() *exec.Cmd {
		cmd := exec.CommandContext(testenv.Patient(d.T), testenv.Build(d.T, "./cmd/settle"),
			append([]string{"run", "--cutoff=now", "--coupon=" + couponID.String(),
				"--operator=kim", "--reason=test", "--yes"}, d.Flags(d.Job)...)...)
		cmd.Env = d.Environment()
		return cmd
	})
	require.Zero(d.T, code, output)
}

// RunToEnd runs a command of the program settle again as long as it ends with 1. That is safe, and a Job does so, too:
// 1 says that a server was away or slow. It returns the exit code and the output.
func (d *Deployment) RunToEnd(command func() *exec.Cmd) (code int, output string) {
	d.T.Helper()
	for {
		cmd := command()
		printed, _ := cmd.CombinedOutput() // the code says it all
		code = cmd.ProcessState.ExitCode()
		if code != 1 || testenv.Patient(d.T).Err() != nil {
			return code, string(printed)
		}
	}
}

// APIAnswer is an answer of the public API. Status is the code of a problem document, or the error without an answer.
type APIAnswer struct {
	HTTP       int
	Status     string
	Code       string
	Position   int64
	Seats      int64
	AppliedAt  string
	OpensAt    string
	ServerTime string
	Receipt    string
}

// Ask sends a request of a user to an API at a host:port: POST applies, GET with the path /me asks for the application.
// A nil transport is the default one.
func Ask(transport http.RoundTripper, api, method, path string, couponID coupon.CouponID,
	user coupon.UserID) (a APIAnswer) {
	request, err := http.NewRequest(method, fmt.Sprintf("http://%s/v1/coupons/%d/applications%s", api, couponID, path),
		nil)
	if err != nil {
		return APIAnswer{Status: err.Error()}
	}
	request.Header.Set("X-User-ID", user.Member())
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return APIAnswer{Status: err.Error()}
	}
	defer response.Body.Close()
	// The status of a problem document is a number, which Status does not take.
	_ = json.NewDecoder(response.Body).Decode(&a)
	a.HTTP = response.StatusCode
	if a.Code != "" {
		a.Status = a.Code
	}
	return a
}
