package settle_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// newMoved is a coupon with one seat, which user 1 has. User 2 was told an arrival before the cutoff of a run that did
// not select them, and one at it. It returns both.
func newMoved(t *testing.T) (d *jajeongtest.Deployment, id coupon.CouponID, first, later coupon.Arrival) {
	t.Helper()
	d = jajeongtest.New(t)
	id = d.AddCoupon(1)
	d.AddUsers(1, 2)
	d.ApplyLine(id, 1, 2)
	d.Journal(id)
	cutoff := d.Now().Add(-30 * time.Second)
	first, later = d.Arrivals(id)["2"], coupon.ArrivalAt(cutoff)
	d.Exec("INSERT INTO line_journal (coupon_id, user_id, arrival) VALUES (?, 2, ?)", id, later)
	order := jajeongtest.Manual(id)
	order.CutoffNow, order.Cutoff = false, cutoff
	_, err := d.Settle(order)
	require.NoError(t, err)
	require.Equal(t, []coupon.UserID{2}, d.Outcome(id, "NOT_SELECTED"))
	return d, id, first, later
}

// The run was killed before its end, and the next one is that of the last night.
func TestSettle_FinalisesNoCouponWhoseCleanUpAsks(t *testing.T) {
	t.Parallel()
	d, id, first, later := newMoved(t)
	d.Exec("UPDATE settlement SET cleaned_at = NULL")
	d.Exec("UPDATE journal SET asked = 0")
	d.SetWindow(id, d.Now().Add(-2*time.Hour), d.Now())
	d.SettleAs(jajeongtest.Manual(id), coupon.Infrastructure)
	require.Equal(t, map[string]coupon.Arrival{"2": later}, d.Arrivals(id))
	d.SettleNow(id)
	require.EqualValues(t, 1, d.Number("SELECT COUNT(finalised_at) FROM coupon"))
	require.Equal(t, []coupon.Arrival{first, later}, jajeongtest.Column[coupon.Arrival](d,
		"SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) FROM application_outcome ORDER BY applied_at"))
	d.Verify()
}

// A replica takes over that lacks the clean-up: the user stands at the settled arrival again. Whoever takes them away
// asks again.
func TestSettle_AsksForThoseWhomAServerHadBroughtBack(t *testing.T) {
	t.Parallel()
	d, id, first, later := newMoved(t)
	accepted := d.Look(id).Accepted
	d.Restore(id)
	d.PodsDie()
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(id), redis.Z{Score: float64(first), Member: "2"}).Err())
	d.AddPromises(id, accepted-d.Look(id).Accepted)
	d.FailOver(id)
	d.Restore(id)
	require.Equal(t, map[string]coupon.Arrival{"2": first}, d.Arrivals(id))
	d.SettleNow(id)
	require.Empty(t, d.Arrivals(id))
	require.Positive(t, d.Number("SELECT asked FROM journal"))
	d.Restore(id)
	require.Equal(t, map[string]coupon.Arrival{"2": later}, d.Arrivals(id))
	d.Verify()
}
