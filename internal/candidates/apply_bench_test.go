package candidates

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// BenchmarkApplyAll measures the apply script with the batches of an idle pod and of a full one.
func BenchmarkApplyAll(b *testing.B) {
	for _, users := range []int{1, 250} {
		b.Run(fmt.Sprint(users, " users"), func(b *testing.B) {
			client := redis.NewClient(&redis.Options{Addr: testenv.PrivateRedis(b, testenv.RedisOptions{}).Addr()})
			b.Cleanup(func() { client.Close() })
			c := couponOn(b, client, "", 42)
			now := time.Now()
			c.publish(b, coupon.Window{Coupon: c.id, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)})
			batch, next := make([]coupon.UserID, users), coupon.UserID(0)
			for b.Loop() {
				for i := range batch {
					next++
					batch[i] = next
				}
				receipts, err := c.ApplyAll(b.Context(), c.id, batch)
				require.NoError(b, err)
				require.Equal(b, Accepted, receipts[0].Code)
			}
		})
	}
}
