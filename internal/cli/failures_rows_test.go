package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
)

// refuse lets the database refuse the rows of some users, as a trigger of another team may; without users, of all.
func (w *world) refuse(table string, users ...uint64) (allow func()) {
	w.t.Helper()
	which := "TRUE"
	if len(users) > 0 {
		which = "NEW.user_id IN (" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(users)), ","), "[]") + ")"
	}
	w.exec(fmt.Sprintf("CREATE TRIGGER refuses_%[1]s BEFORE INSERT ON %[1]s FOR EACH ROW IF %[2]s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an odd user'; END IF", table, which))
	return func() { w.exec("DROP TRIGGER refuses_" + table) }
}

// badRows demands that exactly these are under review for their rows, to be tried again, with their own arrivals.
func (w *world) badRows(coupon uint64, message string, arrivals map[string]int64) {
	w.t.Helper()
	require.Equal(w.t, arrivals, w.underReview(coupon))
	for member := range arrivals {
		reason := w.reason(coupon, member)
		require.Equal(w.t, "BAD_ROW", reason.Cause)
		require.Contains(w.t, reason.Message, message)
		require.True(w.t, reason.Retryable)
		require.Equal(w.t, 1, reason.Attempts)
		require.NotZero(w.t, reason.Run)
	}
}

// arrivalsOf is where these users stand in the queue.
func (w *world) arrivalsOf(coupon uint64, users ...uint64) map[string]int64 {
	w.t.Helper()
	found := map[string]int64{}
	for _, user := range users {
		score, err := w.rdb.ZScore(w.t.Context(), w.queue(coupon), fmt.Sprint(user)).Result()
		require.NoError(w.t, err)
		found[fmt.Sprint(user)] = int64(score)
	}
	return found
}

func without(line []uint64, users ...uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(line), func(user uint64) bool { return slices.Contains(users, user) })
}

// Users whose row the database refuses go under review; everybody else is issued, the next in line in their seats.
func TestRowsTheDatabaseRefusesAreSetApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seats, applicants int
		bad               []int // places in line, from 0
	}{
		"the first":                      {10, 15, []int{0}},
		"in the middle":                  {10, 15, []int{5}},
		"the last seat":                  {10, 15, []int{9}},
		"the last in line":               {15, 15, []int{14}},
		"several, side by side":          {10, 15, []int{2, 3, 4}},
		"several, at both ends":          {10, 15, []int{0, 1, 9, 10, 11}},
		"as many seats as applicants":    {15, 15, []int{3, 8}},
		"a freed seat's next in line":    {10, 15, []int{4, 10}},
		"all, so few that it may happen": {10, 15, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			coupon := w.coupon(c.seats)
			line := reversed(between(1, uint64(c.applicants))) // so that order of arrival is not order of id
			w.users(line...)
			w.apply(coupon, line...)
			var bad []uint64
			for _, place := range c.bad {
				bad = append(bad, line[place])
			}
			arrivals := w.arrivalsOf(coupon, bad...)
			allow := w.refuse("user_coupon", bad...)

			code, report := w.settleNowCode()
			require.Zero(t, code, "entries of the DLQ are reported, they are no failure")
			able := without(line, bad...)
			issued := min(c.seats, len(able))
			require.Equal(t, settle.Total{Coupons: 1, Read: c.applicants, Issued: issued, Rejected: len(bad), NotSelected: len(able) - issued,
				Millis: report.Total.Millis}, report.Total)
			require.Equal(t, append([]uint64{}, able[:issued]...), w.issued(coupon))
			if issued > 0 {
				require.Equal(t, between(1, uint64(issued)), w.positions(coupon), "no seat is left out")
			}
			require.Equal(t, append([]uint64{}, able[issued:]...), w.outcome(coupon, "NOT_SELECTED"))
			require.Empty(t, w.waiting(coupon))
			w.badRows(coupon, "an odd user", arrivals)
			w.verify()

			w.settleNow() // the fault lasts
			require.Equal(t, arrivals, w.underReview(coupon), "with their arrivals")
			attempts := 1
			if issued < c.seats {
				attempts = 2 // a seat was free for them
			}
			for member := range arrivals {
				require.Equal(t, attempts, w.reason(coupon, member).Attempts)
			}
			w.verify()

			allow()
			w.exec("UPDATE coupon SET total_quantity = ? WHERE id = ?", issued+len(bad), coupon)
			w.settleNow()
			require.Equal(t, append(append([]uint64{}, able[:issued]...), bad...), w.issued(coupon), "the free seats are theirs, in order")
			require.Equal(t, between(1, uint64(issued+len(bad))), w.positions(coupon))
			require.Empty(t, w.underReview(coupon))
			w.verify()
		})
	}
}

