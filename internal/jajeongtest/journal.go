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
	store := d.newStore(servers.Redis)
	j := &journal.Journal{DB: mysqltx.New(servers.MySQL), Store: store}
	for _, id := range coupons {
		require.NoError(d.T, j.Begin(d.T.Context(), id))
		for more := true; more; {
			lines, err := store.Lines(d.T.Context(), []coupon.CouponID{id})
			require.NoError(d.T, err)
			copied, err := j.Copy(d.T.Context(), id, lines[id])
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
	store := d.newStore(servers.Redis)
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

// LoseRedis deletes all keys of coupons.
func (d *Deployment) LoseRedis(coupons ...coupon.CouponID) {
	d.T.Helper()
	for _, id := range coupons {
		for _, kind := range []string{"state", "issued", "rejected", "dlq", "dlq:reason"} {
			require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Key(kind, id)).Err())
		}
		require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Queue(id)).Err())
	}
}
