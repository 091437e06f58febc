package topology

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

// Galera is a cluster of MariaDB nodes, each of which takes writes, behind an address that leads to the first one until
// it is moved.
type Galera struct {
	Nodes   []*testenv.MySQL
	Address *Address

	first string    // where the first node listens for others
	on    []*sql.DB // of each node
}

// impatience is how soon the others go on without a node that is silent, and take it back: 2 s and 0.5 s instead of 5.
const impatience = "evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.25S;evs.suspect_timeout=PT2S;" +
	"evs.inactive_timeout=PT4S;evs.install_timeout=PT4S;gmcast.time_wait=PT0.5S;"

// joinScript is the state transfer of a node that joins: it has a copy of the data, so that only the writes since then
// are missing, and Galera sends those by itself. It is wsrep_sst_copied on PATH.
const joinScript = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	--role) role=$2 ;;
	--address) address=$2 ;;
	--gtid) gtid=$2 ;;
	--datadir) dir=${2%/} ;;
	esac
	shift
done
if [ "$role" = joiner ]; then
	mkfifo "$dir/joined"
	echo "ready $dir/joined"
	read -r gtid <"$dir/joined"
	rm "$dir/joined"
	echo "$gtid"
else
	echo "$gtid" >"${address#*:}"
	echo "done $gtid"
fi
`

// StartGalera starts a cluster of that many nodes for this test alone.
func StartGalera(t *testing.T, nodes int) *Galera {
	t.Helper()
	scripts := t.TempDir()
	if err := os.WriteFile(filepath.Join(scripts, "wsrep_sst_copied"), []byte(joinScript), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(data string, g *Galera) {
		args := []string{"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON",
			"--wsrep-provider=" + galeraLibrary(t), "--wsrep-sst-method=copied",
			"--wsrep-node-address=127.0.0.1", "--wsrep-cluster-address=gcomm://" + g.first}
		if g.first == "" {
			args = append(args, "--wsrep-new-cluster")
		}
		g.Nodes = append(g.Nodes, testenv.PrivateMySQL(t, testenv.MySQLOptions{MariaDB: true, Programs: scripts,
			Data: data, Args: args, ArgsAt: func(port int) []string {
				group := process.SecondPort(port)
				if len(g.Nodes) == 0 {
					g.first = fmt.Sprintf("127.0.0.1:%d", group)
				}
				return []string{"--wsrep-cluster-name=" + g.first, // of at most 32 letters
					fmt.Sprintf("--wsrep-provider-options="+impatience+"gmcast.listen_addr=tcp://127.0.0.1:%d;"+
						"ist.recv_addr=127.0.0.1:%d;gcache.size=32M", group, group+1)}
			}}))
		g.on = append(g.on, pool(t, g.Nodes[len(g.Nodes)-1].DSN("")))
		g.AwaitAll(t)
	}
	seed := new(Galera)
	start("", seed)
	data := filepath.Join(t.TempDir(), "data")
	seed.leaveData(t, data)
	g := new(Galera)
	for range nodes {
		start(data, g)
	}
	g.Exec(t, 0, "CREATE USER "+account, "GRANT ALL ON *.* TO "+account+" WITH GRANT OPTION")
	g.Address = NewAddress(t, g.Nodes[0].Addr())
	return g
}

// DSN is for programs, at the address that moves.
func (g *Galera) DSN(database string) string { return dsnAt(g.Address, database) }

// On is a pool of connections to a node.
func (g *Galera) On(node int) *sql.DB { return g.on[node] }

// Exec executes statements on a node, counted from 0.
func (g *Galera) Exec(t *testing.T, node int, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := g.on[node].ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("testenv: galera: %s: %v", statement, err)
		}
	}
}

// Isolate cuts a node off from the others (1), or ends that (0). A node that is cut off refuses statements soon.
func (g *Galera) Isolate(t *testing.T, node, cut int) {
	t.Helper()
	g.Exec(t, node, fmt.Sprintf("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=%d'", cut))
}

// leaveData ends the only node and copies its data folder. A node that begins with it knows where in the history of the
// cluster it stands.
func (g *Galera) leaveData(t *testing.T, to string) {
	t.Helper()
	db, err := sql.Open("mysql", g.Nodes[0].DSN(""))
	testenv.Opened(t, db, err)
	if _, err := db.ExecContext(t.Context(), "SHUTDOWN"); err != nil {
		t.Fatalf("testenv: galera: %v", err)
	}
	if err := g.Nodes[0].AwaitEnd(process.Patient(t)); err != nil {
		t.Fatalf("testenv: galera: %v", err)
	}
	if err := os.CopyFS(to, os.DirFS(g.Nodes[0].Data())); err != nil {
		t.Fatalf("testenv: galera: %v", err)
	}
}

// galeraLibrary is where packages of Debian and of others put it.
func galeraLibrary(t testing.TB) string {
	t.Helper()
	for _, folder := range []string{"/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera",
		"/opt/homebrew/lib", "/usr/local/lib"} {
		path := filepath.Join(folder, "libgalera_smm.so")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("testenv: galera is not installed. To install what is missing: make setup")
	return ""
}

// AwaitAll waits until every node takes statements, with all others.
func (g *Galera) AwaitAll(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "all nodes are there", func() bool {
		for node := range g.on {
			if !g.isIn(t, node, len(g.on)) {
				return false
			}
		}
		return true
	})
}

// AwaitWithout waits until a node takes statements without one other.
func (g *Galera) AwaitWithout(t *testing.T, node int) {
	t.Helper()
	testenv.Eventually(t, "the others go on", func() bool { return g.isIn(t, node, len(g.on)-1) })
}

// isIn reports whether a node takes statements in a cluster of that size.
func (g *Galera) isIn(t *testing.T, node, size int) bool {
	for status, want := range map[string]string{"wsrep_cluster_size": strconv.Itoa(size), "wsrep_ready": "ON",
		"wsrep_local_state_comment": "Synced"} {
		var name, found string
		err := g.on[node].QueryRowContext(t.Context(), "SHOW STATUS LIKE '"+status+"'").Scan(&name, &found)
		if err != nil || found != want {
			return false
		}
	}
	return true
}

// Aborts is how many transactions of a node gave way to those of others.
func (g *Galera) Aborts(t *testing.T, node int) (n int) {
	t.Helper()
	for _, status := range []string{"wsrep_local_bf_aborts", "wsrep_local_cert_failures"} {
		more, err := strconv.Atoi(show(t, g.on[node], "SHOW STATUS LIKE '"+status+"'"))
		if err != nil {
			t.Fatalf("testenv: galera: %v", err)
		}
		n += more
	}
	return n
}
