package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// The program that gives a coupon to a list is killed at one of its requests, before or after the server has it. The
// same command then ends the list: nobody is left out, and nobody has two coupons or two entries in the log. Somebody
// of the list waits in the queue meanwhile, and a run settles the coupon.
func TestGrantList_KilledAnywhereAndRepeated(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	listed := jajeongtest.Between[coupon.UserID](1, 5002) // two pages
	d.AddUsers(listed...)
	file := filepath.Join(t.TempDir(), "users.csv")
	lines := make([]string, len(listed))
	for i, user := range listed {
		lines[i] = user.Member()
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))

	// kill runs the command, kills it at a request, and returns how many requests there were.
	kill := func(at int, action func(func()) faultproxy.Action) int {
		id := d.AddCoupon(1)
		d.Apply(id, 5001, 5002)
		var turns atomic.Int64
		var cmd *exec.Cmd
		started := make(chan struct{})
		_, through := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
			turns.Store(int64(turn.Number))
			if turn.Number == at {
				<-started
				return action(func() { _ = cmd.Process.Kill() }) // an error means that it has ended
			}
			return faultproxy.Pass()
		})
		command := func(through *jajeongtest.Deployment) *exec.Cmd {
			cmd := exec.Command(testenv.Build(t, "./cmd/settle"), append([]string{"coupon", "grant", id.String(),
				"--file=" + file, "--operator=kim", "--reason=test"}, through.Flags(through.Operator)...)...)
			cmd.Env = d.Environment()
			return cmd
		}
		cmd = command(through)
		require.NoError(t, cmd.Start())
		close(started)
		_ = cmd.Wait() // killed, or not: what counts is what it leaves
		d.SettleNow(id)
		code, output := d.RunToEnd(func() *exec.Cmd { return command(d) })
		require.Zero(t, code, output)
		d.SettleNow(id)
		where := "killed at request " + strconv.Itoa(at) + ": " + output
		require.EqualValues(t, len(listed), d.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", id), where)
		require.EqualValues(t, d.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NULL", id),
			d.Number("SELECT COUNT(*) FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id "+
				"WHERE u.coupon_id = ?", id), where)
		d.Verify(id)
		return int(turns.Load())
	}
	requests := kill(0, nil)
	require.Greater(t, requests, 20)
	step := max(1, requests/testenv.Rounds(8, 1000))
	for at := step; at <= requests; at += step {
		kill(at, faultproxy.DropRequest)
		kill(at, faultproxy.DropReply)
	}
	t.Logf("passed: a list of two pages with %d requests, killed at every %d", requests, step)
}
