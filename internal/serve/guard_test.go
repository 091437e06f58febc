package serve

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// finalisedWith makes a coupon of which users 1 and 2 have the two seats and 3 has none. It was just finalised.
func finalisedWith(d *jajeongtest.Deployment) coupon.CouponID {
	d.T.Helper()
	d.AddUsers(1, 2, 3, 4)
	id := d.AddCoupon(2)
	d.Apply(id, 1, 2, 3)
	d.Journal(id)
	d.SetWindow(id, d.Now().Add(-time.Hour), d.Now())
	d.SettleNow(id)
	require.True(d.T, isFinalised(d, id))
	return id
}

func isFinalised(d *jajeongtest.Deployment, id coupon.CouponID) bool {
	d.T.Helper()
	return d.Number("SELECT COUNT(*) FROM coupon WHERE id = ? AND finalised_at IS NOT NULL", id) == 1
}

// Another Redis server lacks the last seconds: it does not know that the coupon was closed or settled.
func TestGuard_TakesBackAnEndThatRedisDoesNotHave(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(d *jajeongtest.Deployment, id coupon.CouponID){
		"somebody stands who was settled": func(d *jajeongtest.Deployment, id coupon.CouponID) {
			d.ApplyAt(id, "1", d.Now().Add(-time.Minute))
		},
		"a server without the last seconds": func(d *jajeongtest.Deployment, id coupon.CouponID) {
			require.NoError(d.T, d.Redis.HDel(d.T.Context(), d.Key("state", id), "final").Err())
		},
		"somebody was handed over": func(d *jajeongtest.Deployment, id coupon.CouponID) {
			require.NoError(d.T, d.Redis.ZAdd(d.T.Context(), d.Key("returned", id),
				redis.Z{Score: 1, Member: "1"}).Err())
		},
		"an empty server": func(d *jajeongtest.Deployment, id coupon.CouponID) {
			require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Key("state", id)).Err())
		},
		"a pod has asked": func(d *jajeongtest.Deployment, id coupon.CouponID) {
			d.Exec("UPDATE journal SET asked = 1 WHERE coupon_id = ?", id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := finalisedWith(d)
			task := newJournalTask(d)
			require.NoError(t, task.guard(t.Context()))
			require.True(t, isFinalised(d, id), "the server has the end")
			require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "run_id", "another").Err())
			require.NoError(t, task.guard(t.Context()))
			require.True(t, isFinalised(d, id), "its replica has it, too")
			forget(d, id)
			require.NoError(t, task.guard(t.Context()))
			require.False(t, isFinalised(d, id))
			require.Equal(t, []audit.Payload{audit.Unfinalised{LostEnd: true}},
				d.Payloads(id, audit.CouponUnfinalised))
		})
	}
}

// The end was taken back once, somebody else was settled, and MySQL loses that: it knows the first end. The marks tell.
func TestGuard_TakesBackAnEarlierEnd(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2)
	id := d.AddCoupon(3)
	d.Apply(id, 1)
	d.Journal(id)
	d.SetWindow(id, d.Now().Add(-time.Hour), d.Now())
	d.SettleNow(id)
	require.True(t, isFinalised(d, id))
	before, err := d.CopyTables(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.Redis.HDel(t.Context(), d.Key("state", id), "final").Err())
	d.ApplyAt(id, "2", d.Now().Add(-time.Minute))
	task := newJournalTask(d)
	require.NoError(t, task.guard(t.Context()))
	d.SettleNow(id)
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	require.True(t, isFinalised(d, id))

	d.PutTablesBack(before)
	d.PodsDie()
	require.Equal(t, []coupon.UserID{1}, d.Issued(id))
	require.NoError(t, newJournalTask(d).guard(t.Context()))
	require.False(t, isFinalised(d, id))
	d.SettleNow(id) // which restores first
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	require.True(t, isFinalised(d, id))
	require.NoError(t, newJournalTask(d).guard(t.Context()))
	require.True(t, isFinalised(d, id))
}

// MySQL loses seats that were added, and a winner stands as not selected. The coupon ends once it has the seat again.
func TestGuard_WaitsForLostSeats(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := finalisedWith(d)
	before, err := d.CopyTables(t.Context())
	require.NoError(t, err)
	more := func() {
		_, err := d.CouponAdmin().AddSeats(t.Context(), id, 1)
		require.NoError(t, err)
		d.SettleNow(id)
		require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
		require.True(t, isFinalised(d, id))
	}
	more()
	d.PutTablesBack(before)
	for range 2 {
		require.NoError(t, newJournalTask(d).guard(t.Context()))
		require.False(t, isFinalised(d, id))
		d.SettleNow(id)
		require.False(t, isFinalised(d, id), "who was told a seat has none")
	}
	require.Len(t, d.Payloads(id, audit.CouponUnfinalised), 1, "the end is taken back once")
	more()
	require.NoError(t, newJournalTask(d).guard(t.Context()))
	require.True(t, isFinalised(d, id))
}

// Redis goes back to before the closing, and pods accept somebody there.
func TestGuard_WhoWasAcceptedAfterTheEndIsSettled(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4)
	id := d.AddCoupon(5)
	d.Apply(id, 1, 2, 3)
	d.Journal(id)
	before := d.Redis.Dump(t.Context(), d.Key("state", id)).Val()
	d.SetWindow(id, d.Now().Add(-time.Hour), d.Now())
	d.SettleNow(id)
	require.True(t, isFinalised(d, id))
	require.NoError(t, d.Redis.RestoreReplace(t.Context(), d.Key("state", id), 0, before).Err())
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "run_id", "another", "closes",
		d.Now().Add(time.Hour).UnixMicro()).Err())
	d.Apply(id, 4)

	task := newJournalTask(d)
	require.NoError(t, task.guard(t.Context()))
	require.False(t, isFinalised(d, id))
	task.await("the server is restored", func() bool { return d.Look(id).Restored })
	d.SettleNow(id)
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, d.Issued(id))
	require.True(t, isFinalised(d, id))
	d.Verify(id)
}

// A coupon for which nobody ever applied has nothing to lose. One that was finalised before is not looked at.
func TestGuard_LeavesTheOthers(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	old := finalisedWith(d)
	d.Exec("UPDATE coupon SET finalised_at = finalised_at - INTERVAL 10 MINUTE")
	empty := d.AddCoupon(2)
	d.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ?", empty)
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("state", old), d.Key("state", empty)).Err())
	require.NoError(t, newJournalTask(d).guard(t.Context()))
	require.True(t, isFinalised(d, old))
	require.True(t, isFinalised(d, empty))
}
