package journal_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

func TestCopy_CopiesWhatIsNew(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 2, 1, 2, 3)
	require.Equal(t, journal.Copied{Rows: 3}, c.copy())
	require.Equal(t, promise.Mark{Epoch: d.Look(id).Epoch, UpTo: d.Arrivals(id)["3"]}, markOf(d, id))
	require.EqualValues(t, 3, journalField(d, id, "accepted"))
	require.Zero(t, c.copy().Rows)

	d.AddUsers(4)
	d.Apply(id, 4)
	nobody := redis.Z{Score: float64(d.Now().UnixMicro()), Member: "nobody"}
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(id), nobody).Err())
	require.Equal(t, 1, c.copy().Rows, "a member that is no user is left out")
	c.restart()
	require.Zero(t, c.copy().Rows, "another process goes on from the mark")
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, rows(d, id))
	require.Equal(t, d.Arrivals(id)["4"], markOf(d, id).UpTo)
}

// An entry of the DLQ stands, too.
func TestCopy_CopiesTheDLQ(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.MoveToReview(id, "2", coupon.Failure{Retryable: true})
	require.Equal(t, 3, copierOf(d, id).copy().Rows)
}

func TestCopy_GoesOnPageByPage(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3, 4, 5)
	arrivals := d.Arrivals(id)
	c := copierOf(d, id)
	c.Rows = 2
	require.Equal(t, journal.Copied{Rows: 2, More: true}, c.copy())
	require.Equal(t, arrivals["2"]-1, markOf(d, id).UpTo, "others may have arrived at the same time")
	for c.copy().More {
	}
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5}, rows(d, id))
	require.Equal(t, promise.Mark{Epoch: d.Look(id).Epoch, UpTo: arrivals["5"]}, markOf(d, id))
}

// Two servers have given the same arrival, or somebody has written it by hand: more entries than one copy may write.
func TestCopy_LeavesOutNobodyWithTheSameArrival(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(2)
	at := d.Now().Add(-time.Second)
	for _, member := range []string{"1", "2", "3", "4"} {
		d.ApplyAt(id, member, at)
	}
	d.ApplyAt(id, "5", at.Add(time.Microsecond))
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "last", at.UnixMicro()+1).Err())
	c := copierOf(d, id)
	d.Exec("UPDATE journal SET epoch = ?, up_to = ? WHERE coupon_id = ?", d.Look(id).Epoch, at.UnixMicro()-1, id)
	c.Rows = 2
	for n := 0; c.copy().More; n++ {
		require.Less(t, n, 10)
	}
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5}, rows(d, id))
}

// changing is a Redis of which another server takes over before a call.
type changing struct {
	journal.Store
	change func(call string)
}

func (s changing) Look(ctx context.Context, id coupon.CouponID, known coupon.Known) (coupon.Look, error) {
	s.change("look")
	return s.Store.Look(ctx, id, known)
}

func (s changing) Page(ctx context.Context, id coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	s.change("page")
	return s.Store.Page(ctx, id, after, cutoff)
}

func TestCopy_DiscardsPagesOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"before the page": 2, "after the page": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id, c := copying(t, 2, 1, 2)
			before, calls := markOf(d, id), 0
			c.Store = changing{c.Store, func(string) {
				if calls++; calls == at {
					d.FailOver(id)
				}
			}}
			require.Equal(t, journal.Copied{More: true}, c.copy())
			require.Empty(t, rows(d, id))
			require.Equal(t, before, markOf(d, id))
			require.Equal(t, 2, c.copy().Rows, "the new server is read, though it is not restored yet")
			require.Equal(t, before, markOf(d, id))
			d.Restore(id)
			require.Zero(t, c.copy().Rows)
			require.Equal(t, d.Look(id).Epoch, markOf(d, id).Epoch)
		})
	}
}

func TestCopy_WritesRowsAndMarkTogether(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 2, 1, 2)
	d.Exec(`CREATE TRIGGER refuses BEFORE UPDATE ON journal FOR EACH ROW
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'`)
	_, err := c.Copy(t.Context(), id, &c.progress)
	require.Error(t, err)
	require.Empty(t, rows(d, id))
	d.Exec("DROP TRIGGER refuses")
	require.Equal(t, 2, c.copy().Rows)
}

func TestCopy_LeavesALockedCouponToAnotherProcess(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 2, 1, 2)
	release := lockJournal(d, id)
	require.Equal(t, journal.Copied{Busy: true}, c.copy())
	release()
	require.Equal(t, 2, c.copy().Rows)
}

