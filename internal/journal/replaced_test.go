package journal_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// A program still reaches a primary that was replaced, and that lacks what the new one has settled since. Nobody
// acknowledges its commits. It brings no winner back into the queue.
func TestRestore_EntersNobodyOnAServerThatWasReplaced(t *testing.T) {
	t.Parallel()
	servers := topology.StartReplicated(t, topology.ReplicatedOptions{SemiSync: true})
	admin, err := (&connect.MySQLSettings{MySQLDSN: servers.DSN("mysql")}).Open(connect.Patient, zap.NewNop())
	testenv.Opened(t, admin, err)
	_, err = admin.Exec("CREATE DATABASE jajeong CHARACTER SET utf8mb4")
	require.NoError(t, err)
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: &testenv.MySQLHandle{DSN: servers.DSN("jajeong")}})
	id := d.AddQueue(2, 1, 2, 3)
	d.Journal(id)
	before, err := d.CopyTables(t.Context())
	require.NoError(t, err)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	d.PutTablesBack(before) // what the former primary has
	servers.Behind(t)
	defer servers.Follow(t) // the end of the test changes something, too

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	restorer, ended := d.Restorer(), make(chan error, 1)
	go func() {
		_, err := restorer.Restore(ctx, journal.Order{Coupon: id})
		ended <- err
	}()
	testenv.Eventually(t, "a commit waits for the replica", func() bool {
		return testenv.Sessions(t, d.DB, func(s testenv.Session) bool { return s.Statement == "COMMIT" }) > 0
	})
	require.Empty(t, d.Waiting(id))
	stop()
	require.Error(t, testenv.Receive(t, "the restore ends", ended))
	require.Empty(t, d.Waiting(id))
	require.Len(t, marks(d, id), 2)
}
