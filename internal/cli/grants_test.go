package cli

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// All other tests use the accounts for their permitted work.
func TestGrants_RefuseEverythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Exec("ALTER TABLE `user` ADD COLUMN phone VARCHAR(20) NOT NULL DEFAULT ''") // a column that Jajeong does not need
	// Statements that only the migrating account may execute.
	var nobody []string
	for _, table := range []string{"audit_event", "audit_head", "coupon", "user_coupon", "settlement",
		"settlement_run", "`user`"} {
		nobody = append(nobody, "DELETE FROM "+table)
	}
	nobody = append(nobody,
		"UPDATE audit_event SET reason = ''", "UPDATE audit_event SET hash = ''",
		"REPLACE INTO audit_event (id, actor, action) VALUES (1, 'kim', 'x')",
		"INSERT INTO audit_event (id, actor, action) VALUES (1, 'kim', 'x') ON DUPLICATE KEY UPDATE actor = 'lee'",
		"TRUNCATE TABLE audit_event", "ALTER TABLE audit_event DROP COLUMN hash", "DROP TABLE audit_event",
		"CREATE TRIGGER refuses BEFORE INSERT ON audit_event FOR EACH ROW SET NEW.reason = ''",
		"UPDATE user_coupon SET user_id = 7", "UPDATE coupon_log SET actor = ''", "DELETE FROM coupon_log",
		"DELETE FROM coupon_order",
		"UPDATE settlement SET winners_digest = ''", "UPDATE settlement_run SET operator = 'lee'",
		"UPDATE `user` SET status = 'ACTIVE'", "INSERT INTO `user` (id) VALUES (7)",
		"UPDATE coupon SET client_key = ''", "UPDATE coupon SET line_limit = 1", "DELETE FROM settled",
		"UPDATE coupon SET id = 1000000", "INSERT INTO coupon (id, name) VALUES (7, 'x')",
		"CREATE TABLE other (id INT)", "SELECT * FROM jajeong_db_version", "SELECT phone FROM `user`",
		"CREATE USER other", "SET GLOBAL read_only = 0", "SELECT 1 INTO OUTFILE '/tmp/jajeong'",
	)
	own := map[string][]string{
		"jajeong_settle": {
			"UPDATE user_coupon SET status = 'USED'", "UPDATE coupon_order SET state = 'USED'",
			"UPDATE user_coupon SET status = 'REVOKED'",
			"INSERT INTO coupon_log (user_coupon_id, seq, kind, actor, at) VALUES (1, 1, 'REVOKED', 'x', NOW(6))",
			"UPDATE coupon SET total_quantity = 9", "UPDATE coupon SET status = 'PAUSED'",
			"UPDATE coupon SET frozen = FALSE",
			"UPDATE coupon SET cadence = 'IMMEDIATE'",
			"UPDATE coupon SET name = ''", "UPDATE coupon SET apply_opens_at = NOW(6)",
			"UPDATE coupon SET discount_percent = 9", "UPDATE coupon SET minimum_won = 9",
			"INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES ('x', 1, NOW(6), " +
				"NOW(6) + INTERVAL 1 DAY)",
		},
		"jajeong_operator": {
			"UPDATE coupon_log SET actor = ''", "DELETE FROM coupon_log", "DELETE FROM coupon_order",
			"INSERT INTO coupon_order (order_id) VALUES ('A-1')",
			"UPDATE user_coupon SET position = 1", "UPDATE user_coupon SET issued_at = NOW(6)",
			"INSERT INTO purged_coupon (coupon_id) VALUES (1)",
			"UPDATE event_relay SET log_id = 0",
		},
		"jajeong_wallet": {
			"INSERT INTO user_coupon (coupon_id, user_id) VALUES (1, 7)", "UPDATE user_coupon SET expires_at = NOW(6)",
			"UPDATE user_coupon SET run_id = 7",
			"UPDATE coupon SET issued_count = 0", "UPDATE coupon SET total_quantity = 9",
			"UPDATE coupon SET discount_won = 9",
			"DELETE FROM coupon_log", "UPDATE coupon_log SET actor = ''", "DELETE FROM coupon_order",
			"SELECT id FROM application_outcome",
			"SELECT id FROM `user`", "SELECT accepted FROM journal", "SELECT id FROM settlement_run",
			"INSERT INTO audit_event (actor, action) VALUES ('kim', 'x')",
		},
		"jajeong_api": {
			"UPDATE user_coupon SET status = 'USED'", "UPDATE coupon_order SET state = 'USED'",
			"SELECT id FROM coupon_log",
			"INSERT INTO user_coupon (coupon_id, user_id) VALUES (1, 7)", "UPDATE coupon SET issued_count = 0",
			"UPDATE settled SET written_off = 7", "INSERT INTO settled (coupon_id, written_off) VALUES (7, 7)",
			"INSERT INTO journal (coupon_id) VALUES (7)", "UPDATE journal SET up_to = 0",
			"UPDATE journal SET epoch = ''", "UPDATE journal SET unfound = 0", "DELETE FROM journal",
			"SELECT user_id FROM line_journal",
			"UPDATE line_journal SET user_id = 7", "DELETE FROM line_journal",
			"DELETE FROM application_outcome",
			"INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (1, 7, NOW(6), " +
				"'REJECTED')",
			"SELECT note FROM application_outcome", "SELECT run_id FROM user_coupon", "SELECT id FROM `user`",
			"SELECT id FROM audit_event", "SELECT seq FROM audit_head", "SELECT id FROM settlement_run",
			"SELECT run_id FROM settlement",
			"INSERT INTO audit_event (actor, action) VALUES ('kim', 'x')",
			"INSERT INTO settlement_run (cutoff) VALUES (NOW(6))",
		},
	}
	for account, more := range own {
		db := w.as(account)
		for _, statement := range append(nobody, more...) {
			_, err := db.ExecContext(t.Context(), statement)
			var refused *mysql.MySQLError
			require.True(t, errors.As(err, &refused), "%s: %s: %v", account, statement, err)
			// MySQL with a binlog refuses triggers with 1419.
			require.Contains(t, []uint16{1044, 1045, 1142, 1143, 1227, 1419}, refused.Number, "%s: %s: %v", account,
				statement, err)
		}
	}
	_, err := w.as("jajeong_migrate").ExecContext(t.Context(), "CREATE USER other")
	require.ErrorContains(t, err, "1227")
}

func TestGrants_MigratingAccountCreatesSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.as("jajeong_migrate")
	_, err := db.ExecContext(t.Context(), "DROP TABLE `user`, jajeong_db_version, "+ourTables)
	require.NoError(t, err)
	job := w.servers[0]
	w.servers[0] = "--mysql-dsn=" + w.Accounts["jajeong_migrate"]
	stdout := succeeds(t)(w.settle("migrate"))
	require.Contains(t, stdout, "applied 00001_initial.sql")
	w.servers[0] = job
	couponID := w.AddQueue(1, 1)
	w.settleNow()
	require.Equal(t, []coupon.UserID{1}, w.Issued(couponID))
	w.verify()
}
