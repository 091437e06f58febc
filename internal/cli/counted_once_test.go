package cli

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// A settlement of a later cutoff that was not cleaned up must not hide what an earlier one's account lacks.
func TestAGapIsNotHiddenByWhatAnotherCutoffHasNotCleanedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	couponID := w.couponBetween(50, now.Add(-72*time.Hour), now.Add(72*time.Hour))
	w.users(between(1, 20)...)
	w.apply(couponID, between(1, 10)...)
	line, err := w.rdb.ZRangeWithScores(t.Context(), w.queue(couponID), 0, -1).Result()
	require.NoError(t, err)
	w.settleNow()
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(couponID), line...).Err())
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	w.apply(couponID, between(11, 20)...)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(couponID), "11", "12", "13", "14", "15").Err())

	code, stdout, stderr := w.settle("run") // the nightly run: the last midnight
	require.Equal(t, 3, code, "%s%s", stdout, stderr)
	require.Contains(t, stderr, "held: 5 of 20")
}

func TestOneUserRecordedTwiceNotSelectedGetsOneSeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(between(1, 4)...)
	w.apply(couponID, 1, 2, 3)
	w.settleNow()
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(couponID)+"}", "sold", 0).Err()) // as after Redis lost it
	w.apply(couponID, 2)
	w.settleNow()
	require.Equal(t, []uint64{2, 3, 2}, w.outcome(couponID, "NOT_SELECTED"))

	w.exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", couponID)
	w.settleNow()
	require.Equal(t, []uint64{1, 2, 3}, w.issued(couponID))
	require.Equal(t, []uint64{2}, w.outcome(couponID, "ALREADY_ISSUED"))
	w.verify()
}

func TestOneApplicationThatStandsInTwoPlacesIsRecordedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	page, _, err := w.store.Page(t.Context(), couponID, coupon.Cursor{}, w.now())
	require.NoError(t, err)
	_, err = w.store.Review(t.Context(), couponID, 0, time.Time{}, []coupon.Failure{{Application: page[1], Retryable: true}})
	require.NoError(t, err)
	w.rdb.Do(t.Context(), "ZADD", w.queue(couponID), page[1].Arrival, "2")

	w.settleNow()
	require.Equal(t, []uint64{2}, w.outcome(couponID, "NOT_SELECTED"))
	require.Empty(t, w.waiting(couponID))
	require.Empty(t, w.underReview(couponID))
	w.verify()
}

func TestRefusalsAreCountedOnceByRunsThatMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(10)
	w.apply(couponID, between(1, 1200)...) // there are no such users
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			code, _ := w.settleNowCode()
			assert.Zero(t, code)
		})
	}
	runs.Wait()
	require.Len(t, w.underReview(couponID), 1200)
	var counted int
	require.NoError(t, w.db.QueryRow("SELECT SUM(rejected_count) FROM settlement").Scan(&counted))
	require.Equal(t, 1200, counted)
	require.Equal(t, 1, w.reason(couponID, "600").Attempts)
	w.verify()
}

func TestWhoIsRejectedOnReturnIsCountedAndToldSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	w.settleNow()
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)

	report := w.settleNow()
	require.Equal(t, coupon.Settled, report.Coupons[0].Status)
	require.Equal(t, 1, report.Total.Rejected)
	require.Equal(t, []uint64{report.Run}, w.ids("SELECT run_id FROM settlement WHERE rejected_count = 1 AND cleaned_at IS NOT NULL"))
	receipt, err := w.store.Apply(t.Context(), couponID, 2)
	require.NoError(t, err)
	require.Equal(t, candidates.Rejected, receipt.Code)
	w.verify()
}

func TestOneBrokenCouponDoesNotKeepTheOthersFromRunOrVerify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken, held, whole := w.coupon(1), w.coupon(7), w.coupon(1)
	w.users(1, 2)
	w.apply(held, 1, 2)
	w.apply(whole, 1)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(held), "1").Err())
	state := "state:{" + w.queue(broken) + "}"
	require.NoError(t, w.rdb.Del(t.Context(), state).Err())
	require.NoError(t, w.rdb.Set(t.Context(), state, "taken by something else", 0).Err())

	code, report := w.settleNowCode()
	require.Equal(t, 2, code, "a key of the wrong type is no failure that repeating cures, and goes before the gap")
	require.Equal(t, []coupon.ResultStatus{coupon.Failed, coupon.HeldBack, coupon.Settled},
		[]coupon.ResultStatus{report.Coupons[0].Status, report.Coupons[1].Status, report.Coupons[2].Status})
	require.Equal(t, 7, report.Coupons[1].SeatsLeft, "nothing was given")
	require.Equal(t, []uint64{1}, w.issued(whole))

	code, stdout, stderr := w.settle("verify")
	require.Equal(t, 2, code)
	require.Contains(t, stdout, "PROMISE_LOST")
	require.Contains(t, stderr, fmt.Sprintf("coupon %d: ", broken))

	code, verdicts := w.verifyCode()
	require.Equal(t, 2, code)
	require.Len(t, verdicts.Unchecked, 1)
	code, stdout, _ = w.settle("verify", fmt.Sprintf("--coupon=%d", whole), fmt.Sprintf("--coupon=%d", whole))
	require.Zero(t, code)
	require.Contains(t, stdout, "1 coupons for 1 seats")
}

