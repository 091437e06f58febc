package connect_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// openStore returns a store by settings as a program has them.
func openStore(t *testing.T, settings connect.RedisSettings) *candidates.Store {
	t.Helper()
	require.NoError(t, settings.Validate())
	client, err := settings.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	store, err := candidates.NewStore(client, candidates.Options{})
	require.NoError(t, err)
	return store
}

// One address is enough for a Cluster. The account of the programs suffices to see that a server is none.
func TestRedis_OneAddress(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 3)
	alone := testenv.PrivateRedis(t, testenv.RedisOptions{})
	users := testenv.RedisUsersFor(t, testenv.RedisClient(t, alone.Addr()), "", docs.RedisUsers)
	for _, node := range nodes {
		users.MakeOn(testenv.RedisClient(t, node.Addr()))
	}
	name, password := users.As("jajeong_api")
	shards := map[string]bool{}
	for _, address := range []string{nodes[1].Addr(), alone.Addr()} {
		store := openStore(t, connect.RedisSettings{RedisAddrs: []string{address},
			RedisAccess: connect.RedisAccess{RedisUsername: name, RedisPasswordFile: testenv.SecretFile(t, password)}})
		for id := range coupon.CouponID(20) {
			_, err := store.Time(t.Context(), id+1)
			require.NoError(t, err)
			shards[store.Shard(id+1)] = true
		}
	}
	want := map[string]bool{alone.Addr(): true}
	for _, node := range nodes {
		want[node.Addr()] = true
	}
	require.Equal(t, want, shards)
}

func TestRedis_SentinelsWithPassword(t *testing.T) {
	t.Parallel()
	const name = "line"
	master := testenv.PrivateRedis(t, testenv.RedisOptions{})
	sentinel := topology.StartSentinel(t, name, master)
	admin := redis.NewClient(&redis.Options{Addr: sentinel.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = admin.Close() })
	for _, user := range [][]any{{"watcher", "on", ">secret", "allchannels", "+@all"}, {"default", "off"}} {
		require.NoError(t, admin.Do(t.Context(), append([]any{"acl", "setuser"}, user...)...).Err())
	}
	settings := connect.RedisSettings{RedisAddrs: []string{sentinel.Addr()}, RedisAccess: connect.RedisAccess{
		RedisMasterName: name, RedisSentinelUsername: "watcher",
		RedisSentinelPasswordFile: testenv.SecretFile(t, "secret")}}
	_, err := openStore(t, settings).Now(t.Context())
	require.NoError(t, err)
	for _, password := range []string{"", testenv.SecretFile(t, "wrong")} {
		settings.RedisSentinelPasswordFile = password
		_, err := openStore(t, settings).Now(t.Context())
		require.Error(t, err)
		require.Equal(t, coupon.Setup, mysqltx.ClassOf(err), "%v", err)
	}
}
