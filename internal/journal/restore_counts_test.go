package journal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

// The queue was deleted by hand, and those who ask again are accepted twice by the same server. The count falls again,
// also if the first attempt at the restore loses its session.
func TestRestore_CountsThoseWhoMoveForwardOnce(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(d *jajeongtest.Deployment){
		"at once": func(*jajeongtest.Deployment) {}, "in a second attempt": killSessions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id := journalled(t, 5, 1, 2, 3)
			before := d.Arrivals(id)
			d.PodsDie()
			require.NoError(t, d.Redis.Del(t.Context(), d.Queue(id)).Err())
			d.Apply(id, 2, 3)
			require.EqualValues(t, 5, d.Look(id).Accepted)
			d.Journal(id)
			require.EqualValues(t, 5, journalField(d, id, "accepted"))
			restorer := d.Restorer()
			restorer.Line = stumbling{restorer.Line, once("Enter", func() { happens(d) })}
			done, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
			require.NoError(t, err)
			require.EqualValues(t, 2, done.Moved)
			require.EqualValues(t, 3, done.Accepted)
			require.Equal(t, before, d.Arrivals(id))
			requireRestored(d, id, 0)

			d.FailOver(id)
			require.Zero(t, d.Restore(id).Unknown, "the journal counts them once, too")
		})
	}
}

// A new server has counted once whoever applied again. Its count falls for nobody: another one of it is missing.
func TestRestore_HidesNoGapOfANewServer(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2)
	lose(d, id)
	d.Refresh()
	d.AddUsers(3, 4)
	d.Apply(id, 2, 3, 4)
	d.PodsDie()
	vanish(d, id, "3", "4")
	done := d.Restore(id)
	require.EqualValues(t, 1, done.Moved)
	require.EqualValues(t, 1, done.Missing, "of 3 and 4, who was entered hides one")
	require.Zero(t, done.Unknown)
	requireRestored(d, id, 1)
}

// Somebody writes that the server was not compared. The journal has copied from its epoch: it was. Those who applied in
// this epoch are not unknown.
func TestRestore_KnowsAnEpochThatTheJournalHasCopied(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	require.Equal(t, d.Look(id).Epoch, markOf(d, id).Epoch)
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "restored", 0).Err())
	require.False(t, d.Look(id).Restored)
	require.Zero(t, d.Restore(id).Unknown)
	requireRestored(d, id, 0)
	require.EqualValues(t, 3, journalField(d, id, "accepted"))
	require.Zero(t, journalField(d, id, "unfound"))
}

// Who is missing after a restore is left: no further restore is due for them, but one is for as many who vanish later.
func TestRestore_LeavesAGap(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	d.Exec("DELETE FROM line_journal WHERE user_id = 2")
	d.PodsDie()
	vanish(d, id, "2")
	require.EqualValues(t, 1, d.Restore(id).Missing)
	requireRestored(d, id, 1)
	vanish(d, id, "3")
	require.EqualValues(t, 1, d.Restore(id).Missing)
	require.Equal(t, []string{"1", "3"}, d.Waiting(id))
	d.AcceptGap()
	require.Equal(t, []coupon.UserID{1, 3}, d.Issued(id))
	_, err := d.Store.Look(t.Context(), id, coupon.Known{Settled: 3})
	require.NoError(t, err)
	requireRestored(d, id, 0)
}

// Somebody is lost while a restore is at work. The next look finds it, also if as many as are lost were entered.
func TestRestore_LeavesNoMoreThanWereMissingWhenItBegan(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	d.PodsDie()
	vanish(d, id, "1")
	restorer := d.Restorer()
	restorer.Line = stumbling{restorer.Line, func(_ context.Context, call string, after bool) error {
		if call == "TakeReturned" || call == "EndRestore" && !after {
			vanish(d, id, "2")
		}
		return nil
	}}
	done, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Missing)
	require.Zero(t, d.Look(id).Left)
	require.EqualValues(t, 1, d.Restore(id).Back)
	requireRestored(d, id, 0)
}

// Somebody is lost while a restore moves another one, who was accepted twice. The next look finds it.
func TestRestore_LeavesNoLossBesideAMovedPlace(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	d.PodsDie()
	vanish(d, id, "1")
	d.Apply(id, 1)
	restorer := d.Restorer()
	restorer.Line = stumbling{restorer.Line, func(_ context.Context, call string, after bool) error {
		if call == "EndRestore" && !after {
			vanish(d, id, "2")
		}
		return nil
	}}
	done, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Moved)
	require.EqualValues(t, 1, done.Missing)
	require.Zero(t, d.Look(id).Left)
	require.EqualValues(t, 1, d.Restore(id).Back)
	requireRestored(d, id, 0)
}

