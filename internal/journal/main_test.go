package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// dump copies what Redis has of a coupon, and load puts it back, as a replica or a file of yesterday does.
func dump(d *jajeongtest.Deployment, id coupon.CouponID) map[string]string {
	d.T.Helper()
	copied := map[string]string{}
	for _, key := range keys(d, id) {
		value, err := d.Redis.Dump(d.T.Context(), key).Result()
		if !errors.Is(err, redis.Nil) {
			require.NoError(d.T, err)
			copied[key] = value
		}
	}
	return copied
}

// load begins an epoch, because the server that loads a file has a run_id of its own.
func load(d *jajeongtest.Deployment, id coupon.CouponID, copied map[string]string) {
	d.T.Helper()
	d.LoseRedis(id)
	for key, value := range copied {
		require.NoError(d.T, d.Redis.RestoreReplace(d.T.Context(), key, time.Hour, value).Err())
	}
	require.NoError(d.T, d.Redis.HSet(d.T.Context(), d.Key("state", id), "run_id",
		"0123456789012345678901234567890123456789").Err())
}

func keys(d *jajeongtest.Deployment, id coupon.CouponID) []string {
	all := []string{d.Queue(id)}
	for _, kind := range []string{"state", "issued", "rejected", "dlq", "dlq:reason"} {
		all = append(all, d.Key(kind, id))
	}
	return all
}

func answers(arrival coupon.Arrival, user coupon.UserID) []candidates.Answer {
	return []candidates.Answer{{User: user, Arrival: arrival}}
}

// journalOf is the journal of a `settle serve`.
func journalOf(d *jajeongtest.Deployment) *journal.Journal {
	d.T.Helper()
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Brief, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(servers.Close)
	store, err := candidates.NewStore(servers.Redis,
		candidates.Options{KeyPrefix: d.Prefix, PutBackTime: jajeongtest.PutBackTime})
	require.NoError(d.T, err)
	return &journal.Journal{DB: mysqltx.NewBrief(servers.MySQL), Store: store}
}
