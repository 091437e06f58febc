package journal_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
)

// due is why a restore is due.
func due(d *jajeongtest.Deployment, id coupon.CouponID) promise.Cause {
	d.T.Helper()
	line := d.Look(id).Line
	books, err := promise.Read(d.T.Context(), d.DB, id)
	require.NoError(d.T, err)
	return books.Due(line)
}

// requireRestored demands that no restore is due, and that as many promises are left.
func requireRestored(d *jajeongtest.Deployment, id coupon.CouponID, left int64) {
	d.T.Helper()
	line := d.Look(id).Line
	books, err := promise.Read(d.T.Context(), d.DB, id)
	require.NoError(d.T, err)
	require.Equal(d.T, promise.NotDue, due(d, id))
	require.Equal(d.T, left, line.Left)
	require.Equal(d.T, left, books.Missing(line))
}

func TestRestore_EntersEverybodyAheadOfNewcomers(t *testing.T) {
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
	require.Zero(t, done.Unknown)
	require.EqualValues(t, 602, done.Accepted)
	require.Equal(t, append(members(users...), "1001", "1002"), d.Waiting(id))
	after := d.Arrivals(id)
	for member, arrival := range before {
		require.Equal(t, arrival, after[member])
	}
	requireRestored(d, id, 0)
	require.Equal(t, []audit.Payload{audit.Restored{Back: 599, Moved: 1}}, d.Payloads(id, audit.ApplicationsRestored))
	again := d.Restore(id)
	require.False(t, again.Changed())
	require.Len(t, d.Payloads(id, audit.ApplicationsRestored), 1)
	d.SettleNow()
	require.Equal(t, users[:100], d.Issued(id))
}

// Pods have time to hand over whom they know. If another server takes over meanwhile, the restore fails, and the next
// one gives them time again.
func TestRestore_WaitsForPods(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"a new server": false, "another one meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1)
			d.FailOver(id)
			store, err := candidates.NewStore(d.Redis,
				candidates.Options{KeyPrefix: d.Prefix, HandOverTime: 20 * jajeongtest.HandOverTime})
			require.NoError(t, err)
			restorer, begun := d.Restorer(), 0
			second := once("Look", func() {
				if fails {
					d.FailOver(id)
				}
			})
			restorer.Line = stumbling{store, func(ctx context.Context, call string, after bool) error {
				if call == "Returned" && !after { // it begins with those handed over
					begun++
					now, err := store.Observe(t.Context(), id, 0)
					require.NoError(t, err)
					require.False(t, now.Restored)
					require.Zero(t, now.RestoresIn)
				}
				return second(ctx, call, after)
			}}
			_, err = restorer.Restore(t.Context(), journal.Order{Coupon: id})
			if fails {
				require.ErrorIs(t, err, promise.ErrTakenOver)
				require.Zero(t, begun)
				_, err = restorer.Restore(t.Context(), journal.Order{Coupon: id})
			}
			require.NoError(t, err)
			require.Equal(t, 1, begun)
		})
	}
}

// Something of a coupon is lost in the same epoch: nobody is lost, and only who is known nowhere is missing.
func TestRestore_EntersThoseWhoVanished(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lose func(d *jajeongtest.Deployment, id coupon.CouponID)
		back int64
	}{
		"the key of the queue": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Queue(id)).Err())
		}, 3},
		"some entries": {func(d *jajeongtest.Deployment, id coupon.CouponID) { vanish(d, id, "1", "3") }, 2},
		"the state": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Key("state", id)).Err())
		}, 0},
		"nothing": {(*jajeongtest.Deployment).FailOver, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id := journalled(t, 2, 1, 2, 3)
			before := d.Arrivals(id)
			d.PodsDie()
			test.lose(d, id)
			done := d.Restore(id)
			require.Equal(t, test.back, done.Back)
			require.Zero(t, done.Unknown)
			require.EqualValues(t, 3, done.Accepted)
			require.Equal(t, before, d.Arrivals(id))
			requireRestored(d, id, 0)
		})
	}
}