// A new server and the journal know fewer than were accepted: that is said by name, and once.
func TestRestore_WarnsOfUnknownPromises(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	d.Exec("DELETE FROM line_journal WHERE user_id > 1") // as if they had been counted, but not yet copied
	lose(d, id)
	d.Refresh()
	d.AddUsers(4, 5, 6)
	d.Apply(id, 4, 5, 6) // newcomers are none of them
	done := d.Restore(id)
	require.EqualValues(t, 2, done.Unknown)
	require.Zero(t, done.Missing, "nobody is held up for it")
	require.EqualValues(t, 2, journalField(d, id, "unfound"))
	require.EqualValues(t, 1, journalField(d, id, "accepted"))
	warned := []audit.Payload{audit.UnknownPromises{Accepted: 3, Known: 1}}
	require.Equal(t, warned, d.Payloads(id, audit.PromiseUnknown))
	requireRestored(d, id, 0)
	for range 2 {
		d.Journal(id)
		require.Zero(t, d.Restore(id).Unknown)
		d.FailOver(id)
	}
	require.Equal(t, warned, d.Payloads(id, audit.PromiseUnknown))
	require.EqualValues(t, 2, journalField(d, id, "unfound"))
}

// The server's own count has them: they are missing, and nobody is told of them twice.
func TestRestore_CountsAMissingPromiseOnce(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	d.Exec("DELETE FROM line_journal WHERE user_id > 2") // as if they had been counted, but not yet copied
	require.NoError(t, d.Redis.Del(t.Context(), d.Queue(id)).Err())
	d.FailOver(id)
	done := d.Restore(id)
	require.EqualValues(t, 2, done.Back)
	require.EqualValues(t, 1, done.Missing)
	require.Zero(t, done.Unknown)
	require.EqualValues(t, 3, journalField(d, id, "accepted"))
}

// More are accounted for than were counted. An excess would hide as many losses.
func TestRestore_CountsAnExcess(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2, 3)
	d.AddPromises(id, -2)
	require.EqualValues(t, 3, d.Restore(id).Accepted)
	d.PodsDie()
	vanish(d, id, "3")
	books, err := promise.Read(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.Equal(t, promise.Missing, books.Due(d.Look(id).Line))
}

// The API's account may write accepted. A number that no program could read would stop the journals of all coupons.
func TestRestore_BoundsWhatTheAPIsAccountWrites(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	d.Journal(id)
	for _, column := range []string{"journal.up_to", "journal.accepted", "journal.unfound", "journal.asked",
		"settled.issued", "settled.concluded", "settled.settled_up_to", "settled.last_issued", "settled.written_off",
		"settled.erased", "settled.erased_rejected"} {
		table, name, _ := strings.Cut(column, ".")
		_, err := d.DB.Exec(fmt.Sprintf("INSERT INTO %s (coupon_id, %s) VALUES (99, 9007199254740992)", table, name))
		require.True(t, mysqltx.IsCheck(err), "%s: %v", column, err)
	}
	for range 2 {
		d.Exec("UPDATE journal SET accepted = 9007199254740991")
		d.FailOver(id)
		require.EqualValues(t, coupon.MaxArrival-1, d.Restore(id).Unknown)
		require.Zero(t, d.Restore(id).Unknown)
	}
	require.EqualValues(t, coupon.MaxArrival, journalField(d, id, "unfound"))
	_, err := journal.ListOpen(t.Context(), journalOf(d).DB)
	require.NoError(t, err)
}

// An outcome written by hand may lie beyond every arrival.
func TestRestore_KeepsSumsOfAFarOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	d.Journal(id)
	d.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at)
		VALUES (?, 7, '9999-01-01', 'NOT_SELECTED', 1, NOW(6))`, id)
	d.Restore(id)
	require.EqualValues(t, coupon.MaxArrival, d.Number("SELECT settled_up_to FROM settled WHERE coupon_id = ?", id))
}

// Who has an arrival ahead of the clock is in the journal, and not unknown.
func TestRestore_KnowsWhoIsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1, 2)
	d.Journal(id)
	d.Exec("UPDATE line_journal SET arrival = arrival + 600000000 WHERE user_id = 2")
	lose(d, id)
	done := d.Restore(id)
	require.EqualValues(t, 1, done.Impossible)
	require.Zero(t, done.Unknown)
	require.Zero(t, journalField(d, id, "unfound"))
}
