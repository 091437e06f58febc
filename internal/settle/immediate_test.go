package settle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// sums is the row of table settled.
type sums struct{ issued, concluded, upTo, last int64 }

func sumsOf(d *jajeongtest.Deployment, couponID coupon.CouponID) (s sums) {
	d.T.Helper()
	require.NoError(d.T,
		d.DB.QueryRow("SELECT issued, concluded, settled_up_to, last_issued FROM settled WHERE coupon_id = ?",
			couponID).
			Scan(&s.issued, &s.concluded, &s.upTo, &s.last))
	return s
}

func TestIssueNow_IssuesInOrderOfArrival(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(4, 3, 1)
	arrivals := d.Arrivals(couponID)
	done := d.IssueNow(couponID)
	require.NoError(t, done.Err())
	require.Equal(t, coupon.Settled, done.Status)
	require.Equal(t, settle.Counts{Read: 2, Issued: 2}, done.Counts)
	require.Equal(t, 2, done.SeatsLeft)
	require.Len(t, done.Delays, 2)
	for _, delay := range done.Delays {
		require.Positive(t, delay)
	}
	require.False(t, done.More)
	require.Equal(t, sums{2, 0, int64(arrivals["1"]), int64(arrivals["1"])}, sumsOf(d, couponID))
	require.Equal(t, []string{}, d.Waiting(couponID))
	require.Equal(t, candidates.AlreadyIssued, d.Answer(couponID, 3))

	d.AddUsers(5, 2, 4)
	d.Apply(couponID, 5, 2, 4)
	last := d.Arrivals(couponID)["4"]
	done = d.IssueNow(couponID)
	require.Equal(t, settle.Counts{Read: 3, Issued: 2, NotSelected: 1}, done.Counts)
	require.Equal(t, []coupon.UserID{3, 1, 5, 2}, d.Issued(couponID))
	require.Equal(t, []uint64{1, 2, 3, 4}, d.Seats(couponID))
	require.Equal(t, []coupon.UserID{4}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, int64(last), sumsOf(d, couponID).upTo)
	require.EqualValues(t, 1, sumsOf(d, couponID).concluded)
	d.AddUsers(9)
	require.Equal(t, candidates.SoldOut, d.Answer(couponID, 9))
	require.Zero(t, d.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"))
	d.Verify()
}

// A run has a row only where something changed.
func TestIssueNow_RecordsARunOnlyWithAChange(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(2)
	require.Equal(t, coupon.Unchanged, d.IssueNow(couponID).Status)
	require.Zero(t, d.Number("SELECT COUNT(*) FROM settlement_run"))

	d.Apply(couponID, 7) // an unknown user
	done := d.IssueNow(couponID)
	require.Equal(t, settle.Counts{Read: 1, UnderReview: 1}, done.Counts)
	require.EqualValues(t, 1,
		d.Number(
			"SELECT COUNT(*) FROM settlement_run r JOIN settlement s ON s.run_id = r.id WHERE s.under_review_count = "+
				"1 AND s.cleaned_at IS NOT NULL AND r.status = 'SUCCEEDED' AND r.finished_at >= r.cutoff AND r.nonce "+
				"IS NOT NULL AND r.trigger_kind = 'IMMEDIATE'"))
	require.Equal(t, coupon.Unchanged, d.IssueNow(couponID).Status, "DLQ entries are not tried again")
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM settlement_run"))
	require.Equal(t, d.Runs(couponID)[0], d.Reason(couponID, "7").Run)
	d.Verify()
}

func TestIssueNow_LeavesOtherCouponsAlone(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	nightly := d.AddQueue(1, 1)
	require.Equal(t, coupon.Unchanged, d.IssueNow(nightly).Status)
	finalised := d.AddImmediate(1, 2)
	d.Exec("UPDATE coupon SET finalised_at = NOW(6) WHERE id = ?", finalised)
	require.Equal(t, coupon.Unchanged, d.IssueNow(finalised).Status)
	require.Equal(t, coupon.Failed, d.IssueNow(999).Status)
	require.Zero(t, d.Number("SELECT COUNT(*) FROM user_coupon"))
}

func TestIssueNow_WaitsForNobody(t *testing.T) {
	t.Parallel()
	t.Run("AnotherSettlementHoldsTheCoupon", func(t *testing.T) {
		t.Parallel()
		d := jajeongtest.New(t)
		couponID := d.AddImmediate(1, 1)
		release := d.Lock(couponID)
		done := d.IssueNow(couponID)
		require.Equal(t, coupon.Busy, done.Status)
		require.False(t, done.Waits)
		require.Equal(t, []string{"1"}, d.Waiting(couponID))
		release()
		require.Equal(t, coupon.Settled, d.IssueNow(couponID).Status)
		d.Verify()
	})
	t.Run("ARestoreIsDue", func(t *testing.T) {
		t.Parallel()
		d := jajeongtest.NewOnPrivateRedis(t)
		couponID := d.AddImmediate(2, 1, 2)
		require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", couponID), "run_id",
			"0123456789012345678901234567890123456789").Err())
		done := d.IssueNow(couponID)
		require.Equal(t, coupon.Busy, done.Status)
		require.True(t, done.Waits)
		require.Empty(t, d.Issued(couponID))
		d.Restore(couponID)
		require.Equal(t, coupon.Settled, d.IssueNow(couponID).Status)
		d.Verify()
	})
	t.Run("TheLastArrivalIsAheadOfTheClock", func(t *testing.T) { // the coupons would be issued in 2255
		t.Parallel()
		d := jajeongtest.New(t)
		couponID := d.AddImmediate(2, 1, 2)
		d.SetLast(couponID, coupon.MaxArrival)
		require.Equal(t, coupon.Busy, d.IssueNow(couponID).Status)
		require.Empty(t, d.Issued(couponID))
		d.Restore(couponID)
		require.Equal(t, coupon.Settled, d.IssueNow(couponID).Status)
		d.Verify()
	})
}

