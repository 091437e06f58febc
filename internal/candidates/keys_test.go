package candidates

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Other programs rely on these names to the letter.
func TestKeyNamesMatchContract(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr())
	want := map[string]string{}
	for _, deployment := range []struct {
		prefix string
		coupon coupon.CouponID
		want   map[string]string
	}{
		{"", 42, map[string]string{
			"candidates:coupon:42":              "zset",
			"state:{candidates:coupon:42}":      "hash",
			"issued:{candidates:coupon:42}":     "zset",
			"rejected:{candidates:coupon:42}":   "set",
			"dlq:{candidates:coupon:42}":        "zset",
			"dlq:reason:{candidates:coupon:42}": "hash",
			"returned:{candidates:coupon:42}":   "zset",
			"catalog:coupons":                   "string",
		}},
		{"shop:", math.MaxUint64, map[string]string{
			"shop:candidates:coupon:18446744073709551615":              "zset",
			"state:{shop:candidates:coupon:18446744073709551615}":      "hash",
			"issued:{shop:candidates:coupon:18446744073709551615}":     "zset",
			"rejected:{shop:candidates:coupon:18446744073709551615}":   "set",
			"dlq:{shop:candidates:coupon:18446744073709551615}":        "zset",
			"dlq:reason:{shop:candidates:coupon:18446744073709551615}": "hash",
			"returned:{shop:candidates:coupon:18446744073709551615}":   "zset",
			"shop:catalog:coupons":                                     "string",
		}},
	} {
		c := couponOn(t, rdb, deployment.prefix, deployment.coupon)
		c.openNow(t)
		at := c.accept(t, 1, 2, 3, 4)
		require.EqualValues(t, 1, c.remove(t, at[0].OpensAt, coupon.MarkIssued,
			coupon.Application{Member: "2", Arrival: at[1].Arrival}))
		require.EqualValues(t, 1, c.remove(t, at[0].OpensAt, coupon.MarkRejected,
			coupon.Application{Member: "3", Arrival: at[2].Arrival}))
		require.EqualValues(t, 1,
			c.review(t, failed{Application: coupon.Application{Member: "4", Arrival: at[3].Arrival,
				Source: coupon.SourceQueue}}))
		require.Len(t, c.handOver(t, coupon.Answer{User: 9, Arrival: 1}), 1)
		require.NoError(t, c.SaveCatalog(t.Context(), []byte("[]")))
		for key, kind := range deployment.want {
			want[key] = kind
		}
		found := map[string]string{}
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			found[key] = rdb.Type(t.Context(), key).Val()
		}
		require.Equal(t, want, found)
		require.EqualValues(t, []string{"1"}, rdb.ZRange(t.Context(), c.queue, 0, -1).Val())
	}
}

// keysShareASlot checks the keys of coupons. A node without any slots still knows which it would be.
func keysShareASlot(t *testing.T, rdb *redis.Client) {
	t.Helper()
	slots := map[int64]bool{}
	for _, prefix := range []string{"", "p:", "shop-1:", "한글:", "a b:"} {
		for _, id := range []coupon.CouponID{0, 1, 42, 1 << 53, math.MaxUint64} {
			k := namespace{prefix}.coupon(id)
			want := rdb.ClusterKeySlot(t.Context(), k.queue).Val()
			slots[want] = true
			for _, key := range []string{k.state, k.issued, k.rejected, k.dlq, k.reason, k.returned} {
				slot, err := rdb.ClusterKeySlot(t.Context(), key).Result()
				require.NoError(t, err)
				require.Equal(t, want, slot, key)
			}
		}
	}
	require.Greater(t, len(slots), 10, "coupons spread over the shards")
}

func TestPrefixWithBracesIsRejected(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"{", "}", "{}", "{shop}:", "shop{1}:"} {
		_, err := NewStore(nil, Options{KeyPrefix: prefix})
		require.ErrorContains(t, err, fmt.Sprintf("%q", prefix))
		require.ErrorContains(t, err, "braces")
	}
	for _, prefix := range []string{"", "shop:", "a[b]:", "(x)"} {
		_, err := NewStore(nil, Options{KeyPrefix: prefix})
		require.NoError(t, err, prefix)
	}
}

// A script that reads the time in another way would ignore the frozen clock of a test.
func TestScriptsReadTheTimeInOnePlace(t *testing.T) {
	t.Parallel()
	for _, s := range allScripts {
		require.Equal(t, 1, strings.Count(strings.ToUpper(s.source), "'TIME'"), s.name)
		require.NotContains(t, frozen(s, noon.UnixMicro()), "'TIME'", s.name)
	}
}
