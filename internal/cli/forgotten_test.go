package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPurge_IsSaidByReportsAndRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 7)...)
	id := w.ended()
	w.Exec("UPDATE coupon SET campaign_id = 7 WHERE id = ?", id)
	w.purge("--yes")
	month := w.month()
	for _, c := range []struct {
		says string
		args []string
	}{
		{"was purged at 2", []string{"report", "--coupon=" + id.String(), month}},
		{"every coupon of campaign 7 was purged", []string{"report", "--campaign=7"}},
		{"was purged, or its purge has begun", []string{"run", "--coupon=" + id.String(), "--operator=kim", "--reason=test"}},
		{"was purged, or its purge has begun", []string{"run", "--coupon=" + id.String(), "--dry-run"}},
		{"no coupon belongs to campaign 8", []string{"report", "--campaign=8"}},
	} {
		code, _, stderr := w.settle(append(c.args, "--lang=en")...)
		require.Equal(t, exitUse, code, c.args)
		require.Contains(t, stderr, c.says, c.args)
		require.NotContains(t, stderr, "does not exist")
	}
}

// Forgotten applications are in no figure of a report. The report says so.
func TestReport_SaysWhatWasForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 7)...)
	id := w.ended()
	_, _, stderr := w.forget("5")
	require.Empty(t, stderr)
	month := w.month()
	says := fmt.Sprintf("coupon %d: 1 application of the whole coupon", id)
	for output, want := range map[string]string{"table": says, "html": says, "json": `"erased": 1`, "csv": ",1\n"} {
		_, stdout, _ := w.settle("report", month, "--lang=en", "--output="+output)
		require.Contains(t, strings.ReplaceAll(stdout, "\r\n", "\n"), want)
	}
}
