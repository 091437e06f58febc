// Package durability looks whether MySQL keeps what it has committed: on the disk of its own machine, and on another
// server. What it cannot read, it does not know.
package durability

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Code says what is wrong with a setting. Other programs rely on the values.
type Code string

const (
	Weak    Code = "DURABILITY_WEAK"    // MySQL may lose what it has committed
	Unknown Code = "DURABILITY_UNKNOWN" // the server does not show the variable
)

// Finding is a variable of the server that does not have the value that keeps what is committed.
type Finding struct {
	Code     Code   `json:"code"`
	Variable string `json:"variable"`
	Value    string `json:"value"` // empty: not known
	Want     string `json:"want"`
}

// String is the same in each language: sync_binlog=0 → 1.
func (f Finding) String() string { return f.Variable + "=" + cmp.Or(f.Value, "?") + " → " + f.Want }

// The variables that are read.
const (
	flushLog   = "innodb_flush_log_at_trx_commit"
	binaryLog  = "log_bin"
	syncBinlog = "sync_binlog"
	readOnly   = "read_only"
	galera     = "wsrep_on"
)

// acknowledged is the longest wait for a replica that counts as one: after it, the server goes on without.
const acknowledged = time.Hour

// semiSync are the names of semi-synchronous replication: those of MySQL 8.0.26 and later, and those before and of
// MariaDB.
var semiSync = []names{
	{enabled: "rpl_semi_sync_source_enabled", timeout: "rpl_semi_sync_source_timeout",
		point: "rpl_semi_sync_source_wait_point", status: "Rpl_semi_sync_source_status"},
	{enabled: "rpl_semi_sync_master_enabled", timeout: "rpl_semi_sync_master_timeout",
		point: "rpl_semi_sync_master_wait_point", status: "Rpl_semi_sync_master_status"},
}

type names struct{ enabled, timeout, point, status string }

// Names of variables and of status variables differ, so that both are read into one map.
var variablesSQL, statusSQL = func() (string, string) {
	variables, status := []string{flushLog, binaryLog, syncBinlog, readOnly, galera}, []string{}
	for _, n := range semiSync {
		variables, status = append(variables, n.enabled, n.timeout, n.point), append(status, n.status)
	}
	return showSQL("VARIABLES", variables), showSQL("STATUS", status)
}()

func showSQL(what string, names []string) string {
	return "SHOW GLOBAL " + what + " WHERE Variable_name IN ('" + strings.Join(names, "', '") + "')"
}

// Show executes a SHOW statement and returns its values by name.
type Show func(ctx context.Context, query string) (map[string]string, error)

// Of asks a pool.
func Of(db *sql.DB) Show {
	return func(ctx context.Context, query string) (map[string]string, error) {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		found := map[string]string{}
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return nil, err
			}
			found[name] = value
		}
		return found, rows.Err()
	}
}

// Look reads the variables and returns what is not as it should be.
func Look(ctx context.Context, show Show) ([]Finding, error) {
	found, err := show(ctx, variablesSQL)
	if err != nil {
		return nil, fmt.Errorf("look whether mysql keeps what it commits: %w", err)
	}
	status, err := show(ctx, statusSQL)
	if err != nil {
		return nil, fmt.Errorf("look whether mysql keeps what it commits: %w", err)
	}
	maps.Copy(found, status)
	return judge(found), nil
}

// judge compares the variables. Galera acknowledges by itself. A server that is read-only has no commits to
// acknowledge.
func judge(found map[string]string) (all []Finding) {
	require := func(variable, want string, right func(value string) bool) {
		switch value, known := found[variable]; {
		case !known:
			all = append(all, Finding{Unknown, variable, "", want})
		case !right(value):
			all = append(all, Finding{Weak, variable, value, want})
		}
	}
	// 3 of MariaDB writes the log to the disk twice.
	require(flushLog, "1", func(value string) bool { return value == "1" || value == "3" })
	if found[binaryLog] != "OFF" {
		require(syncBinlog, "1", is("1"))
	}
	if found[galera] == "ON" || found[readOnly] == "ON" {
		return all
	}
	at := slices.IndexFunc(semiSync, func(n names) bool { return found[n.enabled] != "" })
	if at < 0 {
		return append(all, Finding{Unknown, semiSync[0].enabled, "", "ON"})
	}
	n := semiSync[at]
	if require(n.enabled, "ON", is("ON")); found[n.enabled] != "ON" {
		return all
	}
	require(n.status, "ON", is("ON"))
	require(n.point, "AFTER_SYNC", is("AFTER_SYNC"))
	require(n.timeout, fmt.Sprintf(">= %d", acknowledged.Milliseconds()), func(value string) bool {
		ms, err := strconv.ParseUint(value, 10, 64)
		return err == nil && ms >= uint64(acknowledged.Milliseconds())
	})
	return all
}

func is(want string) func(string) bool { return func(value string) bool { return value == want } }