// An entry of the DLQ returns to the queue, without the reason that Redis may still have, and the next run judges it
// again.
func TestRestore_JudgesEntriesOfALostDLQAgain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1)
	d.Apply(id, 5) // not a user
	d.Journal(id)
	d.SettleNow()
	require.Contains(t, d.UnderReview(id), "5")
	d.PodsDie()
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("dlq", id)).Err())
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Equal(t, []string{"5"}, d.Waiting(id))
	require.Empty(t, d.Redis.HGetAll(t.Context(), d.Key("dlq:reason", id)).Val())
	d.SettleNow()
	require.Contains(t, d.UnderReview(id), "5")
	requireRestored(d, id, 0)
}

// A coupon given by hand answers no application. Its mark stays.
func TestRestore_EntersHoldersByHand(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2)
	d.InsertGranted(id, 2)
	d.Exec("UPDATE coupon SET issued_count = 1 WHERE id = ?", id)
	lose(d, id)
	require.EqualValues(t, 2, d.Restore(id).Back)
	require.Equal(t, []string{"1", "2"}, d.Waiting(id))
	require.Equal(t, map[string]coupon.Arrival{"2": 0}, marks(d, id))
}

// Redis is back at an older state, of which MySQL has settled some since.
func TestRestore_ComparesAnOlderState(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 9)...)
	id := d.AddCoupon(4)
	d.Apply(id, 1, 2)
	older, err := d.CopyLine(t.Context(), id)
	require.NoError(t, err)
	d.SettleNow()
	d.Apply(id, 3, 4)
	d.Journal(id)
	d.PodsDie()
	d.PutLineBack(id, older)
	d.FailOver(id)
	d.Refresh()
	d.Apply(id, 5)

	done := d.Restore(id)
	require.EqualValues(t, 2, done.Back)
	require.Zero(t, done.Missing)
	require.Equal(t, []string{"3", "4", "5"}, d.Waiting(id), "1 and 2 are settled")
	requireRestored(d, id, 0)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, d.Issued(id))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(id, "NOT_SELECTED"))
}

// Pods hand over whom the journal lacks. Exactly what was handled goes, and what is no user.
func TestRestore_EntersThoseHandedOver(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1, 2)
	arrivals := d.Arrivals(id)
	d.AddUsers(3, 4)
	d.Apply(id, 3)
	told := d.Arrivals(id)["3"]
	lose(d, id)
	d.Refresh()
	d.Apply(id, 4)
	handOver(d, id, "0", 0)
	handOver(d, id, "1", arrivals["1"]) // the journal has it
	handOver(d, id, "3", told)
	handOver(d, id, "4", d.Arrivals(id)["4"]-1) // it was told an earlier place
	restorer := d.Restorer()
	restorer.Line = stumbling{restorer.Line, func(_ context.Context, call string, after bool) error {
		if call == "TakeReturned" && !after { // another pod hands over more meanwhile
			handOver(d, id, "2", arrivals["2"])
			handOver(d, id, "3", told-1)
		}
		return nil
	}}
	done, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.NoError(t, err)
	require.EqualValues(t, 3, done.Back)
	require.EqualValues(t, 1, done.Moved)
	require.Equal(t, []string{"1", "2", "3", "4"}, d.Waiting(id))
	require.Equal(t, told, d.Arrivals(id)["3"])
	require.Contains(t, rows(d, id), coupon.UserID(3))
	require.Equal(t, []string{"2", "3"}, slices.Sorted(slices.Values(
		d.Redis.ZRange(t.Context(), d.Key("returned", id), 0, -1).Val())))
	d.Restore(id)
	require.Equal(t, told-1, d.Arrivals(id)["3"])
	requireRestored(d, id, 0)
}

// A pod that did not reach Redis has asked in MySQL. What was asked meanwhile is asked still.
func TestRestore_AnswersWhoAsked(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 5, 1)
	d.Exec("UPDATE journal SET asked = 2")
	restorer := d.Restorer()
	restorer.Line = stumbling{restorer.Line, func(_ context.Context, call string, after bool) error {
		if call == "Absent" && after {
			d.Exec("UPDATE journal SET asked = asked + 1")
		}
		return nil
	}}
	_, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.NoError(t, err)
	require.EqualValues(t, 1, journalField(d, id, "asked"))
	d.Restore(id)
	requireRestored(d, id, 0)
}

