package settle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// A failover may leave of a night its run without the end, as of one that died, beside an earlier run of the same
// cutoff: MySQL does not have the end of this one.
func TestHasEnded_KnowsWhetherMySQLHasTheEndOfTheNight(t *testing.T) {
	t.Parallel()
	w := jajeongtest.New(t)
	settler := w.Settler()
	night := settle.Order{Trigger: coupon.Cron}
	earlier, err := settler.RunOnce(t.Context(), night)
	require.NoError(t, err)
	report, err := settler.RunOnce(t.Context(), night)
	require.NoError(t, err)
	require.Equal(t, earlier.Cutoff, report.Cutoff)
	has := func() bool {
		ended, err := settler.HasEnded(t.Context(), report.Nonce)
		require.NoError(t, err)
		return ended
	}
	require.True(t, has())
	w.Exec("UPDATE settlement_run SET status = 'ABANDONED', finished_at = NULL WHERE id = ?", report.Run)
	require.False(t, has())
	w.Exec("DELETE FROM settlement_run WHERE id = ?", report.Run)
	require.False(t, has())
}
