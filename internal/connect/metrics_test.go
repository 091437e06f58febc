package connect_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMetrics_CountConnections(t *testing.T) {
	t.Parallel()
	db, err := (&connect.MySQLSettings{MySQLDSN: testenv.MySQLFor(t).DSN}).Open(zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	rdb, err := (&connect.RedisSettings{RedisAddrs: testenv.RedisFor(t).Addrs}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { rdb.Close() })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	inUse, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer inUse.Close()

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister((&connect.Servers{MySQL: db, Redis: rdb}).Metrics())
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP jajeong_pool_connections Open connections, by server and state.
# TYPE jajeong_pool_connections gauge
jajeong_pool_connections{server="mysql",state="idle"} 0
jajeong_pool_connections{server="mysql",state="in_use"} 1
jajeong_pool_connections{server="redis",state="idle"} 1
jajeong_pool_connections{server="redis",state="in_use"} 0
`), "jajeong_pool_connections"))
	count, err := testutil.GatherAndCount(registry, "jajeong_pool_waits_total", "jajeong_pool_wait_seconds_total", "jajeong_pool_timeouts_total")
	require.NoError(t, err)
	require.Equal(t, 5, count)
}
