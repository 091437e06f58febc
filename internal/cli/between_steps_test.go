package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// meddledDoor does something before the door is told that seats are left: the last statement before the last COMMIT.
type meddledDoor struct {
	settle.Door
	meddle func(ctx context.Context)
}

func (d meddledDoor) SetSold(ctx context.Context, couponID uint64, sold bool) error {
	d.meddle(ctx)
	return d.Door.SetSold(ctx, couponID, sold)
}

// A run has shut the door and is about to record who got no seat. Then a seat is added, another run finds it free and opens
// the door, and the seat is gone before that run's successor could shut it. Whoever is not selected now must not be accepted
// once more.
func TestTheDoorIsShutWhenSomebodyIsNotSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1, 2, 3)
	couponID := w.coupon(1)
	w.apply(couponID, 1, 2)
	s := w.settler()
	meanwhile := sync.OnceFunc(func() {
		w.exec("UPDATE coupon SET total_quantity = 2")
		report, err := w.settler().RunOnce(t.Context(), settle.Order{Trigger: coupon.Cron, Cutoff: w.now().Add(-time.Minute)})
		require.NoError(t, err)
		require.Equal(t, 1, report.Coupons[0].SeatsLeft, "nobody applied before its cutoff")
		w.exec("UPDATE coupon SET issued_count = 2")
		w.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 3)", couponID)
	})
	s.Line = meddledLine{s.Line, func() {
		if len(w.issued(couponID)) > 0 {
			meanwhile()
		}
	}}
	_, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true})
	require.NoError(t, err)
	require.Equal(t, []uint64{2}, w.outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, candidates.SoldOut, w.answer(couponID, 2))
	w.verify()
}

// meddledLine does something before a page of the line is read.
type meddledLine struct {
	settle.Line
	meddle func()
}

func (l meddledLine) Page(ctx context.Context, couponID uint64, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	l.meddle()
	return l.Line.Page(ctx, couponID, after, cutoff)
}

// COMMIT and ROLLBACK take no context: on a frozen server they would last until a read gives up.
func TestAFrozenCommitOrRollbackDoesNotOutlastTheGrace(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
			w := newWorldWith(t, testenv.RedisFor(t), privateDatabase(t, server))
			couponID := w.coupon(2)
			w.users(1)
			w.apply(couponID, 1)
			told, stop := context.WithCancelCause(t.Context())
			s := w.settler()
			s.Grace = time.Second
			frozen := sync.OnceFunc(func() {
				_ = server.Freeze()
				stop(errors.New("terminated signal received"))
			})
			s.Door = meddledDoor{s.Door, func(ctx context.Context) {
				frozen()
				if statement == "ROLLBACK" {
					<-ctx.Done() // until the grace is over
				}
			}}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = s.RunOnce(told, settle.Order{Trigger: coupon.Manual, CutoffNow: true})
			}()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the run outlasts its grace of a second by far")
			}
			require.NoError(t, server.Thaw())
			<-ended
			w.settleNow()
			require.Equal(t, []uint64{1}, w.issued(couponID))
			w.verify()
		})
	}
}

// A coupon that was rolled back, or not finished, was not dealt with.
func TestHowFarItCameDoesNotCountWhatIsInHand(t *testing.T) {
	t.Parallel()
	for _, finishes := range []bool{true, false} {
		t.Run(fmt.Sprint("finishes ", finishes), func(t *testing.T) {
			t.Parallel()
			n := newNight(newWorld(t), 4)
			release := n.lock(n.coupons[1])
			r := n.begin("run", "--parallel=1", "--shutdown-grace=1s")
			n.awaitTurn(n.coupons[1])
			r.stop()
			if finishes {
				release()
			}
			r.end()
			require.Contains(t, r.stderr.String(), "1 of 4 coupons", "only the first is settled")
			require.Equal(t, 1, strings.Count(r.stderr.String(), "safe to run again"), "said once")
		})
	}
}

func TestAScheduleToldToStopSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 3)
	n.lock(n.coupons[1])
	r := n.begin("schedule", "--parallel=1", "--shutdown-grace=1s")
	n.awaitTurn(n.coupons[1])
	r.stop()
	r.end()
	require.Contains(t, r.stderr.String(), "1 of 3 coupons")
}

func TestARunThatWasDoneWhenItWasToldToStopSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(1)
	w.apply(couponID, 1)
	told, stop := context.WithCancel(t.Context())
	s := w.settler()
	s.Grace = time.Hour
	s.Door = meddledDoor{s.Door, func(context.Context) { stop() }} // within the last transaction of the last coupon
	report, err := s.RunOnce(told, settle.Order{Trigger: coupon.Manual, CutoffNow: true})
	require.Equal(t, coupon.Settled, report.Coupons[0].Status)
	require.NoError(t, err, "all was settled")
	require.Equal(t, coupon.RunSucceeded, report.Status)
}

func TestTheFenceSaysThatItWasToldToStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.coupon(2)
	s := w.settler()
	report, _ := s.RunOnce(atTheFence(t, s), settle.Order{Trigger: coupon.Cron, Cutoff: w.now().Add(4 * time.Minute)})
	require.Contains(t, report.Coupons[0].Error, "stopped by a signal")
}

// meddledStore does something right after Redis was counted: no lock keeps another run from cleaning up then.
type meddledStore struct {
	*candidates.Store
	meddle func()
}

func (s meddledStore) Counts(ctx context.Context, couponID uint64, behind int64) (candidates.Counts, error) {
	figures, err := s.Store.Counts(ctx, couponID, behind)
	s.meddle()
	return figures, err
}

// A run that cleans up while another counts must not hide what Redis has lost.
func TestACleanUpWhileARunCountsHidesNoGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(50)
	w.users(between(1, 30)...)
	w.apply(couponID, between(1, 10)...)
	line, err := w.rdb.ZRangeWithScores(t.Context(), w.queue(couponID), 0, -1).Result()
	require.NoError(t, err)
	w.settleNow()
	// As before the first run's clean-up.
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(couponID), line...).Err())
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	w.apply(couponID, between(11, 20)...)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(couponID), "11", "12").Err()) // lost

	s := w.settler()
	s.Auditor = &ledger.Ledger{Store: meddledStore{w.store, sync.OnceFunc(func() {
		settled := make([]any, len(line))
		for i, z := range line {
			settled[i] = z.Member
		}
		require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(couponID), settled...).Err())
	})}, Users: w.directory}
	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true})
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Coupons[0].Gap)
	require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
}

// The same for whoever verifies, also when nothing is lost: what was never there is no warning.
func TestACleanUpWhileTheCheckerCountsIsNoExcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(50)
	w.users(between(1, 10)...)
	w.apply(couponID, between(1, 10)...)
	line, err := w.rdb.ZRangeWithScores(t.Context(), w.queue(couponID), 0, -1).Result()
	require.NoError(t, err)
	w.settleNow()
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	l := &ledger.Ledger{Store: meddledStore{w.store, func() {
		for _, z := range line {
			require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(couponID), z.Member).Err())
		}
	}}, Users: w.directory}
	for _, settling := range []bool{true, false} {
		require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(couponID), []redis.Z(line)...).Err())
		if settling {
			tx, err := w.db.Begin()
			require.NoError(t, err)
			account, err := l.Account(t.Context(), tx, couponID)
			require.NoError(t, tx.Rollback())
			require.NoError(t, err)
			require.Zero(t, account.Gap())
			continue
		}
		v, err := l.Check(t.Context(), w.db, couponID)
		require.NoError(t, err)
		require.Zero(t, v.Gap)
	}
}
