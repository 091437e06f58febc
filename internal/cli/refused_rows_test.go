package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// lately is a coupon that has been open for weeks, with nightly runs for who stands in it.
type lately struct {
	*world
	couponID uint64
	opened   time.Time
	tonight  int // nights since then
}

func newLately(t *testing.T, seats int, users ...uint64) *lately {
	w := newWorld(t)
	now := w.now()
	l := &lately{world: w, couponID: w.couponBetween(seats, now.AddDate(0, 0, -21), now.Add(time.Hour)), opened: now.AddDate(0, 0, -20).Truncate(time.Second), tonight: 1}
	l.stands(users...)
	return l
}

// stands lets users apply on the day before tonight, those with higher ids later.
func (l *lately) stands(users ...uint64) {
	l.t.Helper()
	l.users(users...)
	for _, user := range users {
		l.stand(l.couponID, fmt.Sprint(user), l.opened.AddDate(0, 0, l.tonight-1).Add(time.Duration(user)*time.Second))
	}
}

// night is a nightly run; repeated, it is one more of the same night.
func (l *lately) night() settle.Result {
	l.t.Helper()
	result := l.nightOf()
	require.Empty(l.t, result.Error)
	return result
}

func (l *lately) nightOf() settle.Result {
	l.t.Helper()
	m := machine{world: l.world}
	report, err := m.inProcess().RunOnce(l.t.Context(), settle.Order{Trigger: coupon.Cron, Cutoff: l.opened.AddDate(0, 0, l.tonight)})
	require.NoError(l.t, err)
	l.verify()
	return report.Coupons[0]
}

func (l *lately) nextNight() settle.Result {
	l.t.Helper()
	l.tonight++
	return l.night()
}

func (l *lately) attempts(user uint64) int {
	l.t.Helper()
	return l.reason(l.couponID, fmt.Sprint(user)).Attempts
}

// Runs of one night that follow each other do not use up the attempts at a row.
func TestARefusedRowIsTriedOnceANight(t *testing.T) {
	t.Parallel()
	l := newLately(t, 9, 1, 2, 3)
	allow := l.refuse("user_coupon", 2)
	l.night()
	why := l.reason(l.couponID, "2")
	require.Equal(t, 1, why.Refused)
	allow()
	l.night()
	require.Equal(t, []uint64{1, 3}, l.issued(l.couponID), "it was tried tonight")
	require.Equal(t, why, l.reason(l.couponID, "2"))
	require.Equal(t, candidates.UnderReview, l.answer(l.couponID, 2))
	l.nextNight()
	require.Equal(t, []uint64{1, 3, 2}, l.issued(l.couponID))
}

func TestAPersonsRunTriesARefusedRowAlways(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(l *lately){
		"run":   func(l *lately) { l.settleNow() },
		"retry": func(l *lately) { l.dlq("retry", l.couponID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLately(t, 9, 1, 2)
			allow := l.refuse("user_coupon", 1)
			l.night()
			run(l)
			require.Equal(t, 2, l.attempts(1))
			l.night()
			require.Equal(t, 2, l.attempts(1), "the night has had its attempt")
			allow()
			run(l)
			require.Equal(t, []uint64{2, 1}, l.issued(l.couponID))
			l.verify()
		})
	}
}