func TestCopy_WritesNoMoreRowsThanItMay(t *testing.T) {
	t.Parallel()
	_, _, c := copying(t, 2, jajeongtest.Between[coupon.UserID](1, 120)...)
	c.Rows = 50 // below a page of Redis
	require.Equal(t, journal.Copied{Rows: 50, More: true}, c.copy())
	require.Equal(t, journal.Copied{Rows: 50, More: true}, c.copy())
	require.Equal(t, journal.Copied{Rows: 22}, c.copy(), "the last of a page is read again")
}

// Counts of a server that was not compared with the journal are too low, or are those of others.
func TestCopy_RaisesAcceptedByRestoredServersAlone(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 2, 1, 2)
	c.copy()
	d.FailOver(id)
	d.AddPromises(id, 5)
	d.AddUsers(3)
	d.Apply(id, 3)
	c.copy()
	require.Len(t, rows(d, id), 3)
	require.EqualValues(t, 2, journalField(d, id, "accepted"))
}

// The reply to a COMMIT is lost: nobody is left out.
func TestCopy_AfterALostCommit(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	var drops atomic.Bool
	_, through := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.HasSuffix(turn.Request, []byte("COMMIT")) && drops.CompareAndSwap(true, false) {
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	c := copierOf(through, id)
	drops.Store(true)
	c.copy()
	require.False(t, drops.Load())
	require.Equal(t, []coupon.UserID{1, 2}, rows(d, id))
	require.Equal(t, d.Arrivals(id)["2"], markOf(d, id).UpTo)
}

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
	c := copierOf(through, id)
	hangs.Store(true)
	copied := make(chan error, 1)
	go func() {
		_, err := c.Copy(t.Context(), id, &c.progress)
		copied <- err
	}()
	testenv.Receive(t, "the copy asks Redis", struck)
	release := lockJournal(d, id)
	require.Error(t, testenv.Receive(t, "the copy ends", copied))
	require.EqualValues(t, 1, hanging.Load(), "the row was locked again")
	release()

	hangs.Store(false)
	d.Journal(id)
	require.Equal(t, []coupon.UserID{1, 2, 3}, rows(d, id))
}

func TestClear_LeavesALockedCouponToTheNextTime(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	locked, free, open, gone := d.AddQueue(2, 1), d.AddQueue(2, 2), d.AddQueue(2, 3), d.AddCoupon(1)
	d.Journal(locked, free, open, gone)
	for _, id := range []coupon.CouponID{locked, free} {
		d.SetWindow(id, d.Now().Add(-time.Hour), d.Now().Add(-time.Minute))
	}
	d.SettleNow(locked, free, open)
	require.NoError(t, journalOf(d).Clear(t.Context()))
	require.Len(t, d.IDs("SELECT coupon_id FROM journal"), 4, "another server may not know of the end")
	d.Exec("UPDATE coupon SET finalised_at = finalised_at - INTERVAL 1 DAY")
	d.Exec("DELETE FROM coupon WHERE id = ?", gone)
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

// An operator extends a coupon after it was found finalised: its journal is needed again.
func TestClear_KeepsTheRowsOfACouponThatIsExtended(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	final, extended := d.AddQueue(2, 1), d.AddQueue(2, 2) // in the order in which they are found
	d.Journal(extended, final)
	d.Exec("UPDATE coupon SET finalised_at = NOW(6) - INTERVAL 1 DAY")
	tx, err := d.DB.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT user_id FROM line_journal WHERE coupon_id = ? FOR UPDATE", final)
	require.NoError(t, err)
	cleared := make(chan error, 1)
	j := journalOf(d)
	go func() { cleared <- j.Clear(t.Context()) }()
	testenv.Eventually(t, "the rows of the first coupon are waited for", func() bool {
		return testenv.Sessions(t, d.DB, func(s testenv.Session) bool {
			return strings.HasPrefix(s.Statement, "DELETE FROM line_journal")
		}) > 0
	})
	d.Exec("UPDATE coupon SET finalised_at = NULL WHERE id = ?", extended)
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Key("issued", extended), redis.Z{Score: 1, Member: "7"}).Err())
	require.NoError(t, tx.Rollback())
	require.NoError(t, testenv.Receive(t, "the journals are deleted", cleared))
	require.Empty(t, rows(d, final))
	require.Len(t, rows(d, extended), 1)
	require.Len(t, marks(d, extended), 1)
	require.Equal(t, []uint64{uint64(extended)}, d.IDs("SELECT coupon_id FROM journal"))
}
