package topology_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestGalera(t *testing.T) {
	t.Parallel()
	g := topology.StartGalera(t, 3)
	open := func(n int) *sql.DB {
		db, err := sql.Open("mysql", g.Nodes[n].DSN(""))
		return testenv.Opened(t, db, err)
	}
	_, err := open(0).ExecContext(t.Context(), "CREATE DATABASE jajeong")
	require.NoError(t, err)
	for n := range g.Nodes {
		testenv.Eventually(t, "the node has what another wrote", func() bool {
			return open(n).QueryRowContext(t.Context(), "SHOW DATABASES LIKE 'jajeong'").Scan(new(string)) == nil
		})
	}
}

// After a switch, the former primary is the replica. Connections to it stay.
func TestReplicated_Switch(t *testing.T) {
	t.Parallel()
	r := topology.StartReplicated(t, topology.ReplicatedOptions{SemiSync: true})
	open := func() *sql.DB {
		db, err := sql.Open("mysql", r.DSN(""))
		return testenv.Opened(t, db, err)
	}
	conn, err := open().Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for n := range 3 {
		r.Switch(t)
		_, err := open().ExecContext(t.Context(), fmt.Sprintf("CREATE DATABASE jajeong%d", n))
		require.NoError(t, err)
		r.AwaitApplied(t)
		var id, readOnly int
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT @@server_id, @@read_only").Scan(&id, &readOnly))
		require.Equal(t, 1, id)
		require.Equal(t, 1-n%2, readOnly)
	}
}

// With semi-synchronous replication, a replica that is promoted has every commit of the primary that died. Without, it
// lacks what it has not received.
func TestReplicated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		semiSync bool
		prepare  func(r *topology.Replicated, t *testing.T)
		want     int
	}{
		"semi-synchronous":             {true, func(*topology.Replicated, *testing.T) {}, 100},
		"semi-synchronous, with a lag": {true, (*topology.Replicated).Lag, 100},
		"asynchronous":                 {false, (*topology.Replicated).Behind, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := topology.StartReplicated(t, topology.ReplicatedOptions{SemiSync: c.semiSync})
			db, err := sql.Open("mysql", r.DSN(""))
			testenv.Opened(t, db, err)
			exec := func(statement string) {
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			exec("CREATE DATABASE jajeong")
			exec("CREATE TABLE jajeong.t (id INT PRIMARY KEY)")
			r.AwaitApplied(t)
			c.prepare(r, t)
			for n := range 100 {
				exec(fmt.Sprintf("INSERT INTO jajeong.t VALUES (%d)", n))
			}
			require.NoError(t, r.Primary.Kill())
			r.Promote(t, true)
			var found int
			testenv.Eventually(t, "the new primary takes writes", func() bool {
				_, err := db.ExecContext(t.Context(), "CREATE DATABASE IF NOT EXISTS another")
				return err == nil
			})
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jajeong.t").Scan(&found))
			require.Equal(t, c.want, found)
		})
	}
}
