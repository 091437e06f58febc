package topology

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

// Galera is a cluster of MariaDB nodes. Each takes writes.
type Galera struct {
	Nodes []*testenv.MySQL
	first string // where the first node listens for others
}

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
			"--wsrep-provider=" + galeraLibrary(t), "--wsrep-cluster-name=" + t.Name(), "--wsrep-sst-method=copied",
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
				return []string{fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d;"+
					"ist.recv_addr=127.0.0.1:%d;gcache.size=32M", group, group+1)}
			}}))
		g.awaitSize(t, len(g.Nodes))
	}
	seed := new(Galera)
	start("", seed)
	data := filepath.Join(t.TempDir(), "data")
	seed.leaveData(t, data)
	g := new(Galera)
	for range nodes {
		start(data, g)
	}
	return g
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

// awaitSize waits until the last node takes statements in a cluster of that size.
func (g *Galera) awaitSize(t *testing.T, size int) {
	t.Helper()
	db, err := sql.Open("mysql", g.Nodes[len(g.Nodes)-1].DSN(""))
	testenv.Opened(t, db, err)
	testenv.Eventually(t, "the node has joined", func() bool {
		var name, found, state string
		return db.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &found) == nil &&
			db.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_local_state_comment'").
				Scan(&name, &state) == nil && found == fmt.Sprint(size) && state == "Synced"
	})
}
