package main

import (
	"database/sql"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// rowsOf are the users of coupon 1 in the journal, by arrival.
func rowsOf(t *testing.T, db *sql.DB) (users []int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT user_id FROM line_journal WHERE coupon_id = 1 ORDER BY arrival")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var user int
		require.NoError(t, rows.Scan(&user))
		users = append(users, user)
	}
	require.NoError(t, rows.Err())
	return users
}

func TestAcceptAfterJournal(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	database, api := withCoupon(t)
	p := startAt(t, listening, "MYSQL_DSN="+api, "REDIS_ADDRS="+redis.Addr(), "ACCEPT_AFTER=journal", "USER_RATE=0")
	p.mustApply(http.StatusAccepted, 1, 8)
	require.Equal(t, []int{8}, rowsOf(t, database.DB))
	p.mustApply(http.StatusAccepted, 1, 7)
	require.Equal(t, []int{8, 7}, rowsOf(t, database.DB))
	_, err := database.DB.ExecContext(t.Context(), "DELETE FROM line_journal")
	require.NoError(t, err)
	p.mustApply(http.StatusOK, 1, 8)
	require.Equal(t, []int{8}, rowsOf(t, database.DB), "also for a duplicate")
	require.Positive(t, p.metric("jajeong_accept_commit_seconds_count"))
}

// What a pod has told applicants goes into the journal if Redis does not answer when the pod ends.
func TestShutdownWithoutRedisWritesTheJournal(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(redis *testenv.Redis) error{
		"killed": (*testenv.Redis).Kill, "frozen": (*testenv.Redis).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
			database, api := withCoupon(t)
			_, err := database.DB.ExecContext(t.Context(), // as `settle serve` does
				"INSERT INTO journal (coupon_id, written_at) VALUES (1, UTC_TIMESTAMP(6))")
			require.NoError(t, err)
			p := startAt(t, listening, "MYSQL_DSN="+api, "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0")
			p.mustApply(http.StatusAccepted, 1, 8)
			p.mustApply(http.StatusAccepted, 1, 7)
			require.Empty(t, rowsOf(t, database.DB))
			require.NoError(t, silence(redis))
			p.terminate()
			require.Equal(t, 0, p.exit())
			require.Equal(t, []int{8, 7}, rowsOf(t, database.DB))
			var asked int
			require.NoError(t, database.DB.QueryRowContext(t.Context(),
				"SELECT asked FROM journal WHERE coupon_id = 1").Scan(&asked))
			require.Equal(t, 1, asked)
		})
	}
}
