package recall

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

func TestUnusedCouponsAreEvictedWithTheirAnswers(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
	defer client.Close()
	store, err := candidates.NewStore(client, candidates.Options{})
	require.NoError(t, err)
	m := New(store)
	used, unused := m.promisesOf(1), m.promisesOf(2)
	m.Unanswered(2, []coupon.UserID{7, 8})
	for id := coupon.CouponID(3); id < 3+MaxCoupons; id++ {
		m.promisesOf(id)
		require.Same(t, used, m.promisesOf(1))
	}
	require.Equal(t, MaxCoupons, m.coupons.Len())
	require.NotSame(t, unused, m.promisesOf(2))
	require.Zero(t, m.remembered.Load())
}
