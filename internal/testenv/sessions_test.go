package testenv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Another test on the same server may run any statement in its own database.
func TestSessionsWithEmoji(t *testing.T) {
	t.Parallel()
	here, there := MySQLFor(t), MySQLFor(t)
	holder, err := here.DB.Conn(t.Context())
	require.NoError(t, err)
	defer holder.Close()
	var name string
	require.NoError(t, holder.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
	_, err = holder.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", name)
	require.NoError(t, err)
	waiter, err := here.DB.Conn(t.Context())
	require.NoError(t, err)
	defer waiter.Close()
	const says = " /* 자정 쿠폰 \U0001F319 ends */"
	done := make(chan error, 1)
	go func() {
		_, err := waiter.ExecContext(t.Context(), "DO GET_LOCK('"+name+"', 20)"+says)
		done <- err
	}()
	waits := func(s Session) bool { return s.Command == "Query" && strings.HasSuffix(s.Statement, says) }
	Eventually(t, "a session waits for the lock", func() bool { return Sessions(t, here.DB, waits) == 1 })
	require.Zero(t, Sessions(t, there.DB, waits), "it is in another database")
	_, err = holder.ExecContext(t.Context(), "DO RELEASE_LOCK(?)", name)
	require.NoError(t, err)
	require.NoError(t, <-done)
}
