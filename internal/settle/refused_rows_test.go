package settle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// nights is a coupon that has been open for weeks, with nightly runs.
type nights struct {
	*jajeongtest.Deployment
	couponID coupon.CouponID
	opened   time.Time
	tonight  int // number of the current night since opened
}

func newNights(t *testing.T, seats int, users ...coupon.UserID) *nights {
	d := jajeongtest.New(t)
	now := d.Now()
	n := &nights{Deployment: d, couponID: d.AddCouponBetween(seats, now.AddDate(0, 0, -21), now.Add(time.Hour)),
		opened: now.AddDate(0, 0, -20).Truncate(time.Second), tonight: 1}
	n.applyToday(users...)
	return n
}

// applyToday lets users apply on the day before tonight, in the order of their ids.
func (n *nights) applyToday(users ...coupon.UserID) {
	n.T.Helper()
	n.AddUsers(users...)
	for _, user := range users {
		n.ApplyAt(n.couponID, fmt.Sprint(user), n.opened.AddDate(0, 0,
			n.tonight-1).Add(time.Duration(user)*time.Second))
	}
}

// night is a nightly run. A repetition is another run of the same night.
func (n *nights) night() settle.Result {
	n.T.Helper()
	result := n.nightOf()
	require.Empty(n.T, result.Error)
	return result
}

func (n *nights) nightOf() settle.Result {
	n.T.Helper()
	report, err := n.Settle(jajeongtest.Nightly(n.opened.AddDate(0, 0, n.tonight)))
	require.NoError(n.T, err)
	n.Verify()
	return report.Coupons[0]
}

func (n *nights) nextNight() settle.Result {
	n.T.Helper()
	n.tonight++
	return n.night()
}

func (n *nights) attempts(user coupon.UserID) int {
	n.T.Helper()
	return n.Reason(n.couponID, fmt.Sprint(user)).Attempts
}

// Repeated runs of one night do not use up the attempts at a row.
func TestSettle_TriesRefusedRowOncePerNight(t *testing.T) {
	t.Parallel()
	n := newNights(t, 9, 1, 2, 3)
	allow := n.RefuseRows("user_coupon", 2)
	n.night()
	why := n.Reason(n.couponID, "2")
	require.Equal(t, 1, why.Refused)
	allow()
	n.night()
	require.Equal(t, []coupon.UserID{1, 3}, n.Issued(n.couponID), "2 was tried tonight")
	require.Equal(t, why, n.Reason(n.couponID, "2"))
	require.Equal(t, candidates.UnderReview, n.Answer(n.couponID, 2))
	n.nextNight()
	require.Equal(t, []coupon.UserID{1, 3, 2}, n.Issued(n.couponID))
}

func TestSettle_ManualRunAlwaysTriesRefusedRow(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(n *nights){
		"run":   func(n *nights) { n.SettleNow() },
		"retry": func(n *nights) { n.Retry(n.couponID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNights(t, 9, 1, 2)
			allow := n.RefuseRows("user_coupon", 1)
			n.night()
			run(n)
			require.Equal(t, 2, n.attempts(1))
			n.night()
			require.Equal(t, 2, n.attempts(1), "the night has had its attempt")
			allow()
			run(n)
			requireSettled(n.Deployment, n.couponID, results{issued: []coupon.UserID{2, 1}})
		})
	}
}

// A user who is not tried again tonight keeps a seat. The seat goes to the next application if a later night refuses
// the row.
func TestSettle_KeepsSeatForRowTriedTonight(t *testing.T) {
	t.Parallel()
	t.Run("row accepted the next night", func(t *testing.T) {
		t.Parallel()
		n := newNights(t, 3, 1, 2, 3)
		allow := n.RefuseRows("user_coupon", 2)
		n.night()
		allow()
		n.applyToday(4) // one seat is left for 2 and for 4, who came later
		n.night()
		require.Equal(t, []coupon.UserID{1, 3}, n.Issued(n.couponID))
		require.Equal(t, []string{"4"}, n.Waiting(n.couponID), "not decided yet")
		n.nextNight()
		require.Equal(t, []coupon.UserID{1, 3, 2}, n.Issued(n.couponID))
		require.Equal(t, []coupon.UserID{4}, n.Outcome(n.couponID, "NOT_SELECTED"))
	})
	t.Run("row refused the next night", func(t *testing.T) {
		t.Parallel()
		n := newNights(t, 3, 1, 2, 3)
		n.RefuseRows("user_coupon", 2)
		n.night()
		n.applyToday(4)
		n.night()
		require.Equal(t, []string{"4"}, n.Waiting(n.couponID))
		n.nextNight()
		require.Equal(t, []coupon.UserID{1, 3, 4}, n.Issued(n.couponID), "the seat goes to the next application")
		require.Equal(t, 2, n.attempts(2))
	})
	t.Run("another user was not selected", func(t *testing.T) {
		t.Parallel()
		n := newNights(t, 2, 1, 2, 3, 4)
		allow := n.RefuseRows("user_coupon", 2)
		n.night()
		require.Equal(t, []coupon.UserID{4}, n.Outcome(n.couponID, "NOT_SELECTED"))
		allow()
		_, err := n.CouponAdmin().AddSeats(t.Context(), n.couponID, 1)
		require.NoError(t, err)
		n.night()
		require.Equal(t, []coupon.UserID{4}, n.Outcome(n.couponID, "NOT_SELECTED"), "the seat is kept for 2")
		n.nextNight()
		require.Equal(t, []coupon.UserID{1, 3, 2}, n.Issued(n.couponID))
	})
	t.Run("seats left for later applications", func(t *testing.T) {
		t.Parallel()
		n := newNights(t, 4, 1, 2, 3)
		n.RefuseRows("user_coupon", 2)
		n.night()
		n.applyToday(4, 5)
		n.night()
		require.Equal(t, []coupon.UserID{1, 3, 4}, n.Issued(n.couponID))
		require.Equal(t, []string{"5"}, n.Waiting(n.couponID))
		n.nextNight()
		require.Equal(t, []coupon.UserID{1, 3, 4, 5}, n.Issued(n.couponID))
	})
	t.Run("user blocked meanwhile", func(t *testing.T) {
		t.Parallel()
		n := newNights(t, 3, 1, 2, 3)
		n.RefuseRows("user_coupon", 2)
		n.night()
		n.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
		n.applyToday(4)
		n.night()
		require.Equal(t, []coupon.UserID{1, 3, 4}, n.Issued(n.couponID), "a blocked user keeps no seat")
	})
}

