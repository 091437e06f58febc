// Package durability looks whether MySQL keeps what it has committed: on the disk of its own machine, and on another
// server. What it cannot read, it does not know.
package durability

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Code says what is wrong with a setting. Other programs rely on the values.
type Code string

const (
	Weak    Code = "DURABILITY_WEAK"    // MySQL may lose what it has committed
	Unknown Code = "DURABILITY_UNKNOWN" // the server does not show the variable
	NoWrite Code = "MYSQL_READ_ONLY"    // the server takes no writes, as one that is about to be promoted
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
	// readOnlyBelow is ON on the readers of Aurora, whatever read_only says.
	readOnlyBelow = "innodb_read_only"

	clusterSize   = "wsrep_cluster_size"
	clusterStatus = "wsrep_cluster_status"
)

// acknowledged is the longest wait for a replica that counts as one: after it, the server goes on without.
const acknowledged = time.Hour

// semiSync are the names of semi-synchronous replication: those of MySQL 8.0.26 and later, and those before and of
// MariaDB.
var semiSync = []names{
	{enabled: "rpl_semi_sync_source_enabled", timeout: "rpl_semi_sync_source_timeout",
		point: "rpl_semi_sync_source_wait_point", status: "Rpl_semi_sync_source_status",
		replicas: "Rpl_semi_sync_source_clients"},
	{enabled: "rpl_semi_sync_master_enabled", timeout: "rpl_semi_sync_master_timeout",
		point: "rpl_semi_sync_master_wait_point", status: "Rpl_semi_sync_master_status",
		replicas: "Rpl_semi_sync_master_clients"},
}

type names struct{ enabled, timeout, point, status, replicas string }

// Names of variables and of status variables differ, so that both are read into one map.
var variablesSQL, statusSQL = func() (string, string) {
	variables, status := []string{flushLog, binaryLog, syncBinlog, readOnly, readOnlyBelow, galera},
		[]string{clusterSize, clusterStatus}
	for _, n := range semiSync {
		variables, status = append(variables, n.enabled, n.timeout, n.point), append(status, n.status, n.replicas)
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

// Look reads the variables and returns what is not as it should be. What the server refuses to show is not known. It
// leaves out NoWrite: people read on replicas.
func Look(ctx context.Context, show Show) ([]Finding, error) {
	all, err := look(ctx, show)
	return slices.DeleteFunc(all, func(f Finding) bool { return f.Code == NoWrite }), err
}

func look(ctx context.Context, show Show) ([]Finding, error) {
	found := map[string]string{}
	for _, query := range []string{variablesSQL, statusSQL} {
		some, err := show(ctx, query)
		if err != nil && !errors.As(err, new(*mysql.MySQLError)) {
			return nil, fmt.Errorf("look whether mysql keeps what it commits: %w", err)
		}
		maps.Copy(found, some)
	}
	return judge(found), nil
}

// Passes reports whether a finding ends by itself: a replica or a node that is away comes back.
func (f Finding) Passes() bool {
	passing := []string{clusterSize, clusterStatus}
	for _, n := range semiSync {
		passing = append(passing, n.status, n.replicas)
	}
	return f.Code == Weak && slices.Contains(passing, f.Variable)
}

// IsOn reports whether a variable is on, as servers and proxies write it.
func IsOn(value string) bool { return strings.EqualFold(value, "ON") || value == "1" }

// judge compares the variables. Galera acknowledges by itself, if there is another node. A server that is read-only has
// no commits to acknowledge.
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
	if value, known := found[binaryLog]; !known || IsOn(value) {
		require(syncBinlog, "1", is("1"))
	}
	if IsOn(found[galera]) {
		require(clusterStatus, "Primary", is("Primary"))
		require(clusterSize, ">= 2", func(value string) bool { return value != "0" && value != "1" })
	}
	for _, variable := range []string{readOnly, readOnlyBelow} {
		if takesNoWrites(found[variable]) {
			return append(all, Finding{NoWrite, variable, found[variable], "OFF"})
		}
	}
	if IsOn(found[galera]) {
		return all
	}
	at := slices.IndexFunc(semiSync, func(n names) bool { return found[n.enabled] != "" })
	if at < 0 {
		return append(all, Finding{Unknown, semiSync[0].enabled, "", "ON"})
	}
	n := semiSync[at]
	if require(n.enabled, "ON", IsOn); !IsOn(found[n.enabled]) {
		return all
	}
	require(n.status, "ON", IsOn)
	require(n.replicas, ">= 1", func(value string) bool { return value != "0" }) // else commits wait
	require(n.point, "AFTER_SYNC", is("AFTER_SYNC"))
	require(n.timeout, fmt.Sprintf(">= %d", acknowledged.Milliseconds()), func(value string) bool {
		ms, err := strconv.ParseUint(value, 10, 64)
		return err == nil && ms >= uint64(acknowledged.Milliseconds())
	})
	return all
}

// takesNoWrites also knows the further values of MariaDB 12.
func takesNoWrites(readOnly string) bool {
	return readOnly != "" && readOnly != "0" && !strings.EqualFold(readOnly, "OFF")
}

func is(want string) func(string) bool { return func(value string) bool { return value == want } }
