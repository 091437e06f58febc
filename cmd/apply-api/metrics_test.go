package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// docs/metrics.md names every metric of ours there is, and none besides.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	p := startServing(t, "MYSQL_DSN="+migrated(t, testenv.MySQLFor(t).DSN), "REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "REDIS_KEY_PREFIX="+redis.Prefix)
	testenv.Eventually(t, 20*time.Second, "it accepts", func() bool {
		status, _ := p.ask(1, 7)
		return status == 202
	})
	response, err := p.client.Get(p.admin + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	names := func(text []byte, pattern string) (all []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(match[1]))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	documented, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	require.Equal(t, names(text, `(?m)^# TYPE (jajeong_\w+) `), names(documented, "(?m)^\\| `(jajeong_\\w+)`"))
	require.Contains(t, string(text), `jajeong_queue_length{coupon_id="1"} 1`)
	require.Contains(t, string(text), `jajeong_apply_batch_size_count 1`)
}