func TestIssueNow_PutsRefusedRowsUnderReview(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(3, 1, 2, 3, 4)
	allow := d.RefuseRows("user_coupon", 2)
	done := d.IssueNow(couponID)
	require.Equal(t, settle.Counts{Read: 4, Issued: 3, UnderReview: 1}, done.Counts)
	require.Equal(t, []coupon.UserID{1, 3, 4}, d.Issued(couponID), "the seat of the refused row went to the next")
	require.Equal(t, map[string]coupon.Arrival{"2": d.UnderReview(couponID)["2"]}, d.UnderReview(couponID))
	d.Verify()

	alone := d.AddImmediate(2) // a run that issues nothing has a record, too
	d.Apply(alone, 2)
	require.Equal(t, 1, d.IssueNow(alone).UnderReview)
	require.Len(t, d.Runs(alone), 1)
	allow()
	require.Equal(t, coupon.Unchanged, d.IssueNow(alone).Status)
	d.AddUsers(5)
	d.Apply(alone, 5)
	require.Equal(t, 1, d.IssueNow(alone).Issued)
	require.Equal(t, []coupon.UserID{5}, d.Issued(alone), "nightly runs and operators retry the DLQ")
	d.Retry(alone)
	require.Equal(t, []coupon.UserID{5, 2}, d.Issued(alone))
	d.Verify()
}

// losingLine loses applications before they move to the DLQ.
type losingLine struct {
	settle.Line
	lose func()
}

func (l losingLine) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time,
	failed []coupon.Failure) (int64, error) {
	if len(failed) > 0 {
		l.lose()
	}
	return l.Line.Review(ctx, couponID, run, at, failed)
}

// A user who cannot have the coupon applied before a winner, and vanishes after the COMMIT and before the move to the
// DLQ. A restore enters them below the winner.
func TestIssueNow_LeavesNobodyBelowAWinnerBehind(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddImmediate(1)
	d.AddUsers(1)
	d.Apply(id, 5, 1) // 5 is not a user
	before := arrivalsOf(d, id, 5)
	d.Journal(id)
	d.PodsDie()
	s := d.Settler()
	s.Line = losingLine{s.Line, func() { assert.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "5").Err()) }}
	require.Equal(t, 1, s.IssueNow(t.Context(), id).Issued)
	require.Empty(t, d.Waiting(id))
	require.Empty(t, d.UnderReview(id))
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Equal(t, before, d.Arrivals(id))
}

func TestIssueNow_ContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(3, 1, 2)
	s := d.Settler(func(s *settle.Settler) {
		s.Hook = func(_ coupon.CouponID, step settle.Step) {
			if step == settle.StepCleanUp {
				panic("crash")
			}
		}
	})
	done := s.IssueNow(t.Context(), couponID)
	require.Equal(t, coupon.Failed, done.Status)
	require.Len(t, d.Waiting(couponID), 2)
	d.AddUsers(3)
	d.Apply(couponID, 3)
	done = d.IssueNow(couponID)
	require.Equal(t, 1, done.Issued)
	requireResults(d, couponID, results{issued: []coupon.UserID{1, 2, 3}})
	require.Zero(t, d.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"))
	d.Verify()
}

