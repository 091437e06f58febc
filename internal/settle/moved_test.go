package settle_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/verify"
)

// A user was told an arrival before a cutoff, and then, by a server that did not know them, one after it. A restore has
// moved them to the first one. The run of this cutoff answers the first one alone, whoever ends its clean-up.
func TestSettle_AsksForThoseWhoAppliedAgainAfterTheCutoff(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"applied again": true, "applied once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddCoupon(1)
			d.AddUsers(1, 2)
			d.ApplyLine(id, 1, 2)
			d.Journal(id)
			cutoff := d.Now().Add(-30 * time.Second)
			later := coupon.ArrivalAt(cutoff) // the lowest arrival that the run does not settle
			if again {
				d.Exec("INSERT INTO line_journal (coupon_id, user_id, arrival) VALUES (?, 2, ?)", id, later)
			}
			order := jajeongtest.Manual(id)
			order.CutoffNow, order.Cutoff = false, cutoff
			s := d.Settler()
			settleIt := func() {
				_, err := s.RunOnce(t.Context(), order)
				require.NoError(t, err)
				require.Equal(t, []coupon.UserID{1}, d.Issued(id))
			}
			asked := func() bool { return d.Number("SELECT asked FROM journal WHERE coupon_id = ?", id) > 0 }

			settleIt()
			require.Equal(t, []coupon.UserID{2}, d.Outcome(id, "NOT_SELECTED"))
			require.Equal(t, again, asked(), "by the run")
			for by, clean := range map[string]func(){"the next run": settleIt,
				"settle serve": func() { require.NoError(t, s.CleanUp(t.Context(), id)) }} {
				d.Exec("UPDATE settlement SET cleaned_at = NULL")
				d.Exec("UPDATE journal SET asked = 0")
				require.NotContains(t, d.Findings(id), verify.PromiseLost, "it is to come")
				clean()
				require.Equal(t, again, asked(), "by %s", by)
				require.Equal(t, again, slices.Contains(d.Findings(id), verify.PromiseLost))
			}

			d.Restore(id)
			require.False(t, asked())
			if again {
				score, err := d.Redis.ZScore(t.Context(), d.Queue(id), "2").Result()
				require.NoError(t, err)
				require.EqualValues(t, later, score)
			}
			d.Verify(id)
			d.SettleNow()
			d.Verify(id)
		})
	}
}
