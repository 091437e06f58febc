package journal_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// lockJournal locks a coupon's row of table journal, as another task does.
func lockJournal(d *jajeongtest.Deployment, id coupon.CouponID) (release func()) {
	d.T.Helper()
	tx, err := d.DB.Begin()
	require.NoError(d.T, err)
	release = func() { _ = tx.Rollback() }
	d.T.Cleanup(release)
	_, err = tx.Exec("SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE", id)
	require.NoError(d.T, err)
	return release
}

// Redis stops answering while a copy has locked its row. Others wait for the row no longer than they wait for locks.
func TestCopy_GivesTheRowAwayWhileRedisHangs(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	var hanging atomic.Int64 // requests without a reply
	var hangs atomic.Bool
	over, struck := make(chan struct{}), make(chan struct{}, 100)
	defer close(over)
	_, through := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy != jajeongtest.ToRedis || !hangs.Load() || !bytes.Contains(turn.Request, []byte("evalsha")) {
			return faultproxy.Pass()
		}
		hanging.Add(1)
		struck <- struct{}{}
		return faultproxy.DelayReply(over)
	})
	j := journalOf(through)
	require.NoError(t, j.Begin(t.Context(), id))
	lines, err := j.Store.Lines(t.Context(), []coupon.CouponID{id})
	require.NoError(t, err)

	hangs.Store(true)
	copied := make(chan error, 1)
	go func() {
		_, err := j.Copy(t.Context(), id, lines[id])
		copied <- err
	}()
	testenv.Receive(t, "the copy asks Redis", struck)
	release := lockJournal(d, id)
	require.Error(t, testenv.Receive(t, "the copy ends", copied))
	require.EqualValues(t, 1, hanging.Load(), "the row was locked again")
	release()

	hangs.Store(false)
	d.Journal(id)
	require.EqualValues(t, 3, d.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id))
}

func TestClear_LeavesALockedCouponToTheNextTime(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	locked, free, open := d.AddQueue(2, 1), d.AddQueue(2, 2), d.AddQueue(2, 3)
	d.Journal(locked, free, open)
	for _, id := range []coupon.CouponID{locked, free} {
		d.SetWindow(id, d.Now().Add(-time.Hour), d.Now().Add(-time.Minute))
	}
	d.SettleNow()
	release := lockJournal(d, locked)
	j := journalOf(d)
	require.Error(t, j.Clear(t.Context()))
	require.Equal(t, []uint64{uint64(locked), uint64(open)}, d.IDs("SELECT coupon_id FROM journal ORDER BY coupon_id"))
	release()
	require.NoError(t, j.Clear(t.Context()))
	for _, table := range []string{"journal", "line_journal"} {
		require.Equal(t, []uint64{uint64(open)}, d.IDs("SELECT coupon_id FROM "+table), "the coupon is not final")
	}
}
