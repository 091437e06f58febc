package topology_test

import (
	"database/sql"
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
