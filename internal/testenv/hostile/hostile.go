// Package hostile has session settings under which SQL means something else, fails or ends early. An administrator may
// have made them a server's defaults, and a DSN may contain them. The programs must work under them.
package hostile

import (
	"database/sql"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// common are the settings that MySQL and MariaDB share.
var common = map[string]string{
	"autocommit": "0", "completion_type": "CHAIN", "sql_select_limit": "3", "max_join_size": "1",
	"sql_big_selects":  "0",
	"sql_safe_updates": "1", "foreign_key_checks": "0", "unique_checks": "0", "sql_auto_is_null": "1",
	"div_precision_increment": "0",
	"group_concat_max_len":    "4",
	"sql_mode":                "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
	"time_zone":               "'-11:30'",
	"lock_wait_timeout":       "1", "innodb_lock_wait_timeout": "1", "wait_timeout": "2",
}

// The settings of one kind of server.
var (
	onMySQL = map[string]string{
		"max_execution_time": "1", "transaction_isolation": "'SERIALIZABLE'", "transaction_read_only": "1",
	}
	onMariaDB = map[string]string{
		"max_statement_time": "0.001", "tx_isolation": "'SERIALIZABLE'", "tx_read_only": "1",
		"check_constraint_checks":  "0",
		"idle_transaction_timeout": "1", "idle_readonly_transaction_timeout": "1",
		"idle_write_transaction_timeout": "1",
	}
	// characters are no server defaults, because each client sets its own.
	characters = map[string]string{"character_set_client": "latin1", "character_set_results": "latin1",
		"collation_connection": "latin1_german1_ci"}
)

// Settings returns the hostile settings that the server of db supports.
func Settings(t testing.TB, db *sql.DB) map[string]string {
	t.Helper()
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatalf("hostile: ask for the version: %v", err)
	}
	all := maps.Clone(common)
	if strings.Contains(version, "MariaDB") {
		maps.Copy(all, onMariaDB)
	} else {
		maps.Copy(all, onMySQL)
	}
	return all
}

// DSN adds the settings and outdated character sets to a DSN. A pool that does not override them cannot work.
func DSN(t testing.TB, dsn string, settings map[string]string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("hostile: parse DSN to make it hostile") // the cause would quote the password
	}
	maps.Copy(cfg.Params, settings)
	maps.Copy(cfg.Params, characters)
	return cfg.FormatDSN()
}

// Globals are statements that make the settings the server's defaults. They leave out settings under which a test could
// not manage the server itself, for example create a database.
func Globals() (statements []string) {
	for _, name := range slices.Sorted(maps.Keys(common)) {
		if name != "autocommit" && name != "time_zone" && name != "sql_mode" && name != "wait_timeout" &&
			name != "foreign_key_checks" {
			statements = append(statements, "SET GLOBAL "+name+" = "+common[name])
		}
	}
	return statements
}
