package systemtest

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Programs that run follow a new zone of the nights, which an operator sets by the policy.
func TestZone_ReachesEveryProgram(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(7)
	id := d.AddCoupon(5)
	d.Apply(id, 7)
	apply := d.Start(d.Environment(), "./cmd/apply-api", d.Flags(d.API)...)
	wallet := d.Start(d.Environment(), "./cmd/wallet-api", "--mysql-dsn="+d.Wallet.MySQLDSN)
	console := d.Start(d.Environment(), "./cmd/settle",
		append([]string{"console", "--listen=127.0.0.1:0", "--console-dev-user=kim"}, d.Flags(d.Operator)...)...)
	says := func(what, address, want string) {
		testenv.Eventually(t, what+" says "+want, func() bool {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
			require.NoError(t, err)
			request.Header.Set("X-User-ID", "7")
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			page, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			return strings.Contains(string(page), want)
		})
	}
	for _, zone := range []struct{ name, offset, abbreviation string }{{"Asia/Seoul", "+09:00", "KST"},
		{"America/Phoenix", "-07:00", "MST"}} {
		code, printed := d.RunToEnd(func() *exec.Cmd {
			return exec.CommandContext(testenv.Patient(t), testenv.Build(t, "./cmd/settle"),
				append([]string{"policy", "set", "--zone=" + zone.name, "--operator=kim", "--reason=OPS-1"},
					d.Flags(d.Operator)...)...)
		})
		require.Zero(t, code, printed)
		says("apply-api", apply.Apply+fmt.Sprintf("/v1/coupons/%d/applications/me", id), "00:00:00.000000"+zone.offset)
		says("wallet-api", wallet.Wallet+"/v1/wallet/coupons", zone.offset)
		says("the console", console.Console+"/", "00:00:00 "+zone.abbreviation)
	}
}
