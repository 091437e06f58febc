package cli

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// The users of Redis may do no more than their programs need. The programs' own tests log in as them.
func TestRedisUsers_RefuseEverythingElse(t *testing.T) {
	t.Parallel()
	const prefix = "shop:"
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	users := testenv.RedisUsersFor(t, jajeongtest.RedisAt(t, server.Addr()).Client, prefix, docs.RedisUsers)
	as := func(name string) *redis.Client {
		username, password := users.As(name)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: username, Password: password,
			MaxRetries: -1, DisableIdentity: true})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	words := func(command string) (all []any) {
		for word := range strings.FieldsSeq(command) {
			all = append(all, word)
		}
		return all
	}
	consumer := as("jajeong_consumer")
	may := func(client *redis.Client, command string) {
		require.NoError(t, client.Do(t.Context(), words(command)...).Err(), command)
	}
	may(consumer, "XGROUP CREATE shop:coupon:events shop 0 MKSTREAM")
	relay := as("jajeong_settle")
	for _, command := range []string{"XADD shop:coupon:events 1-1 event x", "XRANGE shop:coupon:events 1-1 1-1",
		"XINFO STREAM shop:coupon:events"} {
		may(relay, command)
	}
	for _, command := range []string{
		"XREADGROUP GROUP shop one COUNT 10 BLOCK 1 STREAMS shop:coupon:events >", "XPENDING shop:coupon:events shop",
		"XPENDING shop:coupon:events shop - + 10",
		"XAUTOCLAIM shop:coupon:events shop two 0 0", "XADD shop:coupon:events:dlq 1-1 event x",
		"XACK shop:coupon:events shop 1-1",
		"XINFO STREAM shop:coupon:events", "XINFO GROUPS shop:coupon:events", "XINFO CONSUMERS shop:coupon:events shop",
		"XGROUP SETID shop:coupon:events shop 1-1 ENTRIESREAD 1", "XLEN shop:coupon:events:dlq",
		"XRANGE shop:coupon:events:dlq - +", "XDEL shop:coupon:events:dlq 1-1",
	} {
		may(consumer, command)
	}
	// What docs/security.md says of a stolen account of apply-api.
	api := as("jajeong_api")
	for _, command := range []string{
		"ZADD shop:candidates:coupon:1 1 7", "ZADD shop:candidates:coupon:1 XX 2 7",
		"HSET state:{shop:candidates:coupon:1} status PAUSED",
		"HDEL state:{shop:candidates:coupon:1} status", "EXPIREAT state:{shop:candidates:coupon:1} 1",
		"EXPIREAT shop:candidates:coupon:1 1",
		"ZADD returned:{shop:candidates:coupon:1} LT 1 7", "SET shop:catalog:coupons x",
		"GETRANGE shop:catalog:coupons 0 1", "GET shop:catalog:coupons",
	} {
		may(api, command)
	}
	nobody := []string{
		"FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG GET *", "ACL LIST", "SHUTDOWN", "REPLICAOF NO ONE", "FAILOVER",
		"CLUSTER RESET",
		"DEL shop:candidates:coupon:1", "RENAME shop:candidates:coupon:1 x", "SCRIPT FLUSH", "CLIENT KILL TYPE normal",
		"PUBLISH x y", "MONITOR",
		// No prefix, and keys of others.
		"ZADD candidates:coupon:1 1 1", "HSET state:{candidates:coupon:1} sold 1", "GET catalog:coupons",
		"ZADD other 1 1",
		"XADD coupon:events * event x", "DEL shop:coupon:events", "UNLINK shop:coupon:events",
		"EXPIRE shop:coupon:events 1", "SET shop:coupon:events x",
		"XSETID shop:coupon:events 9-9", "XGROUP DESTROY shop:coupon:events shop", "XDEL shop:coupon:events 1-1",
	}
	own := map[string][]string{
		"jajeong_api": {"ZREM shop:candidates:coupon:1 1", "UNLINK shop:candidates:coupon:1", "SCAN 0",
			"SET shop:candidates:coupon:1 x", "SET state:{shop:candidates:coupon:1} x",
			"SET issued:{shop:candidates:coupon:1} x", "SET dlq:{shop:candidates:coupon:1} x",
			"HSET shop:candidates:coupon:1 a 1", "HSET dlq:reason:{shop:candidates:coupon:1} 1 x",
			"HDEL dlq:reason:{shop:candidates:coupon:1} 7", "ZREM returned:{shop:candidates:coupon:1} 7",
			"ZADD issued:{shop:candidates:coupon:1} 1 7",
			"HSET shop:catalog:coupons a 1",
			"ZADD dlq:{shop:candidates:coupon:1} 1 1", "ZADD state:{shop:candidates:coupon:1} 1 1",
			"ZADD shop:catalog:coupons 1 1",
			"SADD issued:{shop:candidates:coupon:1} 1", "SADD rejected:{shop:candidates:coupon:1} 1",
			"SSCAN issued:{shop:candidates:coupon:1} 0",
			"EXPIREAT issued:{shop:candidates:coupon:1} 1", "EXPIREAT rejected:{shop:candidates:coupon:1} 1",
			"EXPIREAT dlq:{shop:candidates:coupon:1} 1",
			"EXPIREAT dlq:reason:{shop:candidates:coupon:1} 1", "EXPIREAT shop:catalog:coupons 1",
			"HDEL shop:catalog:coupons a", "SCRIPT LOAD x"},
		"jajeong_settle": {"SET shop:catalog:coupons x", "GETRANGE shop:catalog:coupons 0 1",
			"XREAD STREAMS shop:coupon:events 0", "XADD shop:coupon:events:dlq * event x",
			"XTRIM shop:candidates:coupon:1 MAXLEN 0", "UNLINK shop:catalog:coupons", "EXPIRE shop:catalog:coupons 1",
			"SADD shop:catalog:coupons 1"},
		"jajeong_consumer": {"XADD shop:coupon:events * event x", "XTRIM shop:coupon:events MAXLEN 0",
			"XTRIM shop:coupon:events:dlq MAXLEN 0",
			"XREADGROUP GROUP shop one STREAMS shop:coupon:events:dlq >", "GET shop:catalog:coupons", "INFO", "TIME",
			"SCAN 0",
			"EVAL return(1) 0", "EVAL return(1) 1 shop:coupon:events", "EVAL_RO return(1) 0", "EVALSHA x 0",
			"SCRIPT LOAD x", "FCALL x 0"},
	}
	for name, more := range own {
		client := as(name)
		for _, command := range append(nobody, more...) {
			err := client.Do(t.Context(), words(command)...).Err()
			require.True(t, redis.HasErrorPrefix(err, "NOPERM"), "%s: %s: %v", name, command, err)
			if script := "return redis.call(unpack(ARGV))"; command != "SHUTDOWN" && command != "MONITOR" {
				err = client.Eval(t.Context(), script, nil, words(command)...).Err()
				require.Error(t, err, "%s: %s in a script", name, command)
			}
		}
		if name != "jajeong_consumer" {
			require.NoError(t, client.Info(t.Context(), "memory").Err())
		}
	}
}

func TestRun_NamesMissingRedisRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	w.Apply(w.AddCoupon(1), 1)
	username, _ := w.RedisUsers.As("jajeong_settle")
	require.NoError(t, w.Redis.ACLSetUser(t.Context(), username, "-zrange").Err())
	refused(t, "docs/redis-users.acl")(w.settle("run", "--cutoff=now", "--operator=kim", "--reason=test"))
	require.NoError(t, w.Redis.ACLSetUser(t.Context(), username, "+zrange").Err())
	w.settleNow()
}