func TestDSNParametersCannotBendWhatTheCodeReliesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(1, 2, 3)
	w.apply(couponID, 1, 2, 3)
	separator := "?"
	if strings.Contains(w.servers[0], "?") {
		separator = "&"
	}
	w.servers[0] += separator + "autocommit=0&timeTruncate=1s&interpolateParams=false&clientFoundRows=false&multiStatements=true&time_zone=%27%2B09%3A00%27"
	w.settleNow()
	w.exec("UPDATE coupon SET total_quantity = 3 WHERE id = ?", couponID)
	w.settleNow()
	require.Equal(t, []uint64{1, 2, 3}, w.issued(couponID))
	require.Empty(t, w.ids("SELECT id FROM settlement_run WHERE status <> 'SUCCEEDED' OR finished_at IS NULL"))
	w.verify()
}

func TestNamesCannotWriteToTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.exec("UPDATE coupon SET name = ? WHERE id = ?", "a\x1b[31mred\nnext", couponID)
	for _, verb := range []string{"run", "verify"} {
		_, stdout, _ := w.settle(verb)
		require.NotContains(t, stdout, "\x1b")
		require.NotContains(t, stdout, "red\nnext")
	}
}

func TestTheDoorLearnsThatEverySeatIsTakenFromTheCatalogToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(1)
	w.apply(couponID, 1)
	w.settleNow()
	state := "state:{" + w.queue(couponID) + "}"
	require.NoError(t, w.rdb.Del(t.Context(), state).Err())
	w.refresh()
	receipt, err := w.store.Apply(t.Context(), couponID, 2)
	require.NoError(t, err)
	require.Equal(t, candidates.SoldOut, receipt.Code)
}

// The line is classified ahead of what is inserted: a user who stands in two of its pages, as after Redis lost data, is
// noticed when the second row is.
func TestAUserInTwoPagesOfTheLineGetsOneSeat(t *testing.T) {
	t.Parallel()
	const seats, blocked, applicants = 1200, 300, 1500 // the first page holds an eighth more than there are seats
	w := newWorld(t)
	couponID := w.coupon(seats)
	w.users(between(1, applicants)...)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id BETWEEN 2 AND ?", blocked+1)
	w.apply(couponID, 1)
	page, _, err := w.store.Page(t.Context(), couponID, coupon.Cursor{}, w.now())
	require.NoError(t, err)
	_, err = w.store.Review(t.Context(), couponID, 0, time.Time{}, []coupon.Failure{{Application: page[0], Retryable: true}})
	require.NoError(t, err)
	w.apply(couponID, between(2, 1400)...)
	w.stand(couponID, "1", w.now()) // promised again by a Redis that had lost the DLQ
	w.apply(couponID, between(1401, applicants)...)

	w.settleNow()
	issued := w.issued(couponID)
	require.Len(t, issued, seats)
	require.EqualValues(t, 1, issued[0])
	require.NotContains(t, issued[1:], uint64(1))
	require.Equal(t, []uint64{1}, w.outcome(couponID, "ALREADY_ISSUED"))
	require.Len(t, w.underReview(couponID), blocked)
	w.verify()
}

// Whoever stands twice in a page parts it; the pages behind were made ready for more seats than it leaves them.
func TestAUserTwiceInAPageGivesThePagesBehindNoSeatTooMany(t *testing.T) {
	t.Parallel()
	for _, seats := range []int{1200, 1500} {
		t.Run(strconv.Itoa(seats), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			couponID := w.coupon(seats)
			w.users(between(1, 3000)...)
			w.apply(couponID, 1)
			page, _, err := w.store.Page(t.Context(), couponID, coupon.Cursor{}, w.now())
			require.NoError(t, err)
			_, err = w.store.Review(t.Context(), couponID, 0, time.Time{}, []coupon.Failure{{Application: page[0], Retryable: true}})
			require.NoError(t, err)
			w.apply(couponID, between(2, 11)...)
			w.stand(couponID, "1", w.now())
			w.apply(couponID, between(12, 3000)...)

			w.settleNow()
			require.Equal(t, between(1, uint64(seats)), w.issued(couponID))
			w.verify()
		})
	}
}
