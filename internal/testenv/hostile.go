package testenv

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// hostile are session settings under which SQL means something else, fails, or ends early. An administrator may have made
// them the server's defaults, and a DSN may name them.
var hostile = map[string]string{
	"autocommit": "0", "completion_type": "CHAIN", "sql_select_limit": "3", "max_join_size": "1", "sql_big_selects": "0",
	"sql_safe_updates": "1", "foreign_key_checks": "0", "unique_checks": "0", "sql_auto_is_null": "1", "div_precision_increment": "0",
	"group_concat_max_len": "4", "sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'", "time_zone": "'-11:30'",
	"lock_wait_timeout": "1", "innodb_lock_wait_timeout": "1", "wait_timeout": "2",
}

// Those that one kind of server alone knows.
var (
	hostileMySQL = map[string]string{
		"max_execution_time": "1", "transaction_isolation": "'SERIALIZABLE'", "transaction_read_only": "1",
	}
	hostileMariaDB = map[string]string{
		"max_statement_time": "0.001", "tx_isolation": "'SERIALIZABLE'", "tx_read_only": "1", "check_constraint_checks": "0",
		"idle_transaction_timeout": "1", "idle_readonly_transaction_timeout": "1", "idle_write_transaction_timeout": "1",
	}
	// hostileCharacters are in no default of a server, which each client names anew.
	hostileCharacters = map[string]string{"character_set_client": "latin1", "character_set_results": "latin1", "collation_connection": "latin1_german1_ci"}
)

// Hostile returns the settings that the server knows.
func (h MySQLHandle) Hostile(t testing.TB) map[string]string {
	t.Helper()
	var version string
	if err := h.DB.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatalf("testenv: ask for the version: %v", err)
	}
	all := maps.Clone(hostile)
	if strings.Contains(version, "MariaDB") {
		maps.Copy(all, hostileMariaDB)
	} else {
		maps.Copy(all, hostileMySQL)
	}
	return all
}

// HostileDSN adds the settings, and characters of another time, to a DSN: what is opened without forcing others is of no use.
func HostileDSN(t testing.TB, dsn string, settings map[string]string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("testenv: parse DSN to make it hostile") // the cause would quote the password
	}
	maps.Copy(cfg.Params, settings)
	maps.Copy(cfg.Params, hostileCharacters)
	return cfg.FormatDSN()
}

// HostileGlobals are statements that make the settings the server's defaults, as far as a test can still look after the
// server itself under them: with statements that end within a millisecond it could not even make a database.
func HostileGlobals() (statements []string) {
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		if name != "autocommit" && name != "time_zone" && name != "sql_mode" && name != "wait_timeout" && name != "foreign_key_checks" {
			statements = append(statements, "SET GLOBAL "+name+" = "+hostile[name])
		}
	}
	return statements
}
