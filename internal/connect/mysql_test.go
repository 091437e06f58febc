package connect_test

import (
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

// After a machine has lost power during a settlement, its session must not lock the coupon's row for eight hours, whatever the
// DSN says.
func TestSession_ServerEndsAbandonedOnes(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(testenv.MySQLFor(t).DSN)
	require.NoError(t, err)
	config.Params = map[string]string{"wait_timeout": "28800"}
	db, err := (&connect.MySQLSettings{MySQLDSN: config.FormatDSN()}).Open(zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })

	var seconds int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT @@SESSION.wait_timeout").Scan(&seconds))
	waits := time.Duration(seconds) * time.Second
	require.LessOrEqual(t, waits, 5*time.Minute)
	require.Greater(t, waits, connect.MySQLIOTimeout, "a transaction pauses while another session reads")
	require.Less(t, connect.MySQLIdleTime, waits, "the pool would hand out what the server has closed")

	_, err = connect.Migrate(t.Context(), db)
	require.NoError(t, err)
	_, err = connect.Migrate(t.Context(), db)
	require.NoError(t, err, "the lock of the first is free")
}
