package catalog_test

import (
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/testenv"
)

// While nothing changes, refreshes of several processes write no byte to the append-only file or to MySQL.
func TestIdleRefreshesWriteNothing(t *testing.T) {
	w := newWorld(t)
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	w.redis.Client, w.redis.Prefix = client, ""
	w.store, w.catalog = w.process()
	const coupons = 60
	for id := range uint64(coupons) {
		w.coupon(id + 1)
	}
	w.couponBetween(coupons+1, "-2 HOUR", "-1 HOUR") // its end moves with the clock
	w.couponBetween(coupons+2, "1 HOUR", "2 HOUR")
	w.refresh()
	for id := range uint64(coupons) {
		require.Equal(t, candidates.Accepted, w.apply(id+1, 7).Code)
	}
	w.refresh()

	pods := []*catalog.Catalog{w.catalog}
	for range 2 {
		_, pod := w.process()
		pods = append(pods, pod)
	}
	state := func() (file string, promises string) {
		info, err := client.Info(t.Context(), "persistence").Result()
		require.NoError(t, err)
		err = w.db.QueryRowContext(t.Context(), "SELECT CONCAT_WS(' ', COUNT(*), SUM(accepted), MAX(seen_at)) FROM promise").Scan(&promises)
		require.NoError(t, err)
		return regexp.MustCompile(`aof_current_size:\d+`).FindString(info), promises
	}
	file, promises := state()
	require.NotEmpty(t, file)
	for range 4 {
		for _, pod := range pods {
			require.NoError(t, pod.Refresh(t.Context()))
		}
	}
	fileNow, promisesNow := state()
	require.Equal(t, file, fileNow)
	require.Equal(t, promises, promisesNow)

	// What changes is written, also over a snapshot that is not this one.
	w.exec("UPDATE coupon SET issued_count = 1 WHERE id = 1")
	require.NoError(t, pods[1].Refresh(t.Context()))
	changed, _ := state()
	require.NotEqual(t, file, changed)
	require.NoError(t, w.store.SaveCatalog(t.Context(), []byte(`{"digest":"","at":"2020-01-01T00:00:00Z","coupons":[]}`)))
	require.NoError(t, pods[2].Refresh(t.Context()))
	saved, err := catalog.Snapshot{Store: w.store}.Coupons(t.Context())
	require.NoError(t, err)
	require.Len(t, saved, coupons+2)
	require.EqualValues(t, 1, saved[0].IssuedCount)
}