// Whoever is not tried again tonight keeps a seat: it passes to the next in line when the row is refused in another night.
func TestWhoWasTriedTonightKeepsASeat(t *testing.T) {
	t.Parallel()
	t.Run("the row is taken the next night", func(t *testing.T) {
		t.Parallel()
		l := newLately(t, 3, 1, 2, 3)
		allow := l.refuse("user_coupon", 2)
		l.night()
		allow()
		l.stands(4) // one seat is left for 2 and for 4, who came later
		l.night()
		require.Equal(t, []uint64{1, 3}, l.issued(l.couponID))
		require.Equal(t, []string{"4"}, l.waiting(l.couponID), "nothing is decided yet")
		l.nextNight()
		require.Equal(t, []uint64{1, 3, 2}, l.issued(l.couponID))
		require.Equal(t, []uint64{4}, l.outcome(l.couponID, "NOT_SELECTED"))
	})
	t.Run("the row is refused the next night", func(t *testing.T) {
		t.Parallel()
		l := newLately(t, 3, 1, 2, 3)
		l.refuse("user_coupon", 2)
		l.night()
		l.stands(4)
		l.night()
		require.Equal(t, []string{"4"}, l.waiting(l.couponID))
		l.nextNight()
		require.Equal(t, []uint64{1, 3, 4}, l.issued(l.couponID), "the seat goes to the next in line")
		require.Equal(t, 2, l.attempts(2))
	})
	t.Run("somebody was not selected", func(t *testing.T) {
		t.Parallel()
		l := newLately(t, 2, 1, 2, 3, 4)
		allow := l.refuse("user_coupon", 2)
		l.night()
		require.Equal(t, []uint64{4}, l.outcome(l.couponID, "NOT_SELECTED"))
		allow()
		l.mustChange("add-seats", l.couponID, "--seats=1")
		l.night()
		require.Equal(t, []uint64{4}, l.outcome(l.couponID, "NOT_SELECTED"), "that seat is kept for 2")
		l.nextNight()
		require.Equal(t, []uint64{1, 3, 2}, l.issued(l.couponID))
	})
	t.Run("there is a seat behind", func(t *testing.T) {
		t.Parallel()
		l := newLately(t, 4, 1, 2, 3)
		l.refuse("user_coupon", 2)
		l.night()
		l.stands(4, 5)
		l.night()
		require.Equal(t, []uint64{1, 3, 4}, l.issued(l.couponID))
		require.Equal(t, []string{"5"}, l.waiting(l.couponID))
		l.nextNight()
		require.Equal(t, []uint64{1, 3, 4, 5}, l.issued(l.couponID))
	})
	t.Run("the user is blocked since", func(t *testing.T) {
		t.Parallel()
		l := newLately(t, 3, 1, 2, 3)
		l.refuse("user_coupon", 2)
		l.night()
		l.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
		l.stands(4)
		l.night()
		require.Equal(t, []uint64{1, 3, 4}, l.issued(l.couponID), "who cannot hold a coupon keeps none")
	})
}

// A run that put the first of the line aside because the database was away has tried no row: the next one of the night does.
func TestWhoIsPutAsideIsTriedTheSameNight(t *testing.T) {
	t.Parallel()
	l := newLately(t, 9, 1)
	at := l.arrivalsOf(l.couponID, 1)["1"]
	moved, err := l.store.Review(t.Context(), l.couponID, 0, time.Time{}, []coupon.Failure{{
		Application: coupon.Application{Member: "1", Arrival: at, Source: coupon.SourceQueue}, Cause: coupon.CauseDatabaseAway, Retryable: true,
	}})
	require.NoError(t, err)
	require.EqualValues(t, 1, moved)
	l.night()
	require.Equal(t, []uint64{1}, l.issued(l.couponID))
}

// Of 200 seats 102 rows may be refused. That many are not a fault of something else because several nights add up to more.
func TestRefusedRowsOfSeveralNightsDoNotAddUp(t *testing.T) {
	t.Parallel()
	const eachNight = 60
	l := newLately(t, 200)
	l.refuseOddUsers()
	var good []uint64
	for night := range uint64(3) {
		odd := between(1000*night+1, 1000*night+eachNight)
		for _, user := range odd {
			l.exec("INSERT INTO odd_user (id) VALUES (?)", user)
		}
		good = append(good, 1000*night+500)
		l.stands(append(odd, good[night])...)
		l.night()
		l.tonight++
		require.Equal(t, good, l.issued(l.couponID))
	}
	require.Len(t, l.underReview(l.couponID), 3*eachNight)
	require.Equal(t, []int{3, 2, 1}, []int{l.attempts(1), l.attempts(1001), l.attempts(2001)})
}

// A night that fails because of other rows has tried those that were refused before: after ten they are held, and whatever
// the night fails of is no reason to try them for ever.
func TestAttemptsAreKeptWhenRefusedRowsFailTheNight(t *testing.T) {
	t.Parallel()
	l := newLately(t, 200, 1, 2, 3)
	allow := l.refuse("user_coupon", 2)
	l.night()
	require.Equal(t, []uint64{1, 3}, l.issued(l.couponID))
	allow()
	l.refuse("user_coupon")
	l.tonight++
	others := between(1001, 1150)
	l.stands(others...)
	for night := range 9 {
		for range 2 {
			result := l.nightOf()
			require.Contains(t, result.Error, "more than 102 rows cannot be stored")
			require.Len(t, l.waiting(l.couponID), len(others), "nobody is moved")
			require.Equal(t, night+2, l.attempts(2), "once a night")
		}
		l.tonight++
	}
	require.False(t, l.reason(l.couponID, "2").Retryable)
	l.exec("DROP TRIGGER refuses_user_coupon")
	l.night()
	require.Equal(t, append([]uint64{1, 3}, others...), l.issued(l.couponID), "2 is held for a person")
}
