package topology

import (
	"database/sql"
	"fmt"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/testenv"
)

// Replicated is a MariaDB and its replica by GTID, behind an address that moves to the replica when it is promoted.
type Replicated struct {
	Primary, Replica *testenv.MySQL
	Address          *Address

	onPrimary, onReplica *sql.DB
}

// ReplicatedOptions say how a replica follows.
type ReplicatedOptions struct {
	SemiSync bool // a commit waits until the replica has it
}

// account is the one of programs and of the replica. Both servers have it.
const account = "replicated"

// StartReplicated starts both servers for this test alone.
func StartReplicated(t *testing.T, o ReplicatedOptions) *Replicated {
	t.Helper()
	start := func(id int, args ...string) *testenv.MySQL {
		return testenv.PrivateMySQL(t, testenv.MySQLOptions{MariaDB: true, Args: append([]string{"--log-bin",
			"--binlog-format=ROW", "--gtid-strict-mode=ON", "--log-slave-updates", fmt.Sprintf("--server-id=%d", id),
			"--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=3600000"}, args...)})
	}
	r := &Replicated{Primary: start(1), Replica: start(2, "--read-only")}
	r.onPrimary, r.onReplica = pool(t, r.Primary.DSN("")), pool(t, r.Replica.DSN(""))
	host, port, err := net.SplitHostPort(r.Primary.Addr())
	if err != nil {
		t.Fatalf("testenv: replicated: %v", err)
	}
	r.exec(t, r.onPrimary, "CREATE USER "+account, "GRANT ALL ON *.* TO "+account+" WITH GRANT OPTION")
	r.exec(t, r.onReplica, "SET GLOBAL rpl_semi_sync_slave_enabled = ON",
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', "+
			"MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1", host, port, account), "START SLAVE")
	r.AwaitApplied(t)
	if o.SemiSync {
		r.exec(t, r.onPrimary, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
		testenv.Eventually(t, "the replica acknowledges", func() bool {
			return show(t, r.onPrimary, "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'") == "1"
		})
	}
	r.Address = NewAddress(t, r.Primary.Addr())
	return r
}

// DSN is for programs, at the address that moves.
func (r *Replicated) DSN(database string) string {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.DBName = "tcp", r.Address.Addr, account, database
	config.ParseTime = true
	return config.FormatDSN()
}

// Lag keeps the replica from applying what it receives.
func (r *Replicated) Lag(t *testing.T) {
	t.Helper()
	r.exec(t, r.onReplica, "STOP SLAVE SQL_THREAD")
}

// Behind keeps the replica from receiving anything more.
func (r *Replicated) Behind(t *testing.T) {
	t.Helper()
	r.exec(t, r.onReplica, "STOP SLAVE IO_THREAD")
}

// AwaitApplied waits until the replica has applied what the primary has committed until now.
func (r *Replicated) AwaitApplied(t *testing.T) {
	t.Helper()
	at := show(t, r.onPrimary, "SELECT 'gtid', @@gtid_binlog_pos")
	r.await(t, at)
}

func (r *Replicated) await(t *testing.T, position string) {
	t.Helper()
	testenv.Eventually(t, "the replica has applied it", func() bool {
		return show(t, r.onReplica, "SELECT 'reached', MASTER_GTID_WAIT('"+position+"', 1)") == "0"
	})
}

// Promote makes the replica the primary as an orchestrator does: it applies what it has received, if it is to, forgets
// the former primary and takes writes. Then the address leads there. The former primary serves on unless it was killed.
func (r *Replicated) Promote(t *testing.T, apply bool) {
	t.Helper()
	if apply {
		// In this order: a replica that starts with both threads stopped deletes what it has not applied.
		r.exec(t, r.onReplica, "START SLAVE SQL_THREAD", "STOP SLAVE IO_THREAD")
		received := received(t, r.onReplica)
		if received != "" {
			r.await(t, received)
		}
	}
	r.exec(t, r.onReplica, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF")
	r.Address.Move(r.Replica.Addr())
}

// received is the position up to which the replica has received events.
func received(t *testing.T, replica *sql.DB) (position string) {
	t.Helper()
	rows, err := replica.QueryContext(t.Context(), "SHOW SLAVE STATUS")
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
		if name == "Gtid_IO_Pos" {
			position = string(values[i])
		}
	}
	return position
}

func (r *Replicated) exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("testenv: replicated: %s: %v", statement, err)
		}
	}
}

func pool(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	return testenv.Opened(t, db, err)
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
