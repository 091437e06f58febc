package durability

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A server that is away is not known, whatever it said before. The log has each change once.
func TestWatch(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	db, err := sql.Open("mysql", server.DSN(""))
	testenv.Opened(t, db, err)
	core, logs := observer.New(zap.InfoLevel)
	w := &Watch{DB: db, Logger: zap.New(core)}
	require.ErrorContains(t, w.Err(), "not known yet")
	require.Zero(t, testutil.CollectAndCount(w))

	w.look(t.Context())
	w.look(t.Context())
	require.ErrorContains(t, w.Err(), "innodb_flush_log_at_trx_commit=2 → 1") // that of the tests' servers
	said := logs.FilterField(zap.String("variable", flushLog)).All()
	require.Len(t, said, 1)
	require.Equal(t, "mysql may lose what it commits", said[0].Message)
	require.Equal(t, 3, testutil.CollectAndCount(w))

	_, err = db.ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	require.NoError(t, err)
	w.look(t.Context())
	require.NotContains(t, errorOf(w), flushLog)

	_, err = db.ExecContext(t.Context(), "SET GLOBAL read_only = ON")
	require.NoError(t, err)
	w.look(t.Context())
	require.ErrorContains(t, w.Err(), "read_only=ON → OFF")
	require.Equal(t, 1, logs.FilterMessage("mysql takes no writes").Len())
	found, err := Look(t.Context(), Of(db))
	require.NoError(t, err)
	require.NotContains(t, Strings(found), "read_only", "people read on replicas")

	require.NoError(t, server.Kill())
	w.look(t.Context())
	require.ErrorContains(t, w.Err(), "not known: ")
	require.Zero(t, testutil.CollectAndCount(w))
}

func errorOf(w *Watch) string {
	if err := w.Err(); err != nil {
		return err.Error()
	}
	return ""
}
