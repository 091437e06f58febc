package systemtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// Of many immediate runs, an explanation has the one that issued the user's coupon or moved the application to the DLQ.
// It has nightly and manual runs as before.
func TestExplainNamesTheImmediateRunThatIssued(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(9, 1, 2)
	d.AddUsers(3, 4, 5)
	d.SetStatus(jajeongtest.Blocked, 2)
	for _, user := range []coupon.UserID{3, 4, 5} {
		require.Empty(t, d.IssueNow(couponID).Error)
		d.Apply(couponID, user)
	}
	d.SettleNow()
	runs := d.Runs(couponID)
	require.Len(t, runs, 4)
	explainer := &explain.Explainer{DB: d.DB, Redis: d.Store, Users: d.Users, Now: time.Now,
		Zone: jajeongtest.InZone(time.UTC)}
	for user, want := range map[coupon.UserID][]coupon.RunID{1: runs[:1], 2: {runs[0], runs[3]}, 3: runs[1:2],
		5: runs[3:]} {
		x, err := explainer.Explain(t.Context(), couponID, user)
		require.NoError(t, err)
		found := []coupon.RunID{}
		for _, r := range x.Facts.Runs {
			found = append(found, r.ID)
		}
		require.Equal(t, want, found, "user %d", user)
	}
}
