package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Verbs that only read do so on a server that takes no writes, as a replica, whatever they find.
func TestVerbs_ReadFromReadOnlyServer(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t,
		testenv.PrivateMySQL(t, testenv.MySQLOptions{}))})
	couponID := w.AddCoupon(2)
	w.AddUsers(1, 2, 3)
	w.Apply(couponID, 3, 1, 2)
	w.SettleNow()
	lost := w.AddCoupon(2)
	w.Apply(lost, 1, 2)
	require.NoError(t, w.Redis.ZRem(t.Context(), w.Queue(lost), "1").Err())
	w.Exec("SET GLOBAL read_only = 1")
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitInvariant, []string{"verify"}},
		{exitDone, []string{"report", w.month()}},
		{exitDone, []string{"report", w.date(), "--output=json"}},
		{exitDone, []string{"explain", "--coupon=1", "--user=3"}},
		{exitDone, []string{"runs"}},
		{exitDone, []string{"show", "1"}},
		{exitDone, []string{"coupon", "list"}},
		{exitDone, []string{"coupon", "show", "1"}},
		{exitDone, []string{"dlq", "list"}},
	} {
		code, stdout, stderr := w.settle(c.args...)
		require.Equal(t, c.code, code, "%v: %s%s", c.args, stdout, stderr)
		require.NotContains(t, stderr, "read-only")
		require.Equal(t, c.args[0] == "verify", strings.Contains(stderr, "the result was not noted"), stderr)
	}
}
