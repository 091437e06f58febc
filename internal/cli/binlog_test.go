package cli

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// A server that logs statements refuses every write at READ COMMITTED. Only an account with further rights can log
// rows.
func TestVerbs_RefuseServerThatLogsStatements(t *testing.T) {
	t.Parallel()
	server :=
		testenv.PrivateMySQL(t, testenv.MySQLOptions{Args: []string{"--log-bin=binlog", "--binlog-format=STATEMENT",
			"--server-id=1"}})
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	var logs string
	require.NoError(t, admin.QueryRow("SELECT CONCAT(@@log_bin + 0, @@binlog_format)").Scan(&logs))
	require.Equal(t, "1STATEMENT", logs)
	for _, statement := range []string{"CREATE DATABASE jajeong CHARACTER SET utf8mb4",
		"CREATE USER plain@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON jajeong.* TO plain@'%'"} {
		_, err = admin.Exec(statement)
		require.NoError(t, err)
	}
	asAdmin, asPlain := server.DSN("jajeong"), fmt.Sprintf("plain:secret@tcp(%s)/jajeong", server.Addr())

	refused(t, "binlog_format=ROW")(settleBare(t, "migrate", "--mysql-dsn="+asPlain))

	w := newWorldWith(t, jajeongtest.Options{MySQL: &testenv.MySQLHandle{DSN: asAdmin}}) // migrates
	w.servers[0] = "--mysql-dsn=" + asAdmin
	couponID := w.AddCoupon(2)
	w.AddUsers(1, 2, 3)
	w.Apply(couponID, 3, 1, 2)
	w.settleNow()
	require.Equal(t, []coupon.UserID{3, 1}, w.Issued(couponID))
	w.mustChange("add-seats", couponID, "--seats=1")

	w.servers[0] = "--mysql-dsn=" + asPlain
	runs := w.IDs("SELECT id FROM settlement_run")
	person := []string{"--operator=kim", "--reason=test"}
	for _, verb := range [][]string{{"migrate"}, {"run"}, {"run", "--dry-run"}, {"serve"},
		append([]string{"coupon", "pause", "1"}, person...),
		append([]string{"coupon", "create", "--name=x", "--seats=1", "--opens=2026-01-01 00:00",
			"--closes=2249-01-01 00:00"}, person...),
		append([]string{"dlq", "retry", "--coupon=1"}, person...),
		append([]string{"dlq", "drop", "--coupon=1", "--user=1"}, person...)} {
		code, stdout, stderr := w.settle(verb...)
		require.Equal(t, exitUse, code, "%v: %s", verb, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "binlog_format=ROW", verb)
		require.NotContains(t, stderr, "safe to run again")
	}
	_, _, stderr := w.settle("run", "--lang=ko")
	require.Regexp(t, hangul, stderr)
	require.Equal(t, runs, w.IDs("SELECT id FROM settlement_run"))
	for _, verb := range []string{"verify", "runs", "coupon list", "dlq list", "report --month=2026-11"} {
		code, _, stderr := w.settle(strings.Fields(verb)...)
		require.Zero(t, code, "%s: %s", verb, stderr)
	}
}
