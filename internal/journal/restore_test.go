package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/settle"
)

func members(users ...coupon.UserID) (all []string) {
	for _, user := range users {
		all = append(all, user.Member())
	}
	return all
}

// lose makes Redis lose coupons, while every pod dies and has told MySQL before how many it accepted.
func lose(d *jajeongtest.Deployment, coupons ...coupon.CouponID) {
	d.T.Helper()
	d.Refresh()
	d.PodsDie()
	d.LoseRedis(coupons...)
}

func TestRestore_PutsEverybodyBackAheadOfNewcomers(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	users := jajeongtest.Between[coupon.UserID](1, 600)
	id := d.AddQueue(100, users...)
	d.AddUsers(1001, 1002)
	before := d.Arrivals(id)
	d.Journal(id)
	lose(d, id)
	d.Refresh()
	d.Apply(id, 1001, 600, 1002) // one of the lost applies again

	done := d.Restore(id)
	require.EqualValues(t, 600, done.Compared)
	require.EqualValues(t, 599, done.Back)
	require.EqualValues(t, 1, done.Moved)
	require.Zero(t, done.Missing)
	require.Equal(t, append(members(users...), "1001", "1002"), d.Waiting(id))
	after := d.Arrivals(id)
	for member, arrival := range before {
		require.Equal(t, arrival, after[member])
	}
	again := d.Restore(id)
	require.False(t, again.Changed())
	d.SettleNow()
	require.Equal(t, users[:100], d.Issued(id))
	d.Verify()
}

// Nobody is lost by count, because an older state of Redis has users whom MySQL has settled since.
func TestSettlement_ComparesTheJournalAfterAnOlderState(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 9)...)
	id := d.AddCoupon(4)
	d.Apply(id, 1, 2)
	older := dump(d, id)
	d.SettleNow()
	d.Apply(id, 3, 4)
	d.Journal(id)
	d.Refresh()
	d.PodsDie()
	load(d, id, older)
	d.Refresh()
	d.Apply(id, 5)

	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, d.Issued(id))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(id, "NOT_SELECTED"))
	d.Verify()
}

func TestSettlement_RestoresBeforeItHoldsACoupon(t *testing.T) {
	t.Parallel()
	for _, cadence := range []coupon.Cadence{coupon.Nightly, coupon.Immediate} {
		t.Run(string(cadence), func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2, 3, 4)
			d.Exec("UPDATE coupon SET cadence = ? WHERE id = ?", cadence, id)
			d.Journal(id)
			d.Refresh()
			require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "1", "3").Err()) // by hand, in the same epoch
			d.PodsDie()
			if cadence == coupon.Immediate {
				require.Equal(t, coupon.Settled, d.IssueNow(id).Status)
			} else {
				d.SettleNow()
			}
			require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
			d.Verify()
		})
	}
}

// A run issues nothing of a frozen coupon, but puts back whom Redis has lost.
func TestSettlement_RestoresFrozenCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Journal(id)
	lose(d, id)
	d.Refresh()
	d.Exec("UPDATE coupon SET frozen = TRUE WHERE id = ?", id)
	report := d.SettleNow()
	require.Equal(t, coupon.Frozen, report.Coupons[0].Status)
	require.Equal(t, members(1, 2, 3), d.Waiting(id))
	require.Empty(t, d.Issued(id))
}

// Only the missing promises that the journal does not know hold a coupon. A restore that found nobody is not repeated.
func TestSettlement_HoldsWhatTheJournalDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Journal(id)
	d.AddUsers(4)
	d.Apply(id, 4) // after the journal
	lose(d, id)
	d.Refresh()
	steps := 0
	count := func(s *settle.Settler) {
		s.Hook = func(_ coupon.CouponID, step settle.Step) {
			if step == settle.StepRestore {
				steps++
			}
		}
	}
	for range 2 {
		report, err := d.Settler(count).RunOnce(t.Context(), jajeongtest.Manual(id))
		require.NoError(t, err)
		require.EqualValues(t, 1, report.Coupons[0].Gap, "%+v", report.Coupons[0])
		require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
	}
	require.Equal(t, 1, steps)
	require.Equal(t, members(1, 2, 3), d.Waiting(id))

	d.AcceptGap()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	d.Verify()
}

