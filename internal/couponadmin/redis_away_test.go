package couponadmin_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

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
			if c.code == candidates.Closed { // whoever is accepted before the pods publish it stands in the window
				testenv.Eventually(t, "the window ends", func() bool { return d.Now().After(made.After.ClosesAt) })
			}
			require.Equal(t, c.code, d.Answer(id, 3))
			d.Restore(id)
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
			d.Verify()
		})
	}
}

// Redis is away. A row that lies further ahead than an arrival can does not move the end of the window.
func TestClose_BelievesNoArrivalFromTheFuture(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	admin, inWindow := d.CouponAdmin(), coupon.ArrivalAt(d.Now().Add(30*time.Minute))
	journalled := []coupon.CouponID{}
	for _, arrival := range []uint64{uint64(inWindow), uint64(coupon.MaxArrival), math.MaxUint64} {
		id := d.AddCoupon(1)
		d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, 1)", id, arrival)
		d.Exec("INSERT INTO journal (coupon_id, up_to) VALUES (?, ?)", id, min(arrival, uint64(coupon.MaxArrival)))
		journalled = append(journalled, id)
	}
	require.NoError(t, server.Kill())

	for _, id := range journalled {
		made, err := admin.Close(t.Context(), id)
		require.NoError(t, err)
		require.True(t, made.After.ClosesAt.Before(inWindow.Time()), made.After.ClosesAt)
	}
}

// awayAtTheEnd is a Redis that goes away before it closes a window.
type awayAtTheEnd struct{ couponadmin.Redis }

func (awayAtTheEnd) StopApplying(context.Context, coupon.Window, coupon.Arrival, bool) (int64, time.Time, error) {
	return 0, time.Time{}, &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("away")}
}

// An arrival that MySQL knows, or a clock that has passed the end meanwhile, lets no closed coupon open again.
func TestClose_MovesNoEndToALaterInstant(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	admin, id := d.CouponAdmin(), d.AddCoupon(1)
	admin.Redis = awayAtTheEnd{admin.Redis}
	d.Exec("INSERT INTO settled (coupon_id, settled_up_to) VALUES (?, ?)", id,
		coupon.ArrivalAt(couponOf(d, id).ClosesAt.Add(time.Second)))
	made, err := admin.Close(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, made.Before.ClosesAt, made.After.ClosesAt)
}

func couponOf(d *jajeongtest.Deployment, id coupon.CouponID) (c coupon.Coupon) {
	d.T.Helper()
	require.NoError(d.T, d.DB.QueryRow("SELECT "+coupon.ColumnsWithKnown+" FROM coupon c WHERE c.id = ?",
		id).Scan(c.FieldsWithKnown()...))
	return c
}