// Seats are added after the commit that takes the last seat, and before Redis answers SOLD_OUT.
func TestIssueNow_ReopensForSeatsAddedMeanwhile(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(1, 1)
	s := d.Settler(func(s *settle.Settler) {
		s.Hook = func(_ coupon.CouponID, step settle.Step) {
			if step == settle.StepCleanUp {
				d.SetSeats(couponID, 2)
			}
		}
	})
	require.Equal(t, 1, s.IssueNow(t.Context(), couponID).Issued)
	d.AddUsers(2)
	require.Equal(t, candidates.Accepted, d.Answer(couponID, 2))
}

// An immediate run does not read the DLQ, so the clean-up of a run that may have left applications there stays pending.
func TestIssueNow_LeavesOtherCleanUpsPending(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(1, 1, 2)
	d.MoveToReview(couponID, "2", coupon.Failure{Cause: "BY_HAND", Retryable: true})
	s := d.Settler(func(s *settle.Settler) {
		s.Line = stuckLine{s.Line, "2"}
	})
	_, err := s.RunOnce(t.Context(), jajeongtest.Manual(couponID))
	require.NoError(t, err)
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Len(t, d.UnderReview(couponID), 1, "recorded, and not removed")
	removed := 0
	counted := d.Settler(func(s *settle.Settler) { s.Line = countedRemovals{s.Line, &removed} })
	require.Empty(t, counted.IssueNow(t.Context(), couponID).Error)
	require.Zero(t, removed, "nor is it repeated by each look")
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"))
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2}})
}

// stuckLine fails to remove one member.
type stuckLine struct {
	settle.Line
	member string
}

func (l stuckLine) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
	settled []coupon.Application) (int64, error) {
	for _, a := range settled {
		if a.Member == l.member {
			return 0, errors.New("redis is away")
		}
	}
	return l.Line.Remove(ctx, couponID, closes, mark, settled)
}

type countedRemovals struct {
	settle.Line
	n *int
}

func (l countedRemovals) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
	settled []coupon.Application) (int64, error) {
	*l.n += len(settled)
	return l.Line.Remove(ctx, couponID, closes, mark, settled)
}

// A run that issued, and whose close-out met the lock of another session, has issued.
func TestIssueNow_ReportsWhatItIssuedBeforeBusy(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(1, 1, 2)
	var release func()
	s := d.Settler(func(s *settle.Settler) {
		s.Hook = func(_ coupon.CouponID, step settle.Step) {
			if step == settle.StepCloseOut {
				release = d.Lock(couponID)
			}
		}
	})
	done := s.IssueNow(t.Context(), couponID)
	require.Equal(t, coupon.Settled, done.Status)
	require.Equal(t, 1, done.Issued)
	release()
	require.Equal(t, 1, d.IssueNow(couponID).NotSelected)
	d.Verify()
}

// A COMMIT whose reply is lost is looked up by the nonce of the run.
func TestIssueNow_DeterminesResultOfLostCommit(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]faultproxy.Action{"applied": faultproxy.DropReply(nil),
		"never delivered": faultproxy.DropRequest(nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issueWithLostCommit(t, fate)
		})
	}
}

func issueWithLostCommit(t *testing.T, fate faultproxy.Action) {
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(3, 1, 2)
	lost := commit{after: "INTO user_coupon"}
	_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if lost.passes(turn) {
			return fate
		}
		return faultproxy.Pass()
	})
	done := proxied.IssueNow(couponID)
	require.NotZero(t, lost.passed)
	require.NoError(t, done.Err())
	require.Equal(t, 2, done.Issued)
	require.Len(t, d.Runs(couponID), 1)
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 2}})
}