// Redis is lost before any pod has told MySQL of the first applications. The journal has them, so that a settlement
// restores.
func TestSettlement_RestoresBeforeAnyRefresh(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4)
	id := d.AddCoupon(2)
	d.Refresh()
	d.Apply(id, 1, 2, 3)
	d.Journal(id)
	d.PodsDie()
	d.LoseRedis(id)
	d.Refresh()
	d.Apply(id, 4)

	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	require.Equal(t, []coupon.UserID{3, 4}, d.Outcome(id, "NOT_SELECTED"))
	d.Verify()
}

// An operator has written off who was missing after a restore. As many who are lost later are not taken for these.
func TestSettlement_RestoresAsManyAsWereWrittenOff(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1, 2, 3)
	d.Journal(id)
	d.AddUsers(4, 5, 6)
	d.Apply(id, 4) // after the journal
	lose(d, id)
	d.Refresh()
	d.AcceptGap()
	require.EqualValues(t, 1, d.Number("SELECT written_off FROM promise WHERE coupon_id = ?", id))
	d.SettleNow()

	d.Apply(id, 5, 6)
	d.Journal(id)
	d.Refresh()
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "5").Err())
	d.PodsDie()
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3, 5, 6}, d.Issued(id))
	d.Verify()
}

// Who is settled, rejected or under review stays so, and Redis answers as before.
func TestRestore_LeavesOutcomesAsTheyAre(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3, 4)
	d.AddUsers(6, 7)
	d.Apply(id, 5) // not a user: under review
	d.Journal(id)
	d.SettleNow()
	d.Drop(id, "5")
	d.SetSeats(id, 3) // 3 gets the added seat
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
	lose(d, id)

	done := d.Restore(id)
	require.False(t, done.Changed(), "%+v", done)
	require.EqualValues(t, 4, done.Marked)
	require.Empty(t, d.Waiting(id))
	require.Equal(t, "ALREADY_ISSUED", string(d.Answer(id, 2)))
	require.Equal(t, "REJECTED", string(d.Answer(id, 5)))
	require.Equal(t, "SOLD_OUT", string(d.Answer(id, 6)))
	d.Verify()
}

// An entry of the DLQ returns to the queue, and the next run judges it again.
func TestRestore_JudgesEntriesOfALostDLQAgain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1)
	d.Apply(id, 5)
	d.Journal(id)
	d.SettleNow()
	require.Contains(t, d.UnderReview(id), "5")
	lose(d, id)
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Equal(t, []string{"5"}, d.Waiting(id))
	d.SettleNow()
	require.Contains(t, d.UnderReview(id), "5")
	d.Verify()
}

// Redis has lost the DLQ, but not the reasons of its entries. No reason stays without an entry.
func TestRestore_RemovesReasonsOfALostDLQ(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	d.Journal(id)
	d.Refresh()
	d.MoveToReview(id, "2", coupon.Failure{Retryable: true})
	d.PodsDie()
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("dlq", id)).Err())
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Empty(t, d.Redis.HGetAll(t.Context(), d.Key("dlq:reason", id)).Val())
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	d.Verify()
}

// Who was written off and comes back is not written off any more.
func TestRestore_TakesBackWhatWasWrittenOff(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Journal(id)
	rows := d.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id)
	require.EqualValues(t, 3, rows)
	d.Exec("CREATE TABLE kept AS SELECT * FROM line_journal")
	d.Exec("DELETE FROM line_journal")
	lose(d, id)
	d.AcceptGap()
	require.EqualValues(t, 3, d.Number("SELECT written_off FROM promise WHERE coupon_id = ?", id))

	d.Exec("INSERT INTO line_journal SELECT * FROM kept WHERE user_id <> 3")
	require.EqualValues(t, 2, d.Restore(id).Back)
	require.EqualValues(t, 1, d.Number("SELECT written_off FROM promise WHERE coupon_id = ?", id))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	d.Verify()
}

func TestRestore_DryRunChangesNothing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Journal(id)
	lose(d, id)
	done, err := d.Restorer().Restore(t.Context(), journal.Order{Coupon: id, DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, done.Back)
	require.Zero(t, done.Missing)
	require.Empty(t, d.Waiting(id))
	require.Zero(t, d.Redis.Exists(t.Context(), d.Key("state", id)).Val())
}

