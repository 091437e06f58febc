package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/verify"
)

// The server of the tests has no replica. Verbs that may write refuse it if they are to; a check says why.
func TestRequireDurable_RefusesVerbsThatMayWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1, 1, 2)
	for _, args := range [][]string{{"run"}, {"run", "--dry-run"}, {"serve"},
		{"coupon", "add-seats", id.String(), "--seats=1", "--operator=kim", "--reason=R-1"}} {
		code, stdout, stderr := w.settle(append(args, "--require-durable")...)
		require.Equal(t, exitUse, code, "%s\n%s%s", args, stdout, stderr)
		require.Contains(t, stderr, "SETTLE_REQUIRE_DURABLE=true")
		require.Regexp(t, "rpl_semi_sync_(master|source)_enabled=(OFF|\\?) → ON", stderr)
	}
	require.Empty(t, w.Issued(id))

	code, stdout, stderr := w.settle("verify", "--require-durable", "--output=json")
	require.Equal(t, exitDone, code, stderr)
	var found verify.Summary
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.NotEmpty(t, found.Durability)
	require.Contains(t, []durability.Code{durability.Weak, durability.Unknown}, found.Durability[0].Code)
	code, stdout, stderr = w.settle("verify", "--coupon="+id.String(), "--output=json")
	require.Equal(t, exitDone, code, stderr)
	require.NotContains(t, stdout, "durability", "of one coupon")
}
