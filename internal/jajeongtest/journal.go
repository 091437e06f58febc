package jajeongtest

import (
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Journal copies the lines of coupons to the journal until nothing is left to copy, under the account of the
// settlement.
func (d *Deployment) Journal(coupons ...coupon.CouponID) {
	d.T.Helper()
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Settling, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	defer servers.Close()
	store := d.NewStore(servers.Redis)
	j := &journal.Journal{DB: mysqltx.New(servers.MySQL), Store: store}
	for _, id := range coupons {
		require.NoError(d.T, j.Begin(d.T.Context(), id))
		var progress journal.Progress
		for more := true; more; {
			copied, err := j.Copy(d.T.Context(), id, &progress)
			require.NoError(d.T, err)
			more = copied.More || copied.Busy
		}
	}
}

// Restorer is a restorer with connections of its own under the account of the settlement.
func (d *Deployment) Restorer() *journal.Restorer {
	d.T.Helper()
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Settling, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(servers.Close)
	store := d.NewStore(servers.Redis)
	return &journal.Restorer{DB: mysqltx.New(servers.MySQL), Line: store,
		Ledger: &ledger.Ledger{Store: store}, Now: time.Now}
}

// Restore puts back the applications of a coupon that Redis has lost.
func (d *Deployment) Restore(couponID coupon.CouponID) journal.Restored {
	d.T.Helper()
	done, err := d.Restorer().Restore(d.T.Context(), journal.Order{Coupon: couponID})
	require.NoError(d.T, err)
	return done
}

// Look is what Redis says of a coupon, which stays unchanged.
func (d *Deployment) Look(couponID coupon.CouponID) coupon.Look {
	d.T.Helper()
	found, err := d.Store.Observe(d.T.Context(), couponID, 0)
	require.NoError(d.T, err)
	return found
}

// SetLast writes the highest arrival of a coupon into Redis.
func (d *Deployment) SetLast(couponID coupon.CouponID, last coupon.Arrival) {
	d.T.Helper()
	require.NoError(d.T, d.Redis.HSet(d.T.Context(), d.Key("state", couponID), "last", int64(last)).Err())
}

// LoseRedis deletes all keys of coupons.
func (d *Deployment) LoseRedis(coupons ...coupon.CouponID) {
	d.T.Helper()
	for _, id := range coupons {
		require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Keys(id)...).Err())
	}
}