// The sums of another version of the program may be wrong: a coupon is held only after its rows were counted.
func TestIssueNow_CountsRowsIfSumsDoNotAddUp(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(9, 1, 2)
	require.Equal(t, 2, d.IssueNow(couponID).Issued)
	for i, wrong := range []string{"issued = 0", "issued = issued + 2", "settled_up_to = 0"} {
		d.Exec("UPDATE settled SET "+wrong+" WHERE coupon_id = ?", couponID)
		user := coupon.UserID(3 + i)
		d.AddUsers(user)
		d.Apply(couponID, user)
		require.Equal(t, 1, d.IssueNow(couponID).Issued, wrong)
		require.EqualValues(t, 3+i, sumsOf(d, couponID).issued, wrong)
		d.Verify()
	}
	d.AddPromises(couponID, 1)
	d.AddUsers(8)
	d.Apply(couponID, 8)
	busy := d.IssueNow(couponID)
	require.Equal(t, coupon.Busy, busy.Status)
	require.True(t, busy.Waits)
	require.EqualValues(t, 1, d.Restore(couponID).Missing)
	require.Equal(t, coupon.HeldBack, d.IssueNow(couponID).Status)
	require.Zero(t, d.Number("SELECT COUNT(*) FROM audit_event WHERE action = 'GAP_HELD'"),
		"the nightly run records it")
	require.Equal(t, []string{"8"}, d.Waiting(couponID))
}

// After some failovers no server has counted applications that put back has entered. Such an excess would hide a loss.
func TestIssueNow_CountsWhatNoServerHasCounted(t *testing.T) {
	t.Parallel()
	for name, newcomer := range map[string]coupon.UserID{"a new application": 3,
		"an application of a user with the coupon": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			couponID := d.AddImmediate(9, 1, 2)
			require.Equal(t, 2, d.IssueNow(couponID).Issued)
			require.NoError(t, d.Redis.ZRem(t.Context(), d.Key("issued", couponID), "1").Err()) // lost by a failover
			if newcomer == 3 {
				d.AddUsers(3)
			}
			d.Apply(couponID, newcomer)
			d.PodsDie() // else they would restore their own count
			require.NoError(t, d.Redis.HIncrBy(t.Context(), d.Key("state", couponID), "accepted", -1).Err())
			require.Equal(t, coupon.Busy, d.IssueNow(couponID).Status)
			require.EqualValues(t, 1, d.Restore(couponID).Marked)
			require.Empty(t, d.IssueNow(couponID).Error)
			d.Refresh()
			d.Verify()
			require.Equal(t, []coupon.RunID{}, d.Runs(couponID)[2:])

			d.AddUsers(7)
			d.Apply(couponID, 7)
			d.Refresh()
			require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), "7").Err())
			report := d.SettleFailing(coupon.Invariant)
			require.EqualValues(t, 1, report.Coupons[0].Gap, "the loss is seen")
		})
	}
}

// A wrong issued_count holds an immediate coupon, until it is right.
func TestIssueNow_CountsCouponsGivenByHand(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(3, 1, 2)
	d.InsertGranted(couponID, 900, 901)
	s := d.Settler()
	for range 3 { // as one process that stays
		require.Equal(t, coupon.HeldBack, s.IssueNow(t.Context(), couponID).Status)
	}
	require.Equal(t, []string{"1", "2"}, d.Waiting(couponID))
	d.Exec("UPDATE coupon SET issued_count = issued_count + 2 WHERE id = ?", couponID)
	done := d.IssueNow(couponID)
	require.Equal(t, []int{1, 1}, []int{done.Issued, done.NotSelected})
	d.Verify()
}

// Nightly and manual runs set wrong sums right.
func TestRun_SetsSumsRight(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1, 2, 3)
	d.SettleNow()
	right := sumsOf(d, couponID)
	require.EqualValues(t, 2, right.issued)
	require.EqualValues(t, 1, right.concluded)
	for _, wrong := range []string{"DELETE FROM settled",
		"UPDATE settled SET issued = 7, concluded = 0, last_issued = 0, settled_up_to = 0",
		"UPDATE settled SET settled_up_to = settled_up_to + 60000000"} {
		d.Exec(wrong)
		d.SettleNow()
		require.Equal(t, right, sumsOf(d, couponID), wrong)
	}
}

func TestSums_FollowEveryOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2, 3)
	d.Apply(couponID, 70, 71) // unknown users
	d.SettleNow()
	require.EqualValues(t, 2, sumsOf(d, couponID).concluded)
	d.Drop(couponID, "70")
	require.EqualValues(t, 3, sumsOf(d, couponID).concluded)
	d.SetSeats(couponID, 3)
	d.SetStatus(jajeongtest.Blocked, 2)
	d.SettleNow() // 2 is rejected, 3 gets a seat
	require.Equal(t, []coupon.UserID{1, 3}, d.Issued(couponID))
	require.EqualValues(t, 2, sumsOf(d, couponID).concluded)
	require.EqualValues(t, 2, sumsOf(d, couponID).issued)
	d.Verify()
}