func TestRestore_EntersNobodyAtImpossibleArrivals(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	now := d.Now()
	d.Journal(id)
	for user, away := range map[int]time.Duration{2: -2 * time.Hour, 3: 2 * time.Hour, 4: 30 * time.Minute} {
		d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, ?)", id,
			now.Add(away).UnixMicro(), user)
	}
	lose(d, id)
	done := d.Restore(id)
	require.EqualValues(t, 3, done.Impossible)
	require.Equal(t, []string{"1"}, d.Waiting(id))
	require.LessOrEqual(t, d.Look(id).Last.Time(), d.Now().Add(5*time.Second))
}

// The clock of the server before was ahead. Whoever has an arrival of then is entered when the clock has come so far.
func TestRestore_WaitsForTheClock(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	d.AddUsers(2, 3)
	d.Journal(id)
	soon := coupon.ArrivalAt(d.Now().Add(coupon.MaxAhead + 2*time.Second))
	later := coupon.ArrivalAt(d.Now().Add(10 * time.Minute))
	for user, arrival := range map[int]coupon.Arrival{2: soon, 3: later} {
		d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, ?)", id, arrival, user)
	}
	restorer := d.Restorer()
	testenv.Eventually(t, "the user is entered", func() bool {
		_, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
		require.NoError(t, err)
		entered := d.Arrivals(id)["2"] == soon
		require.Equal(t, !entered, journalField(d, id, "asked") > 0, "a restore is due until then")
		return entered
	})
	require.NotContains(t, d.Arrivals(id), "3")
}

// Pods hand over nobody outside the window: somebody has written them into Redis by hand. One ahead of the clock may be
// real, if the clock of the server before was wrong.
func TestRestore_WritesNoRowsOutsideTheWindow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	d.Journal(id)
	handOver(d, id, "7", 1000)
	handOver(d, id, "8", coupon.ArrivalAt(d.Now().Add(30*time.Minute)))
	handOver(d, id, "9", coupon.MaxArrival)
	require.EqualValues(t, 1, d.Restore(id).Impossible)
	require.Equal(t, []coupon.UserID{1, 8}, rows(d, id))
	require.Equal(t, []string{"1"}, d.Waiting(id))
	requireRestored(d, id, 0)
}

// Somebody has written an up_to that no clock has reached, and it has lifted the arrivals of Redis. Applying goes on
// after a restore.
func TestRestore_TakesBackALastThatUpToHasLifted(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	d.Journal(id)
	far := d.Now().Add(time.Hour).UnixMicro()
	d.Exec("UPDATE journal SET up_to = ? WHERE coupon_id = ?", far, id)
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "last", far).Err())
	d.Restore(id)
	require.LessOrEqual(t, d.Look(id).Last.Time(), d.Now().Add(5*time.Second))
	d.AddUsers(2)
	d.Refresh()
	d.Apply(id, 2)
	require.LessOrEqual(t, d.Look(id).Last.Time(), d.Now().Add(5*time.Second))
}

// Somebody may have been told to stand by a pod that did not know of the closing yet.
func TestRestore_EntersWhoWasToldAfterTheClosing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	closes := d.Now().Add(-time.Minute)
	id := d.AddCouponBetween(5, closes.Add(-time.Hour), closes)
	d.Journal(id)
	for user, late := range map[int]time.Duration{1: -time.Microsecond, 2: 0, 3: 30 * time.Second} {
		d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, ?)", id,
			closes.Add(late).UnixMicro(), user)
	}
	done := d.Restore(id)
	require.Zero(t, done.Impossible)
	require.Equal(t, []string{"1", "2", "3"}, d.Waiting(id))
}

// Somebody wrote a last arrival ahead of the clock. It falls to the highest one that journal or MySQL knows, and not
// below it: arrivals grow.
func TestRestore_SetsAFarLastBack(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"a row of the journal":     "INSERT INTO line_journal (arrival, coupon_id, user_id) VALUES (?, ?, 1)",
		"how far the journal came": "UPDATE journal SET up_to = ? WHERE coupon_id = ?",
		"a settlement":             "UPDATE settled SET settled_up_to = ? WHERE coupon_id = ?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1)
			d.Journal(id)
			d.SettleNow() // nobody stands in Redis any more
			highest := coupon.ArrivalAt(d.Now().Add(3 * time.Second))
			d.Exec(statement, highest, id)
			require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "last",
				d.Now().Add(time.Hour).UnixMicro()).Err())
			d.Restore(id)
			require.Equal(t, highest, d.Look(id).Last)
		})
	}
}

