package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/promise"
)

// Somebody has written a `last` that no clock has reached. Nobody could apply after it was copied.
func TestCopy_CopiesNoFarLast(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	d.ApplyAt(id, "3", d.Now().Add(30*time.Minute))
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "last",
		d.Now().Add(time.Hour).UnixMicro()).Err())
	c := copierOf(d, id)
	require.Equal(t, 2, c.copy().Rows)
	require.LessOrEqual(t, markOf(d, id).UpTo.Time(), d.Now().Add(5*time.Second))

	vanish(d, id, "3")
	d.Restore(id)
	require.LessOrEqual(t, d.Look(id).Last.Time(), d.Now().Add(5*time.Second))
	require.GreaterOrEqual(t, d.Look(id).Last, markOf(d, id).UpTo, "nobody arrives where the journal has been")
}

// Somebody has written an up_to that no copy has reached. Whoever arrives below it is copied all the same, also by a
// new process.
func TestCopy_DoesNotBelieveAnUpToAhead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ahead    time.Duration
		restarts bool
	}{
		"of the clock":                   {ahead: time.Hour},
		"of the clock, in a new process": {ahead: time.Hour, restarts: true},
		"of the last arrival":            {ahead: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id, c := copying(t, 5, 1, 2)
			c.copy()
			d.Exec("UPDATE journal SET up_to = ? WHERE coupon_id = ?", d.Now().Add(test.ahead).UnixMicro(), id)
			d.AddUsers(3)
			d.Apply(id, 3)
			open, err := journal.ListOpen(t.Context(), c.DB)
			require.NoError(t, err)
			require.True(t, open[0].Behind(d.Look(id)))
			if test.restarts {
				c.restart()
			}
			require.Equal(t, 3, c.copy().Rows, "the whole line")
			require.Equal(t, []coupon.UserID{1, 2, 3}, rows(d, id))
			c.copy()
			require.Equal(t, d.Arrivals(id)["3"], markOf(d, id).UpTo)
		})
	}
}

// While up_to claims what nobody can have, pods must go on remembering, though a restore is due.
func TestCopy_TakesBackAnUpToAheadWhileARestoreIsDue(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 5, 1, 2)
	c.copy()
	handOver(d, id, "0", 0)
	d.Exec("UPDATE journal SET up_to = ? WHERE coupon_id = ?", d.Now().Add(time.Hour).UnixMicro(), id)
	c.copy()
	require.Zero(t, markOf(d, id).UpTo)
	d.Restore(id)
	c.copy()
	require.Equal(t, d.Arrivals(id)["2"], markOf(d, id).UpTo)
}

// Somebody has written a count that there cannot be, and that table journal does not take.
func TestCopy_BelievesNoImpossibleCount(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "accepted", "9007199254740993").Err())
	d.Restore(id)
	require.Equal(t, 2, copierOf(d, id).copy().Rows)
	require.EqualValues(t, 2, journalField(d, id, "accepted"))
}

// Pods go on remembering those of whom a restore has not decided yet. Rows are written once all the same.
func TestCopy_KeepsTheMarkWhileARestoreIsDue(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 2, 1, 2)
	c.copy()
	before := markOf(d, id)
	handOver(d, id, "0", 0)
	d.AddUsers(3)
	d.Apply(id, 3)
	require.Equal(t, journal.Copied{Rows: 1}, c.copy())
	for range 3 {
		require.Equal(t, journal.Copied{}, c.copy())
	}
	require.Equal(t, before, markOf(d, id))
	d.Restore(id)
	require.Zero(t, c.copy().Rows)
	require.Equal(t, d.Arrivals(id)["3"], markOf(d, id).UpTo)
}

func TestCopy_KeepsTheMarkWhileACleanUpIsPending(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	d.Exec("INSERT INTO settlement (run_id, coupon_id, settled_at) VALUES (1, ?, NOW(6))", id)
	c := copierOf(d, id)
	require.Equal(t, 2, c.copy().Rows)
	require.Zero(t, markOf(d, id).UpTo)
	d.Exec("UPDATE settlement SET cleaned_at = NOW(6)")
	c.copy()
	require.Equal(t, d.Arrivals(id)["2"], markOf(d, id).UpTo)
}

// MySQL is back at an earlier instant, in which the journal lacks rows that this process has written.
func TestCopy_ReadsTheWholeLineAfterMySQLHasFallenBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		due, restarts bool
	}{
		"and has lost the last copy":             {},
		"and has lost a copy that left the mark": {due: true},
		"and the process restarts meanwhile":     {restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id, c := copying(t, 2, 1, 2)
			c.copy()
			kept := markOf(d, id)
			var written time.Time
			require.NoError(t, d.DB.QueryRow("SELECT written_at FROM journal WHERE coupon_id = ?", id).Scan(&written))
			if test.due {
				handOver(d, id, "0", 0)
			}
			d.AddUsers(3, 4)
			d.Apply(id, 3, 4)
			require.Equal(t, 2, c.copy().Rows)

			d.Exec("DELETE FROM line_journal WHERE coupon_id = ? AND user_id <> 2", id)
			d.Exec("UPDATE journal SET epoch = ?, up_to = ?, written_at = ? WHERE coupon_id = ?", kept.Epoch, kept.UpTo,
				written, id)
			c.Rows = 2
			require.True(t, c.copy().More)
			require.Less(t, markOf(d, id).UpTo, d.Arrivals(id)["2"],
				"what was entered at an arrival of the past may be lost, too")
			if test.restarts {
				c.restart()
			}
			for c.copy().More {
			}
			require.Equal(t, []coupon.UserID{1, 2, 3, 4}, rows(d, id))
			if test.due {
				d.Restore(id)
			}
			for range 2 {
				require.Zero(t, c.copy().Rows, "once")
			}
			require.Equal(t, promise.Mark{Epoch: kept.Epoch, UpTo: d.Arrivals(id)["4"]}, markOf(d, id))
		})
	}
}

// MySQL is back at an instant before a restore wrote somebody, who stands at an arrival that the journal claims.
func TestCopy_ReadsTheWholeLineAfterMySQLHasLostARestore(t *testing.T) {
	t.Parallel()
	d, id, c := copying(t, 5, 1, 2)
	d.AddUsers(3, 4)
	d.Apply(id, 4)
	c.copy()
	kept := jajeongtest.Column[string](d, "SELECT CAST(written_at AS CHAR) FROM journal WHERE coupon_id = ?", id)[0]
	handOver(d, id, "3", d.Arrivals(id)["2"]+1)
	d.Restore(id)
	c.copy()
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, rows(d, id))

	d.Exec("DELETE FROM line_journal WHERE coupon_id = ? AND user_id = 3", id)
	d.Exec("UPDATE journal SET written_at = ? WHERE coupon_id = ?", kept, id)
	c.copy()
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, rows(d, id))
}