// countedPages counts the pages that an account reads.
type countedPages struct {
	*candidates.Store
	pages *int
}

func (s countedPages) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	*s.pages++
	return s.Store.Page(ctx, couponID, after, cutoff)
}

// The DLQ below the last settled arrival is read only if it has changed.
func TestIssueNow_ReadsAnUnchangedDLQOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(9)
	reads := 0
	s := d.Settler(func(s *settle.Settler) {
		s.Auditor = &ledger.Ledger{Store: countedPages{d.Store, &reads}}
	})
	next := coupon.UserID(0)
	issue := func() int {
		next++
		d.AddUsers(next)
		d.Apply(couponID, next)
		reads = 0
		require.Equal(t, 1, s.IssueNow(t.Context(), couponID).Issued)
		return reads
	}
	require.Zero(t, issue(), "there is no DLQ")
	d.Apply(couponID, 77)
	require.Equal(t, 1, s.IssueNow(t.Context(), couponID).UnderReview)
	issue()
	issue()
	require.Zero(t, issue(), "the DLQ has been read")
	d.Apply(couponID, 78)
	require.Equal(t, 1, s.IssueNow(t.Context(), couponID).UnderReview)
	require.Positive(t, issue(), "the DLQ has changed")
	issue()
	require.Zero(t, issue())
	d.Verify()
}

func TestFrozen(t *testing.T) {
	t.Parallel()
	freeze := func(d *jajeongtest.Deployment, couponID coupon.CouponID, frozen bool) {
		d.Exec("UPDATE coupon SET frozen = ? WHERE id = ?", frozen, couponID)
	}
	t.Run("NoRunChangesTheCoupon", func(t *testing.T) {
		t.Parallel()
		d := jajeongtest.New(t)
		couponID := d.AddImmediate(1, 1, 2)
		d.MoveToReview(couponID, "2", coupon.Failure{Cause: "BY_HAND", Retryable: true})
		freeze(d, couponID, true)
		before := d.Snapshot()
		require.Equal(t, coupon.Frozen, d.IssueNow(couponID).Status)
		for _, report := range []*settle.Report{d.SettleNow(), d.SettleAs(jajeongtest.Nightly(d.Now())),
			d.Retry(couponID), d.Drop(couponID, "2")} {
			require.Equal(t, coupon.Frozen, report.Coupons[0].Status)
			require.Equal(t, coupon.RunSucceeded, report.Status)
		}
		preview, err := d.Settler().Preview(t.Context(), jajeongtest.Manual())
		require.NoError(t, err)
		require.Equal(t, coupon.Frozen, preview.Coupons[0].Status)
		d.Exec("DELETE FROM settlement_run")
		d.Exec("DELETE FROM run_coupon")
		require.Equal(t, before, d.Snapshot())
		d.AddUsers(3)
		require.Equal(t, candidates.Accepted, d.Answer(couponID, 3), "applying goes on")

		freeze(d, couponID, false)
		require.Equal(t, 1, d.IssueNow(couponID).Issued)
		d.Verify()
	})
	t.Run("ACloseOutStops", func(t *testing.T) {
		t.Parallel()
		d := jajeongtest.New(t)
		couponID := d.AddQueue(1, 1, 2)
		s := d.Settler(func(s *settle.Settler) {
			s.Hook = func(_ coupon.CouponID, step settle.Step) {
				if step == settle.StepCleanUp {
					freeze(d, couponID, true)
				}
			}
		})
		report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
		require.NoError(t, err)
		require.Equal(t, coupon.Settled, report.Coupons[0].Status, "it issued before")
		require.Equal(t, []string{"2"}, d.Waiting(couponID))
		freeze(d, couponID, false)
		d.SettleNow()
		require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "NOT_SELECTED"))
		d.Verify()
	})
}

// An application whose user has another one in the DLQ stays where it is. Looks at it are no changes, or they would
// never rest.
func TestIssueNow_RestsWhileADLQEntryIsInTheWay(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddImmediate(2)
	d.Apply(couponID, 7) // an unknown user
	require.Equal(t, coupon.Settled, d.IssueNow(couponID).Status)
	d.ApplyLine(couponID, 7) // as if seats had been added, and the user had applied again
	require.Equal(t, coupon.Unchanged, d.IssueNow(couponID).Status)
	require.Equal(t, []string{"7"}, d.Waiting(couponID))
	require.Zero(t, d.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"))
}