func TestRestore_FailsAtOnceIfTheCouponIsLocked(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1)
	release := d.Lock(id)
	defer release()
	_, err := d.Restorer().Restore(t.Context(), journal.Order{Coupon: id, NoWait: true})
	require.Error(t, err)
}

// slowLine is Redis whose second put back takes too long.
type slowLine struct {
	*candidates.Store
	puts   int
	limits map[string]map[time.Time]bool // of the calls, by name
}

func (l *slowLine) note(ctx context.Context, call string) {
	limit, _ := ctx.Deadline()
	if l.limits[call] == nil {
		l.limits[call] = map[time.Time]bool{}
	}
	l.limits[call][limit] = true
}

func (l *slowLine) Missing(ctx context.Context, id coupon.CouponID,
	all []candidates.Answer) (string, []candidates.Answer, error) {
	l.note(ctx, "missing")
	return l.Store.Missing(ctx, id, all)
}

func (l *slowLine) PutBackJournalled(ctx context.Context, id coupon.CouponID,
	lost []candidates.Answer) (candidates.Restored, error) {
	if l.puts++; l.puts == 2 {
		return candidates.Restored{}, context.DeadlineExceeded
	}
	l.note(ctx, "put back")
	return l.Store.PutBackJournalled(ctx, id, lost)
}

func (l *slowLine) Remove(ctx context.Context, id coupon.CouponID, closes time.Time, mark coupon.Mark,
	all []coupon.Application) (int64, error) {
	l.note(ctx, "mark")
	return l.Store.Remove(ctx, id, closes, mark, all)
}

func (l *slowLine) Marked(ctx context.Context, id coupon.CouponID, mark coupon.Mark,
	after uint64) ([]string, uint64, error) {
	l.note(ctx, "marked")
	return l.Store.Marked(ctx, id, mark, after)
}

func (l *slowLine) Readmit(ctx context.Context, id coupon.CouponID, winners []candidates.Answer) (int64, error) {
	l.note(ctx, "readmit")
	return l.Store.Readmit(ctx, id, winners)
}

// However many calls of Redis lie between two statements, the session does not end meanwhile. Who was put back before a
// slow call counts in the end.
func TestRestore_EndsNoSessionWhileRedisIsSlow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	users := jajeongtest.Between[coupon.UserID](1, 900)
	id := d.AddQueue(310, users[:300]...)
	d.Journal(id)
	d.SettleNow()
	d.AddUsers(users[300:]...)
	d.Apply(id, users[300:]...)
	d.Journal(id)
	lose(d, id)
	d.Exec("DELETE FROM user_coupon WHERE user_id = 300")

	restorer := d.Restorer()
	line := &slowLine{Store: restorer.Line.(*candidates.Store), limits: map[string]map[time.Time]bool{}}
	restorer.Line = line
	done, err := restorer.Restore(t.Context(), journal.Order{Coupon: id, Operator: "kim", Reason: "test"})
	require.NoError(t, err)
	require.EqualValues(t, 601, done.Back)
	require.EqualValues(t, 299, done.Marked)
	require.Equal(t, audit.Restored{Back: 601}, d.Payloads(id, audit.ApplicationsRestored)[0])

	require.NoError(t, d.Redis.SAdd(t.Context(), d.Key("issued", id), 300).Err())
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), 300).Err())
	done, err = restorer.Restore(t.Context(),
		journal.Order{Coupon: id, Operator: "kim", Reason: "test", FromMarks: true})
	require.NoError(t, err)
	require.EqualValues(t, 1, done.FromMarks)
	for call, parts := range map[string]int{"missing": 3, "put back": 2, "mark": 1, "marked": 1, "readmit": 1} {
		require.Len(t, line.limits[call], parts, "%s", call)
		for limit := range line.limits[call] {
			require.False(t, limit.IsZero(), call)
			require.True(t, limit.Before(time.Now().Add(connect.Settling.Silent)), call)
		}
	}
}