// Of so many seats, 100 and one in a hundred may be refused: 102 of 200.
func TestMoreRefusedRowsThanAFewAreAFaultOfSomethingElse(t *testing.T) {
	t.Parallel()
	const seats, applicants, allowed = 200, 310, 102
	line := between(1, applicants)
	for name, c := range map[string]struct {
		bad  []uint64 // none: all
		code int
	}{
		"exactly the limit": {between(50, 50+allowed-1), 0},
		"one more":          {between(50, 50+allowed), 2},
		"all":               {nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			coupon := w.coupon(seats)
			w.users(line...)
			w.standAll(coupon, line)
			allow := w.refuse("user_coupon", c.bad...)
			code, _, stderr := w.runAtOnce()
			require.Equal(t, c.code, code, stderr)
			if c.code == 0 {
				require.Equal(t, without(line, c.bad...)[:seats], w.issued(coupon))
				require.Equal(t, between(1, seats), w.positions(coupon))
				require.Len(t, w.underReview(coupon), allowed)
				w.verify()
				return
			}
			require.Contains(t, stderr, "more than 102 rows cannot be stored")
			require.Contains(t, stderr, "nothing was moved")
			require.Contains(t, stderr, "an odd user")
			require.NotContains(t, stderr, "safe to run again", "it would fail again")
			w.nothingMoved(coupon, line...)
			w.verify()

			allow()
			w.settleNow()
			require.Equal(t, line[:seats], w.issued(coupon))
			require.Empty(t, w.underReview(coupon))
			w.verify()
		})
	}
}

// What the database refuses by itself, by the number of its error. The odd user is first in line.
func TestEveryKindOfRowTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	const odd = 5_000_000_000
	trigger := func(does string) string {
		return "CREATE TRIGGER minds BEFORE INSERT ON user_coupon FOR EACH ROW IF NEW.user_id = 5000000000 THEN " + does + "; END IF"
	}
	for name, c := range map[string]struct {
		breaks, mends string
		number        []string // MariaDB's, MySQL's
	}{
		"out of range":         {"ALTER TABLE user_coupon MODIFY user_id INT UNSIGNED NOT NULL", "ALTER TABLE user_coupon MODIFY user_id BIGINT UNSIGNED NOT NULL", []string{"1264"}},
		"too long":             {"ALTER TABLE user_coupon MODIFY user_id VARCHAR(5) NOT NULL", "ALTER TABLE user_coupon MODIFY user_id BIGINT UNSIGNED NOT NULL", []string{"1406"}},
		"no instant":           {trigger("SET NEW.applied_at = 'at noon'"), "DROP TRIGGER minds", []string{"1292"}},
		"no number":            {trigger("SET NEW.position = 'first'"), "DROP TRIGGER minds", []string{"1366"}},
		"a SIGNAL":             {trigger("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'"), "DROP TRIGGER minds", []string{"1644"}},
		"a CHECK of the table": {"ALTER TABLE user_coupon ADD CONSTRAINT small_users CHECK (user_id < 5000000000)", "ALTER TABLE user_coupon DROP CONSTRAINT small_users", []string{"4025", "3819"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			coupon := w.coupon(3)
			w.users(odd, 7, 8, 9)
			w.apply(coupon, odd, 9, 8, 7)
			arrivals := w.arrivalsOf(coupon, odd)
			w.exec(c.breaks)
			code, _, stderr := w.runAtOnce()
			require.Zero(t, code, stderr)
			require.Equal(t, []uint64{9, 8, 7}, w.issued(coupon))
			w.badRows(coupon, "", arrivals)
			message := w.reason(coupon, fmt.Sprint(uint64(odd))).Message
			require.True(t, slices.ContainsFunc(c.number, func(n string) bool { return strings.HasPrefix(message, "Error "+n+" ") }), message)

			w.exec(c.mends)
			w.exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", coupon)
			w.settleNow()
			require.Equal(t, []uint64{9, 8, 7, odd}, w.issued(coupon))
			require.Empty(t, w.underReview(coupon))
			w.verify()
		})
	}
}

// Not a user is odd here but a seat: whoever comes to it is refused, and it is left for the day the column is widened.
func TestASeatThatCannotBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(260)
	line := between(1, 300)
	w.users(line...)
	w.standAll(coupon, line)
	w.exec("ALTER TABLE user_coupon MODIFY position TINYINT UNSIGNED NOT NULL DEFAULT 0")
	code, _, stderr := w.runAtOnce()
	require.Zero(t, code, stderr)
	require.Equal(t, line[:255], w.issued(coupon))
	require.Len(t, w.underReview(coupon), 45)
	require.Contains(t, w.reason(coupon, "256").Message, "1264")
	w.verify()

	w.exec("ALTER TABLE user_coupon MODIFY position INT UNSIGNED NOT NULL DEFAULT 0")
	w.settleNow()
	require.Equal(t, line[:260], w.issued(coupon))
	require.Equal(t, line[260:], w.outcome(coupon, "NOT_SELECTED"))
	require.Empty(t, w.underReview(coupon))
	w.verify()
}