// A run moved the first application to the DLQ because the database was away. It has tried no row, so the next run of
// the same night does.
func TestSettle_TriesEntriesOfUnavailableDatabaseTheSameNight(t *testing.T) {
	t.Parallel()
	n := newNights(t, 9, 1)
	n.MoveToReview(n.couponID, "1", coupon.Failure{Cause: coupon.CauseDatabaseAway, Retryable: true})
	n.night()
	require.Equal(t, []coupon.UserID{1}, n.Issued(n.couponID))
}

// With 200 seats, a run accepts up to 102 refused rows. The rows of several nights do not add up.
func TestSettle_CountsRefusedRowsPerNight(t *testing.T) {
	t.Parallel()
	const eachNight = 60
	n := newNights(t, 200)
	n.RefuseOddUsers()
	var good []coupon.UserID
	for night := range coupon.UserID(2) {
		n.applyToday(between(1000*night+1, 1000*night+eachNight)...)
		n.Exec("REPLACE INTO odd_user (id) SELECT id FROM `user` WHERE id % 1000 <= ?", eachNight)
		good = append(good, 1000*night+500)
		n.applyToday(good[night])
		n.night()
		n.tonight++
		require.Equal(t, good, n.Issued(n.couponID))
	}
	require.Len(t, n.UnderReview(n.couponID), 2*eachNight)
	require.Equal(t, []int{2, 1}, []int{n.attempts(1), n.attempts(1001)})
}

// A night that fails because of other rows still counts an attempt at rows refused before. After ten attempts a row is
// held, and each decision of an operator gives it another.
func TestSettle_CountsAttemptsInFailedNight(t *testing.T) {
	t.Parallel()
	n := newNights(t, 200, 1, 2, 3)
	allow := n.RefuseRows("user_coupon", 2)
	n.night()
	require.Equal(t, []coupon.UserID{1, 3}, n.Issued(n.couponID))
	for range 6 {
		n.nextNight()
	}
	require.Equal(t, 7, n.attempts(2))
	allow()
	n.RefuseRows("user_coupon")
	n.tonight++
	others := between(1001, 1150)
	n.applyToday(others...)
	for _, night := range []struct{ runs, attempts int }{{2, 8}, {1, 9}, {1, 10}} {
		for range night.runs {
			result := n.nightOf()
			require.Contains(t, result.Error, "more than 102 rows cannot be stored")
			require.Contains(t, result.Error, "nothing was moved")
			require.Len(t, n.Waiting(n.couponID), len(others), "no application is moved")
			require.Equal(t, night.attempts, n.attempts(2), "once a night")
		}
		n.tonight++
	}
	require.False(t, n.Reason(n.couponID, "2").Retryable)
	n.Exec("DROP TRIGGER refuses_user_coupon")
	n.night()
	issued := append([]coupon.UserID{1, 3}, others...)
	require.Equal(t, issued, n.Issued(n.couponID), "2 is held until an operator decides")

	n.RefuseRows("user_coupon", 2)
	n.Retry(n.couponID)
	require.False(t, n.Reason(n.couponID, "2").Retryable, "one attempt for each decision")
	require.Equal(t, 11, n.attempts(2))
	n.Exec("DROP TRIGGER refuses_user_coupon")
	n.Retry(n.couponID)
	requireSettled(n.Deployment, n.couponID, results{issued: append(issued, 2)})
}