// Somebody has changed the sums by hand. By wrong ones, restores would be due for ever.
func TestRestore_SetsSumsRight(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	d.Journal(id)
	d.SettleNow()
	d.Exec("UPDATE settled SET issued = issued - 1")
	d.Restore(id)
	requireRestored(d, id, 0)
}

func TestRestore_FailsAtOnceIfTheCouponIsLocked(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1)
	release := d.Lock(id)
	defer release()
	_, err := d.Restorer().Restore(t.Context(), journal.Order{Coupon: id, NoWait: true})
	require.True(t, mysqltx.IsLockWait(err), err)
}

func TestRestore_LeavesFinalisedCoupons(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1)
	d.Exec("UPDATE coupon SET finalised_at = NOW(6)")
	lose(d, id)
	require.True(t, d.Restore(id).Finalised)
	require.Zero(t, d.Redis.Exists(t.Context(), d.Keys(id)...).Val())
}

// A coupon that was swept by mistake takes part again.
func TestRestore_OpensWhatWasSwept(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1)
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", id), "final", 1).Err())
	d.Restore(id)
	require.False(t, d.Redis.HExists(t.Context(), d.Key("state", id), "final").Val())
}

func TestRestore_DryRunChangesNothing(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1, 2, 3)
	lose(d, id)
	handOver(d, id, "0", 0)
	before := d.Snapshot()
	done, err := d.Restorer().Restore(t.Context(), journal.Order{Coupon: id, DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, done.Back)
	require.Zero(t, done.Missing)
	require.Empty(t, d.Waiting(id))
	require.Zero(t, d.Redis.Exists(t.Context(), d.Key("state", id)).Val())
	require.EqualValues(t, 1, d.Redis.ZCard(t.Context(), d.Key("returned", id)).Val())
	require.Equal(t, before, d.Snapshot())
}

// An operator restores what a dry run has shown, and nothing else. A repeated transaction has no other list.
func TestRestore_ComparesWithTheDryRun(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1, 2)
	lose(d, id)
	restorer := d.Restorer()
	order := journal.Order{Coupon: id, DryRun: true, Operator: "kim", Reason: "test"}
	would, err := restorer.Restore(t.Context(), order)
	require.NoError(t, err)
	order.DryRun, order.Ticket.Expect = false, "sha256:of another list"
	_, err = restorer.Restore(t.Context(), order)
	require.Error(t, err)
	require.Empty(t, d.Waiting(id))

	order.Ticket.Expect = would.Plan.Digest()
	restorer.Line = stumbling{restorer.Line, once("Enter", func() { killSessions(d) })}
	done, err := restorer.Restore(t.Context(), order)
	require.NoError(t, err)
	require.EqualValues(t, 2, done.Back)
	require.Equal(t, []string{"1", "2"}, d.Waiting(id))
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM audit_event WHERE actor = 'kim'"))
	requireRestored(d, id, 0)
}

// What a copy has read of the server before is in the journal before the restore reads it.
func TestRestore_WaitsForACopyUnderWay(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1)
	lose(d, id)
	tx, err := d.DB.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE /* by the test */", id)
	require.NoError(t, err)
	restored := make(chan error, 1)
	restorer := d.Restorer()
	go func() {
		_, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
		restored <- err
	}()
	testenv.Eventually(t, "the restore waits", func() bool {
		return testenv.Sessions(t, d.DB, func(s testenv.Session) bool {
			return s.Command == "Query" && strings.HasPrefix(s.Statement, "INSERT INTO journal")
		}) > 0
	})
	_, err = tx.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, 2)", id,
		d.Now().Add(-time.Minute).UnixMicro())
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, testenv.Receive(t, "the restore ends", restored))
	require.Equal(t, []string{"2", "1"}, d.Waiting(id))
}
