package topology

import (
	"database/sql"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/testenv"
)

// Replicated is a database server and its replica by GTID, behind an address that moves to the replica when it is
// promoted.
type Replicated struct {
	Primary, Replica *testenv.MySQL
	Address          *Address

	semiSync             bool
	family               family
	onPrimary, onReplica *sql.DB
}

// ReplicatedOptions say how a replica follows.
type ReplicatedOptions struct {
	SemiSync bool // a commit waits until the replica has it
	MariaDB  bool // whatever TESTENV_MYSQLD says
}

// account is the one of programs and of the replica. Both servers have it.
const account = "replicated"

// family has the statements of one family of servers.
type family struct {
	prepare               []string // on each server, before anything else
	acknowledge           string   // on the replica
	waits                 string   // ON or OFF: whether a commit waits for a replica
	acknowledging         string   // the status variable that counts replicas
	position              string   // lets a server that is to follow begin where it stands
	follow                string   // format for host, port and account
	stopApplying, apply   string
	stopReceiving         string
	stop, start, forget   string
	writable, readOnly    string
	committed             string // the query for the position of all that a server has committed
	reached               string // format of the query that waits a second for a position; 0: reached
	status, receivedField string
}

var mariaDB = family{
	acknowledge: "SET GLOBAL rpl_semi_sync_slave_enabled = ON", waits: "SET GLOBAL rpl_semi_sync_master_enabled = ",
	acknowledging: "Rpl_semi_sync_master_clients",
	position:      "SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos",
	follow: "CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_USE_GTID = slave_pos, " +
		"MASTER_CONNECT_RETRY = 1",
	stopApplying: "STOP SLAVE SQL_THREAD", apply: "START SLAVE SQL_THREAD", stopReceiving: "STOP SLAVE IO_THREAD",
	stop: "STOP SLAVE", start: "START SLAVE", forget: "RESET SLAVE ALL",
	writable: "SET GLOBAL read_only = OFF", readOnly: "SET GLOBAL read_only = ON",
	committed: "SELECT 'gtid', @@gtid_binlog_pos", reached: "SELECT 'reached', MASTER_GTID_WAIT('%s', 1)",
	status: "SHOW SLAVE STATUS", receivedField: "Gtid_IO_Pos",
}

var oracle = family{
	prepare: []string{"INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
		"INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
		"SET GLOBAL rpl_semi_sync_source_timeout = 3600000"},
	acknowledge: "SET GLOBAL rpl_semi_sync_replica_enabled = ON",
	waits:       "SET GLOBAL rpl_semi_sync_source_enabled = ", acknowledging: "Rpl_semi_sync_source_clients",
	position: "DO 0", // it knows
	follow: "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '%s', SOURCE_PORT = %s, SOURCE_USER = '%s', " +
		"SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1",
	stopApplying: "STOP REPLICA SQL_THREAD", apply: "START REPLICA SQL_THREAD",
	stopReceiving: "STOP REPLICA IO_THREAD", stop: "STOP REPLICA", start: "START REPLICA",
	forget: "RESET REPLICA ALL", writable: "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF",
	readOnly:  "SET GLOBAL super_read_only = ON",
	committed: "SELECT 'gtid', @@gtid_executed", reached: "SELECT 'reached', WAIT_FOR_EXECUTED_GTID_SET('%s', 1)",
	status: "SHOW REPLICA STATUS", receivedField: "Retrieved_Gtid_Set",
}

// StartReplicated starts both servers for this test alone: of MariaDB, or those of TESTENV_MYSQLD, which must be
// MySQL 8.4 or later then.
func StartReplicated(t *testing.T, o ReplicatedOptions) *Replicated {
	t.Helper()
	start := func(id int, args ...string) *testenv.MySQL {
		return testenv.PrivateMySQL(t, testenv.MySQLOptions{MariaDB: o.MariaDB, Args: append([]string{
			"--log-bin", "--binlog-format=ROW", fmt.Sprintf("--server-id=%d", id), "--loose-gtid-strict-mode=ON",
			"--loose-gtid-mode=ON", "--loose-enforce-gtid-consistency=ON", "--loose-log-slave-updates",
			"--loose-rpl-semi-sync-master-wait-point=AFTER_SYNC", "--loose-rpl-semi-sync-master-timeout=3600000"},
			args...)})
	}
	r := &Replicated{Primary: start(1), Replica: start(2, "--read-only"), semiSync: o.SemiSync, family: mariaDB}
	r.onPrimary, r.onReplica = pool(t, r.Primary.DSN("")), pool(t, r.Replica.DSN(""))
	if !strings.Contains(show(t, r.onPrimary, "SELECT 'version', VERSION()"), "MariaDB") {
		r.family = oracle
	}
	for _, server := range []*sql.DB{r.onPrimary, r.onReplica} {
		exec(t, server, append([]string{"SET sql_log_bin = 0"}, append(r.family.prepare, "CREATE USER "+account,
			"GRANT ALL ON *.* TO "+account+" WITH GRANT OPTION")...)...)
	}
	r.replicate(t)
	r.Address = NewAddress(t, r.Primary.Addr())
	return r
}

