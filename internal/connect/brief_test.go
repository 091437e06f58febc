package connect_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

// A program that stops may have received only a part of a result. The server then waits to send the rest, and its
// session is not idle.
func TestBrief_EndsSessionThatDoesNotRead(t *testing.T) {
	t.Parallel()
	handle := testenv.MySQLFor(t)
	_, err := handle.DB.Exec("CREATE TABLE held (id INT PRIMARY KEY)")
	require.NoError(t, err)
	_, err = handle.DB.Exec("INSERT INTO held VALUES (1)")
	require.NoError(t, err)
	brief, err := (&connect.MySQLSettings{MySQLDSN: handle.DSN}).Open(connect.Brief, zap.NewNop())
	require.NoError(t, err)
	defer brief.Close()
	testenv.Eventually(t, "no statement comes after the end of its session", func() bool {
		tx, err := brief.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		if _, err = tx.Exec("UPDATE held SET id = 3 - id"); err != nil {
			return false
		}
		unread, err := tx.Query("SELECT REPEAT('x', 1000000) FROM information_schema.columns LIMIT 100")
		if err != nil {
			return false
		}
		t.Cleanup(func() { _ = unread.Close() })
		return true
	})

	testenv.Eventually(t, "another session gets the lock", func() bool {
		var id int
		return handle.DB.QueryRow("SELECT id FROM held FOR UPDATE NOWAIT").Scan(&id) == nil
	})
}
