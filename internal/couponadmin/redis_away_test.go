package couponadmin_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// The door is shut while Redis is away. As soon as Redis is back, the next refresh of a catalog makes it follow, with
// whatever data Redis comes back, and although an earlier change of the window, which was not committed, had a later
// version.
func TestDoor_IsShutWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		code       candidates.Code
		shut       func(a *couponadmin.Admin, ctx context.Context, id coupon.CouponID) (*couponadmin.Change, error)
		options    testenv.RedisOptions
		rolledBack bool
	}{
		{"closed, its data", candidates.Closed, (*couponadmin.Admin).Close, testenv.RedisOptions{AppendOnly: true},
			true},
		{"paused, no data", candidates.Paused, (*couponadmin.Admin).Pause, testenv.RedisOptions{}, true},
		{"closed, no data", candidates.Closed, (*couponadmin.Admin).Close, testenv.RedisOptions{}, false},
		{"paused, its data", candidates.Paused, (*couponadmin.Admin).Pause, testenv.RedisOptions{AppendOnly: true},
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.PrivateRedis(t, c.options)
			d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
			d.AddUsers(1, 2, 3)
			id := d.AddCoupon(2)
			d.Apply(id, 1, 2)
			d.Journal(id)
			d.Refresh()
			if c.rolledBack { // Redis has a version that no row has
				_, _, err := d.Store.StopApplying(t.Context(), couponOf(d, id).Window(), 0, true)
				require.NoError(t, err)
			}
			last := d.Arrivals(id)["2"]
			admin := d.CouponAdmin()
			require.NoError(t, server.Kill())

			made, err := c.shut(admin, t.Context(), id)
			require.NoError(t, err)
			require.True(t, made.Changed)
			require.Error(t, made.PublishErr)
			require.Equal(t, made.Before.Version+1, made.After.Version)
			if c.code == candidates.Closed {
				require.Greater(t, coupon.ArrivalAt(made.After.ClosesAt), last)
				require.True(t, made.After.ClosesAt.Before(made.Before.ClosesAt))
			}
			again, err := c.shut(admin, t.Context(), id)
			require.NoError(t, err)
			require.False(t, again.Changed)

			require.NoError(t, server.Restart(t.Context()))
			d.Refresh()
			require.Equal(t, c.code, d.Answer(id, 3))
			d.Restore(id)
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
			d.Verify()
		})
	}
}

func couponOf(d *jajeongtest.Deployment, id coupon.CouponID) (c coupon.Coupon) {
	d.T.Helper()
	require.NoError(d.T, d.DB.QueryRow("SELECT "+coupon.ColumnsWithKnown+" FROM coupon c WHERE c.id = ?",
		id).Scan(c.FieldsWithKnown()...))
	return c
}