// replicate lets the replica follow the primary.
func (r *Replicated) replicate(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(r.Primary.Addr())
	if err != nil {
		t.Fatalf("testenv: replicated: %v", err)
	}
	exec(t, r.onReplica, r.family.waits+"OFF", r.family.acknowledge, r.family.position,
		fmt.Sprintf(r.family.follow, host, port, account), r.family.start)
	r.AwaitApplied(t)
	if !r.semiSync {
		return
	}
	exec(t, r.onPrimary, r.family.waits+"ON")
	testenv.Eventually(t, "the replica acknowledges", func() bool {
		return show(t, r.onPrimary, "SHOW STATUS LIKE '"+r.family.acknowledging+"'") == "1"
	})
}

// DSN is for programs, at the address that moves.
func (r *Replicated) DSN(database string) string {
	return dsnAt(r.Address, database)
}

func dsnAt(a *Address, database string) string {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.DBName = "tcp", a.Addr, account, database
	config.ParseTime = true
	return config.FormatDSN()
}

// Lag keeps the replica from applying what it receives.
func (r *Replicated) Lag(t *testing.T) {
	t.Helper()
	exec(t, r.onReplica, r.family.stopApplying)
}

// Behind keeps the replica from receiving anything more.
func (r *Replicated) Behind(t *testing.T) {
	t.Helper()
	exec(t, r.onReplica, r.family.stopReceiving)
}

// Follow lets the replica receive again.
func (r *Replicated) Follow(t *testing.T) {
	t.Helper()
	exec(t, r.onReplica, r.family.start)
}

// AwaitApplied waits until the replica has applied what the primary has committed until now.
func (r *Replicated) AwaitApplied(t *testing.T) {
	t.Helper()
	r.await(t, show(t, r.onPrimary, r.family.committed))
}

func (r *Replicated) await(t *testing.T, position string) {
	t.Helper()
	testenv.Eventually(t, "the replica has applied it", func() bool {
		return show(t, r.onReplica, fmt.Sprintf(r.family.reached, position)) == "0"
	})
}

// Promote makes the replica the primary as an orchestrator does: it applies what it has received, if it is to, forgets
// the former primary and takes writes. Then the address leads there. The former primary serves on unless it was killed.
func (r *Replicated) Promote(t *testing.T, apply bool) {
	t.Helper()
	if apply {
		// In this order: a replica that starts with both threads stopped deletes what it has not applied.
		exec(t, r.onReplica, r.family.apply, r.family.stopReceiving)
		received := received(t, r.onReplica, r.family)
		if received != "" {
			r.await(t, received)
		}
	}
	exec(t, r.onReplica, r.family.stop, r.family.forget, r.family.writable)
	r.Primary, r.Replica = r.Replica, r.Primary
	r.onPrimary, r.onReplica = r.onReplica, r.onPrimary
	r.Address.Move(r.Primary.Addr())
}

// Switch changes the roles of both servers as an orchestrator does on request: the primary takes no more writes, the
// replica applies all that there are and is promoted, and the former primary becomes its replica. Connections to the
// former primary stay.
func (r *Replicated) Switch(t *testing.T) {
	t.Helper()
	exec(t, r.onPrimary, r.family.readOnly)
	r.AwaitApplied(t)
	r.Promote(t, true)
	r.replicate(t)
}

// received is the position up to which the replica has received events.
func received(t *testing.T, replica *sql.DB, f family) (position string) {
	t.Helper()
	rows, err := replica.QueryContext(t.Context(), f.status)
	if err != nil {
		t.Fatalf("testenv: replicated: %v", err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("testenv: replicated: no status of the replica: %v", err)
	}
	values, fields := make([]sql.RawBytes, len(names)), make([]any, len(names))
	for i := range values {
		fields[i] = &values[i]
	}
	if err := rows.Scan(fields...); err != nil {
		t.Fatalf("testenv: replicated: %v", err)
	}
	for i, name := range names {
		if name == f.receivedField {
			position = string(values[i])
		}
	}
	return position
}

// exec executes the statements in one session.
func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatalf("testenv: replicated: %v", err)
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("testenv: replicated: %s: %v", statement, err)
		}
	}
}

func pool(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	testenv.Opened(t, db, err)
	db.SetMaxIdleConns(0) // a session that logs nothing is used for nothing else
	return db
}

// show returns the second column of the first row.
func show(t *testing.T, db *sql.DB, query string) (value string) {
	t.Helper()
	var name string
	if err := db.QueryRowContext(t.Context(), query).Scan(&name, &value); err != nil {
		t.Fatalf("testenv: replicated: %s: %v", query, err)
	}
	return value
}