// Who was not selected comes back for an added seat, and is refused it: the seat goes on, the place in line is kept.
func TestARefusedRowOfSomebodyWhoWasNotSelectedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	w.users(between(1, 5)...)
	w.apply(coupon, between(1, 5)...)
	arrivals := w.arrivalsOf(coupon, 2)
	w.settleNow()
	require.Equal(t, between(2, 5), w.outcome(coupon, "NOT_SELECTED"))

	allow := w.refuse("user_coupon", 2)
	w.exec("UPDATE coupon SET total_quantity = 3 WHERE id = ?", coupon)
	code, report := w.settleNowCode()
	require.Zero(t, code)
	require.Equal(t, 1, report.Total.Rejected)
	require.Equal(t, []uint64{1, 3, 4}, w.issued(coupon))
	require.Equal(t, between(1, 3), w.positions(coupon))
	require.Equal(t, []uint64{5}, w.outcome(coupon, "NOT_SELECTED"))
	w.badRows(coupon, "an odd user", arrivals)
	w.verify()

	allow()
	w.exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", coupon)
	w.settleNow()
	require.Equal(t, []uint64{1, 3, 4, 2}, w.issued(coupon))
	require.Equal(t, []uint64{5}, w.outcome(coupon, "NOT_SELECTED"))
	require.Empty(t, w.underReview(coupon))
	w.verify()
}

// The transaction fails behind the refused row: nothing has moved, in Redis either.
func TestARefusedRowInATransactionThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	w.users(between(1, 4)...)
	w.apply(coupon, between(1, 4)...)
	w.settleNow()
	allow := w.refuse("user_coupon", 2)
	w.exec("CREATE TRIGGER refuses BEFORE INSERT ON settlement FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no records today'")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", coupon)
	before := w.everything()
	code, _, stderr := w.runAtOnce()
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "no records today")
	require.Equal(t, before, w.everything())
	w.verify()
	require.Empty(t, w.underReview(coupon))

	allow()
	w.exec("DROP TRIGGER refuses")
	w.settleNow()
	require.Equal(t, []uint64{1, 2}, w.issued(coupon))
	require.Equal(t, []uint64{3, 4}, w.outcome(coupon, "NOT_SELECTED"))
	require.Empty(t, w.underReview(coupon))
	w.verify()
}

// The record of who was not selected is refused: under review until it can be written.
func TestARefusedRecordOfAnOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	w.users(between(1, 5)...)
	w.apply(coupon, between(1, 5)...)
	arrivals := w.arrivalsOf(coupon, 3)
	allow := w.refuse("application_outcome", 3)
	report := w.settleNow()
	require.Equal(t, 1, report.Total.Rejected)
	require.Equal(t, []uint64{1}, w.issued(coupon))
	require.Equal(t, []uint64{2, 4, 5}, w.outcome(coupon, "NOT_SELECTED"))
	w.badRows(coupon, "an odd user", arrivals)
	w.verify()

	allow()
	w.settleNow()
	require.Equal(t, between(2, 5), w.outcome(coupon, "NOT_SELECTED"))
	require.Empty(t, w.underReview(coupon))
	w.verify()
}

// When no outcome can be recorded, the coupons stay as they were committed and the others stay in line.
func TestMoreRefusedRecordsThanAFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	line := between(1, 150)
	w.users(line...)
	w.standAll(coupon, line)
	allow := w.refuse("application_outcome")
	code, stdout, stderr := w.runAtOnce()
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "more than 100 rows cannot be stored")
	require.NotContains(t, stderr, "nothing was moved", "a coupon was issued:\n%s", stdout)
	require.Equal(t, []uint64{1}, w.issued(coupon))
	require.Len(t, w.waiting(coupon), 149)
	require.Empty(t, w.underReview(coupon))

	allow()
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(coupon))
	require.Equal(t, line[1:], w.outcome(coupon, "NOT_SELECTED"))
	w.verify()
}

// The database's own guard of the count: a broken promise, not a row of a user.
func TestACountThatTheDatabaseRefusesHoldsTheCoupon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ trigger, says string }{
		"a CHECK of the coupon": {"CREATE TRIGGER counts BEFORE UPDATE ON coupon FOR EACH ROW SET NEW.issued_count = NEW.total_quantity + 1", "coupon_never_oversold"},
		"the seats are counted": {"CREATE TRIGGER counts AFTER INSERT ON user_coupon FOR EACH ROW UPDATE coupon SET issued_count = issued_count + 1 WHERE id = NEW.coupon_id", "settle verify"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			hurt := w.coupon(2)
			w.users(1, 2, 3)
			w.apply(hurt, 1, 2, 3)
			w.exec(c.trigger)
			code, stdout, stderr := w.runAtOnce()
			require.Equal(t, 3, code, stderr)
			require.Contains(t, stdout, "HELD")
			require.Contains(t, stderr, fmt.Sprintf("coupon %d", hurt))
			require.Contains(t, stderr, c.says)
			w.nothingMoved(hurt, 1, 2, 3)
			w.verify()

			w.exec("DROP TRIGGER counts")
			w.settleNow()
			require.Equal(t, []uint64{1, 2}, w.issued(hurt))
			w.verify()
		})
	}
}
