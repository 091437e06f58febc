package systemtest

import (
	"io"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// A Redis with save points that cannot write a snapshot refuses writes with MISCONF, also those of settlements. Nobody
// is told that an application was accepted, and what was accepted before is settled after.
func TestRedisNotSaving_RefusesWithoutLoss(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	d.AddUsers(2)
	nightly, immediate := d.AddQueue(2, 1), d.AddCoupon(2)
	d.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", immediate)
	api := d.Start(d.Environment(), "./cmd/apply-api", d.Flags(d.API)...)
	ask := func(method, path string, id coupon.CouponID, user coupon.UserID) jajeongtest.APIAnswer {
		return jajeongtest.Ask(nil, api.Apply, method, path, id, user)
	}
	testenv.Eventually(t, "the window is published",
		func() bool { return ask(http.MethodPost, "", immediate, 1).HTTP == http.StatusAccepted })

	mend := server.FailSnapshots(t)
	for range 5 { // after three the pod pauses
		refused := ask(http.MethodPost, "", nightly, 2)
		require.Equal(t, http.StatusServiceUnavailable, refused.HTTP)
		require.Equal(t, "UNAVAILABLE", refused.Status)
		require.Empty(t, refused.Receipt)
	}
	testenv.Eventually(t, "one in line is answered, after the pause", func() bool {
		return ask(http.MethodGet, "/me", nightly, 1).Status == "PENDING"
	})
	require.Equal(t, "NOT_APPLIED", ask(http.MethodGet, "/me", nightly, 2).Status)
	require.Contains(t, page(t, api.Admin, "/metrics"), `jajeong_redis_not_saving{file="snapshot"} 1`+"\n")
	require.Contains(t, page(t, api.Admin, "/readyz"), `"saving":{"ok":false,"detail":"the last snapshot failed"`)

	run := exec.CommandContext(t.Context(), testenv.Build(t, "./cmd/settle"),
		append([]string{"run", "--cutoff=now", "--operator=kim", "--reason=test", "--yes"}, d.Flags(d.Job)...)...)
	run.Env = d.Environment()
	output, _ := run.CombinedOutput() // the code says it all
	require.Equal(t, 1, run.ProcessState.ExitCode())
	require.Contains(t, string(output), "MISCONF")
	require.Empty(t, d.Issued(nightly))
	serve := d.Start(d.Environment(), "./cmd/settle", append(d.Flags(d.Job), "serve", "--tasks=issue")...)
	testenv.Eventually(t, "the log of settle serve says so", func() bool { return serve.Warned("MISCONF") })

	mend()
	require.Contains(t, page(t, api.Admin, "/metrics"), `jajeong_redis_not_saving{file="snapshot"} 0`+"\n")
	testenv.Eventually(t, "users can apply",
		func() bool { return ask(http.MethodPost, "", nightly, 2).HTTP == http.StatusAccepted })
	d.SettleByProgram(nightly)
	require.ElementsMatch(t, []coupon.UserID{1, 2}, d.Issued(nightly))
	testenv.Eventually(t, "the immediate coupon is issued", func() bool { return len(d.Issued(immediate)) == 1 })
	d.Verify(nightly, immediate)
}

// page is what a program answers at its admin port.
func page(t *testing.T, admin, path string) string {
	t.Helper()
	response, err := http.Get("http://" + admin + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}
