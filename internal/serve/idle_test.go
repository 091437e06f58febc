package serve

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

// At the default interval there are ten looks a second. Two commands for each of them stay below 50 a second for two
// replicas; the refreshes add a few.
func TestIdle_LookAtThousandCouponsTakesTwoCommands(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb, err := (&connect.RedisSettings{RedisAddrs: []string{server.Addr()}}).Open()
	require.NoError(t, err)
	defer rdb.Close()
	store, err := candidates.NewStore(rdb, candidates.Options{})
	require.NoError(t, err)
	s := newServers()
	for id := range coupon.CouponID(1000) {
		s.coupons = append(s.coupons, open(id+1))
	}
	task, err := New(Config{Coupons: s, Store: store, Issuer: s, Locks: mysqltx.NewBrief(nil),
		Interval: time.Millisecond, Parallel: 8, Now: time.Now,
		Logger: zap.NewNop()})
	require.NoError(t, err)
	before := commands(t, rdb)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = task.Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	looks := func() float64 { return testutil.ToFloat64(task.measured.looks.WithLabelValues(lookEmpty)) }
	testenv.Eventually(t, "100 looks", func() bool { return looks() >= 100 })
	needed := commands(t, rdb) - before
	require.LessOrEqual(t, needed, 2*looks()+20)
	require.Empty(t, s.ran())
}

var processed = regexp.MustCompile(`total_commands_processed:(\d+)`)

// commands returns the number of commands that the server has processed.
func commands(t *testing.T, rdb redis.UniversalClient) float64 {
	t.Helper()
	info, err := rdb.Info(t.Context(), "stats").Result()
	require.NoError(t, err)
	n, err := strconv.ParseFloat(processed.FindStringSubmatch(info)[1], 64)
	require.NoError(t, err)
	return n
}
