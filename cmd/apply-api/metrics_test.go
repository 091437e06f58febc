package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// That docs/metrics.md names every metric, and none besides, is tested in k8s/monitoring.
func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	p := startServing(t, append(asAPI(t, redis.Prefix, redis.Addrs...), "MYSQL_DSN="+migrated(t, testenv.MySQLFor(t).DSN),
		"REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "REDIS_KEY_PREFIX="+redis.Prefix)...)
	testenv.Eventually(t, 20*time.Second, "it accepts", func() bool {
		status, _ := p.ask(1, 7)
		return status == 202
	})
	response, err := p.client.Get(p.admin + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `jajeong_queue_length{coupon_id="1"} 1`)
	require.Contains(t, string(text), "jajeong_settlement_due_timestamp_seconds ")
	require.Contains(t, string(text), "jajeong_redis_eviction_policy_wrong 0")
	require.Contains(t, string(text), `jajeong_apply_batch_size_count 1`)
}
