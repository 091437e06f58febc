package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/promise"
)

// The server before may serve again, and lack whom this one has accepted.
func TestCopy_OfANewServerAsksForARestore(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1)
	before := markOf(d, id)
	d.FailOver(id)
	c := copierOf(d, id)
	d.AddUsers(2)
	d.Apply(id, 2)
	for range 2 {
		c.copy()
		require.EqualValues(t, 1, journalField(d, id, "asked"), "once")
	}
	require.Equal(t, []coupon.UserID{1, 2}, rows(d, id))
	require.Equal(t, before, markOf(d, id), "while a restore is due")
	d.Restore(id)
	c.copy()
	require.Zero(t, journalField(d, id, "asked"))
	require.Equal(t, promise.Mark{Epoch: d.Look(id).Epoch, UpTo: d.Arrivals(id)["2"]}, markOf(d, id))
}

// Nobody has to be compared with a server that serves before anybody has applied.
func TestCopy_OfAnEmptyLineKeepsNoEpoch(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	c := copierOf(d, d.AddCoupon(2))
	require.Zero(t, c.copy())
	require.Zero(t, markOf(d, c.id))
}

func TestRestore_BeginsTheMarkOfANewEpochTenSecondsBefore(t *testing.T) {
	t.Parallel()
	for name, upTo := range map[string]time.Duration{
		"the mark": -time.Minute, "the start of the epoch": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddCoupon(2)
			look := d.Look(id)
			since := look.Since.Time()
			c := copierOf(d, id)
			d.Exec("UPDATE journal SET epoch = 'other:1', up_to = ? WHERE coupon_id = ?",
				since.Add(upTo).UnixMicro(), id)
			lower := since.Add(min(upTo, 0))
			d.ApplyAt(id, "1", lower.Add(-11*time.Second))
			d.ApplyAt(id, "2", lower.Add(-9*time.Second))
			d.ApplyAt(id, "3", lower.Add(-time.Millisecond))
			require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "last", d.Now().UnixMicro()).Err())
			require.Equal(t, 2, c.copy().Rows)
			require.Equal(t, []coupon.UserID{2, 3}, rows(d, id))
			require.Equal(t, "other:1", markOf(d, id).Epoch, "while a restore is due")
			d.Restore(id)
			begun := promise.Mark{Epoch: look.Epoch, UpTo: coupon.ArrivalAt(lower.Add(-10 * time.Second))}
			require.Equal(t, begun, markOf(d, id))
			require.Zero(t, c.copy().Rows, "the process knows what it has copied")
			require.Equal(t, promise.Mark{Epoch: look.Epoch, UpTo: d.Look(id).Last}, markOf(d, id))
		})
	}
}

// Another server took over, accepted users, and the one before serves again as if nothing had been. No pod remembers
// anything.
func TestRestore_OfAServerThatServesAgain(t *testing.T) {
	t.Parallel()
	for name, compared := range map[string]bool{
		"after the other one was compared": true, "before the other one was compared": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id := journalled(t, 5, 1)
			d.AddUsers(2, 3)
			first, err := d.CopyLine(t.Context(), id)
			require.NoError(t, err)
			d.FailOver(id)
			d.Apply(id, 2, 3)
			told := d.Arrivals(id)
			if compared {
				d.Restore(id)
			}
			d.Journal(id)
			d.PodsDie()
			for range 2 { // it is safe to repeat
				d.PutLineBack(id, first)
				d.Journal(id)
				require.Equal(t, members(1), d.Waiting(id))
				require.NotEqual(t, promise.NotDue, due(d, id))
				d.Restore(id)
				require.Equal(t, told, d.Arrivals(id))
				requireRestored(d, id, 0)
				d.FailOver(id)
				d.Restore(id)
				d.Journal(id)
			}
			d.PutLineBack(id, first)
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
		})
	}
}

// handsOver is a line where a pod hands over whom it knows once it has seen the end of a restore.
type handsOver struct {
	*candidates.Store
	returned []coupon.Answer
}

func (h handsOver) EndRestore(ctx context.Context, id coupon.CouponID, e candidates.Ending) (candidates.Ended, error) {
	ended, err := h.Store.EndRestore(ctx, id, e)
	if err == nil {
		_, _, err = h.Store.HandOver(ctx, id, e.Epoch, false, h.returned)
	}
	return ended, err
}

// MySQL has lost a settlement with those who were not selected: a pod alone knows them, and learns of it by the end of
// a restore. The settlement that has found the gap waits for the pod.
func TestRestoreCoupon_WaitsForPods(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(3, 1, 2, 3)
	d.Restore(id)
	lost := coupon.Answer{User: 2, Arrival: d.Arrivals(id)["2"]}
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "2").Err())
	d.Exec("DELETE FROM line_journal WHERE coupon_id = ?", id)
	restorer := d.Restorer()
	restorer.HandOverTime = time.Microsecond
	restorer.Line = handsOver{restorer.Line.(*candidates.Store), []coupon.Answer{lost}}
	require.NoError(t, restorer.RestoreCoupon(t.Context(), id))
	require.Equal(t, lost.Arrival, d.Arrivals(id)["2"])
}