// The journal has whom a restore puts back. Reading the whole line again would keep it from newcomers.
func TestRestore_MakesTheJournalReadNothingAgain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Journal(id)
	journalled := d.Redis.HGet(t.Context(), d.Key("state", id), "journalled").Val()
	require.NotEmpty(t, journalled)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "2").Err())
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Equal(t, journalled, d.Redis.HGet(t.Context(), d.Key("state", id), "journalled").Val())
}

func TestRestore_ResumesTheJournalAfterATotalLoss(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"NobodyStands": false, "APodPutSomebodyBack": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2, 3)
			d.Journal(id)
			first := d.Arrivals(id)["1"]
			journalled := d.Redis.HGet(t.Context(), d.Key("state", id), "journalled").Val()
			lose(d, id)
			d.Refresh()
			if early { // at an arrival that the journal has passed and does not know
				_, err := d.Store.PutBack(t.Context(), id, answers(first-1, 4))
				require.NoError(t, err)
				journalled = ""
			}
			require.EqualValues(t, 3, d.Restore(id).Back)
			require.Equal(t, journalled, d.Redis.HGet(t.Context(), d.Key("state", id), "journalled").Val())
			d.AddUsers(5)
			d.Apply(id, 5)
			d.Journal(id)
			standing := d.Redis.ZCard(t.Context(), d.Queue(id)).Val()
			require.EqualValues(t, standing, d.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id))
		})
	}
}

// Redis falls back to an older state between the COMMIT of the journal and its note in Redis. The note must not reach
// the older state: nothing else would say that it lacks applications.
func TestJournal_LeavesAnOlderStateAsItIs(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	id := d.AddCoupon(5)
	older := dump(d, id)
	d.Apply(id, 1, 2, 3)
	before, err := d.Store.Lines(t.Context(), []coupon.CouponID{id})
	require.NoError(t, err)
	lose(d, id)
	load(d, id, older)
	move := func() (moved bool) {
		moved, err := d.Store.MoveJournalled(t.Context(), id, before[id], before[id].Last)
		require.NoError(t, err)
		return moved
	}
	require.False(t, move(), "its last arrival is earlier")
	d.AddUsers(4)
	d.Apply(id, 4)
	require.False(t, move(), "its epoch is another one")
	require.Empty(t, d.Redis.HGet(t.Context(), d.Key("state", id), "journalled").Val())
}

// An application that was put back by a pod after the journal read the queue is journalled, too.
func TestJournal_FollowsApplicationsOfThePast(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	two := d.Arrivals(id)["2"]
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "2").Err())
	d.Journal(id)
	require.EqualValues(t, 2, d.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id))
	_, err := d.Store.PutBack(t.Context(), id, answers(two, 2))
	require.NoError(t, err)
	d.Journal(id)
	require.EqualValues(t, 3, d.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id))
}

// MySQL was restored to before a settlement whose winners were told: those whom the journal of then has get their seats
// again.
func TestRestore_FromMarks(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(3, 1, 2)
	d.Journal(id)
	d.AddUsers(3, 4, 5)
	d.Apply(id, 3, 4, 5) // after the backup
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
	for _, table := range []string{"user_coupon", "application_outcome", "settlement", "settled", "run_coupon",
		"settlement_run", "audit_event", "audit_head"} {
		d.Exec("DELETE FROM " + table)
	}
	d.Exec("UPDATE coupon SET issued_count = 0")
	d.PodsDie()

	order := journal.Order{Coupon: id, DryRun: true, FromMarks: true, Operator: "kim", Reason: "test"}
	would, err := d.Restorer().Restore(t.Context(), order)
	require.NoError(t, err)
	require.Empty(t, d.Waiting(id))
	order.DryRun = false
	done, err := d.Restorer().Restore(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, would.FromMarks, done.FromMarks)
	require.EqualValues(t, 2, done.FromMarks)
	require.Equal(t, []coupon.UserID{3}, done.Unknown)
	require.EqualValues(t, 3, done.Missing, "3, 4 and 5")
	require.Equal(t, members(1, 2), d.Waiting(id))
	require.EqualValues(t, 1,
		d.Number("SELECT COUNT(*) FROM audit_event WHERE action = 'APPLICATIONS_RESTORED' AND actor = 'kim'"))
	again, err := d.Restorer().Restore(t.Context(), order)
	require.NoError(t, err)
	require.Zero(t, again.FromMarks)

	d.AcceptGap()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
}
