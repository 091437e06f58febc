package settle_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// requireBadRows requires that the DLQ holds exactly these applications because of their rows, retryable and with their
// arrivals.
func requireBadRows(d *jajeongtest.Deployment, couponID coupon.CouponID, message string,
	arrivals map[string]coupon.Arrival) {
	d.T.Helper()
	require.Equal(d.T, arrivals, d.UnderReview(couponID))
	for member := range arrivals {
		reason := d.Reason(couponID, member)
		require.Equal(d.T, "BAD_ROW", reason.Cause)
		require.Contains(d.T, reason.Note, message)
		require.True(d.T, reason.Retryable)
		require.Equal(d.T, 1, reason.Attempts)
		require.NotZero(d.T, reason.Run)
	}
}

// arrivalsOf are the arrivals of these users in the queue.
func arrivalsOf(d *jajeongtest.Deployment, couponID coupon.CouponID, users ...coupon.UserID) map[string]coupon.Arrival {
	d.T.Helper()
	found, all := map[string]coupon.Arrival{}, d.Arrivals(couponID)
	for _, user := range users {
		member := fmt.Sprint(user)
		require.Contains(d.T, all, member)
		found[member] = all[member]
	}
	return found
}

func without(line []coupon.UserID, users ...coupon.UserID) []coupon.UserID {
	return slices.DeleteFunc(slices.Clone(line), func(user coupon.UserID) bool { return slices.Contains(users, user) })
}

// Applications whose row the database refuses go to the DLQ. The next applications get their seats.
func TestSettle_MovesRefusedRowsToReview(t *testing.T) {
	t.Parallel()
	shared, line := jajeongtest.New(t), between(1, 15)
	shared.AddUsers(line...)
	slices.Reverse(line) // arrivals are not in the order of ids
	for name, c := range map[string]struct {
		seats int
		bad   []int // indexes in the queue
	}{
		"several, at both ends":         {10, []int{0, 1, 9, 10, 11}},
		"as many seats as applications": {15, []int{3, 8}},
		"all, within the limit":         {10, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}},
	} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			couponID := d.AddCoupon(c.seats)
			d.Apply(couponID, line...)
			var bad []coupon.UserID
			for _, place := range c.bad {
				bad = append(bad, line[place])
			}
			arrivals := arrivalsOf(d, couponID, bad...)
			allow := sync.OnceFunc(d.RefuseRows("user_coupon", bad...))
			t.Cleanup(allow)

			report := d.SettleNow(couponID) // entries of the DLQ are no failure
			able := without(line, bad...)
			issued := min(c.seats, len(able))
			require.EqualExportedValues(t, settle.Total{Coupons: 1,
				Counts: settle.Counts{Read: len(line), Issued: issued, UnderReview: len(bad),
					NotSelected: len(able) - issued},
				Millis: report.Total.Millis}, report.Total)
			require.Equal(t, append([]coupon.UserID{}, able[:issued]...), d.Issued(couponID))
			if issued > 0 {
				require.Equal(t, jajeongtest.Between(1, uint64(issued)), d.Seats(couponID), "without gaps")
			}
			require.Equal(t, append([]coupon.UserID{}, able[issued:]...), d.Outcome(couponID, "NOT_SELECTED"))
			require.Empty(t, d.Waiting(couponID))
			requireBadRows(d, couponID, "an odd user", arrivals)
			d.Verify(couponID)

			d.SettleNow(couponID) // the fault persists
			require.Equal(t, arrivals, d.UnderReview(couponID), "with their arrivals")
			attempts := 1
			if issued < c.seats {
				attempts = 2 // a seat was free
			}
			for member := range arrivals {
				require.Equal(t, attempts, d.Reason(couponID, member).Attempts)
			}
			d.Verify(couponID)

			allow()
			d.SetSeats(couponID, issued+len(bad))
			d.SettleNow(couponID)
			require.Equal(t, append(append([]coupon.UserID{}, able[:issued]...), bad...), d.Issued(couponID),
				"they get the free seats, in order")
			require.Equal(t, jajeongtest.Between(1, uint64(issued+len(bad))), d.Seats(couponID))
			require.Empty(t, d.UnderReview(couponID))
			d.Verify(couponID)
		})
	}
}

// The errors by which a database refuses a row. The odd user is the first in the queue.
func TestSettle_RecognisesEveryErrorOfARow(t *testing.T) {
	t.Parallel()
	const odd = 5_000_000_000
	shared := jajeongtest.New(t)
	shared.AddUsers(odd, 9, 8, 7)
	trigger := func(does string) string {
		return "CREATE TRIGGER minds BEFORE INSERT ON user_coupon FOR EACH ROW IF NEW.user_id = 5000000000 THEN " +
			does + "; END IF"
	}
	for name, c := range map[string]struct {
		fault, repair string
		number        []string // of MariaDB, of MySQL
	}{
		"out of range": {"ALTER TABLE user_coupon MODIFY user_id INT UNSIGNED NOT NULL",
			"ALTER TABLE user_coupon MODIFY user_id BIGINT UNSIGNED NOT NULL", []string{"1264"}},
		"too long": {"ALTER TABLE user_coupon MODIFY user_id VARCHAR(5) NOT NULL",
			"ALTER TABLE user_coupon MODIFY user_id BIGINT UNSIGNED NOT NULL", []string{"1406"}},
		"no instant": {trigger("SET NEW.applied_at = 'at noon'"), "DROP TRIGGER minds", []string{"1292"}},
		"no number":  {trigger("SET NEW.position = 'first'"), "DROP TRIGGER minds", []string{"1366"}},
		"a SIGNAL": {trigger("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'"), "DROP TRIGGER minds",
			[]string{"1644"}},
		"a SIGNAL's number": {trigger("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31000, MESSAGE_TEXT = 'no'"),
			"DROP TRIGGER minds", []string{"31000"}},
		"NULL": {trigger("SET NEW.issued_at = NULL"), "DROP TRIGGER minds", []string{"1048"}},
		"no ENUM value": {trigger("SET NEW.status = CONCAT('x', NEW.user_id)"), "DROP TRIGGER minds",
			[]string{"1265"}},
		"below zero": {trigger("SET NEW.position = NEW.user_id - NEW.user_id - 1"), "DROP TRIGGER minds",
			[]string{"1264", "1690"}},
		"a division by zero": {trigger("SET NEW.position = 1 / (NEW.user_id - 5000000000)"), "DROP TRIGGER minds",
			[]string{"1365"}},
		"a subquery": {trigger("SET NEW.position = (SELECT id FROM `user`)"), "DROP TRIGGER minds",
			[]string{"1242"}},
		"a duplicate": {trigger("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (1, 1, 1), (1, 1, 1)"),
			"DROP TRIGGER minds", []string{"1062"}},
		"a CHECK of the table": {"ALTER TABLE user_coupon ADD CONSTRAINT small_users CHECK (user_id < 5000000000)",
			"ALTER TABLE user_coupon DROP CONSTRAINT small_users", []string{"4025", "3819"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			couponID := d.AddCoupon(3)
			d.Apply(couponID, odd, 9, 8, 7)
			arrivals := arrivalsOf(d, couponID, odd)
			d.Exec("DELETE FROM user_coupon") // of the rows before, which some faults do not fit
			d.Exec(c.fault)
			repair := sync.OnceFunc(func() { d.Exec(c.repair) })
			t.Cleanup(repair)
			d.SettleNow(couponID)
			require.Equal(t, []coupon.UserID{9, 8, 7}, d.Issued(couponID))
			requireBadRows(d, couponID, "", arrivals)
			message := d.Reason(couponID, fmt.Sprint(uint64(odd))).Note
			require.True(t, slices.ContainsFunc(c.number,
				func(n string) bool { return strings.HasPrefix(message, "Error "+n+" ") }), message)

			repair()
			d.SetSeats(couponID, 4)
			d.SettleNow(couponID)
			requireSettled(d, couponID, results{issued: []coupon.UserID{9, 8, 7, odd}})
		})
	}
}

// A seat is added for a user who was not selected, but the row is refused. The next user gets the seat; the arrival is
// kept.
func TestSettle_RefusedRowOfUserNotSelectedBefore(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, between(1, 5)...)
	arrivals := arrivalsOf(d, couponID, 2)
	d.SettleNow()
	require.Equal(t, between(2, 5), d.Outcome(couponID, "NOT_SELECTED"))

	allow := d.RefuseRows("user_coupon", 2)
	d.SetSeats(couponID, 3)
	report := d.SettleNow()
	require.Equal(t, 1, report.Total.UnderReview)
	require.Equal(t, []coupon.UserID{1, 3, 4}, d.Issued(couponID))
	require.Equal(t, jajeongtest.Between[uint64](1, 3), d.Seats(couponID))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(couponID, "NOT_SELECTED"))
	requireBadRows(d, couponID, "an odd user", arrivals)
	d.Verify()

	allow()
	d.SetSeats(couponID, 4)
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 3, 4, 2}, notSelected: []coupon.UserID{5}})
}

// A NOT_SELECTED row becomes a DLQ entry at an arrival of the past, where no copy looks. The journal has it, so that it
// survives a loss of Redis.
func TestSettle_RefusedRowOfUserNotSelectedIsInTheJournal(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	d.SettleNow()
	d.Journal(id)
	d.RefuseRows("user_coupon", 2)
	d.SetSeats(id, 2)
	require.Equal(t, 1, d.SettleNow().Total.UnderReview)
	before := d.UnderReview(id)
	d.Journal(id)
	d.PodsDie()
	d.LoseRedis(id)
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Equal(t, before, d.Arrivals(id))
}

// The transaction fails after the refused row. Nothing has moved, neither in MySQL nor in Redis.
func TestSettle_RefusedRowInFailedTransaction(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, between(1, 4)...)
	d.SettleNow()
	allow := d.RefuseRows("user_coupon", 2)
	d.Exec("CREATE TRIGGER refuses BEFORE INSERT ON settlement FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT " +
		"= 'no records today'")
	d.SetSeats(couponID, 2)
	before := d.Snapshot()
	report := d.SettleFailing(coupon.Setup)
	require.Contains(t, report.Coupons[0].Error, "no records today")
	require.Equal(t, settle.Counts{}, report.Total.Counts)
	require.NotContains(t, report.Advice(), text.AdviseRunAgain, "it would fail again")
	require.Equal(t, before, d.Snapshot())
	d.Verify()
	require.Empty(t, d.UnderReview(couponID))

	allow()
	d.Exec("DROP TRIGGER refuses")
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 2}, notSelected: []coupon.UserID{3, 4}})
}

// The outcome NOT_SELECTED of a user is refused. The application is in the DLQ until it can be written.
func TestSettle_RefusedOutcome(t *testing.T) {
	t.Parallel()
	for message, does := range map[string]string{
		"an odd user":     "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an odd user'",
		"Duplicate entry": "INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (1, 1, 1), (1, 1, 1)",
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			couponID := d.AddQueue(1, between(1, 5)...)
			arrivals := arrivalsOf(d, couponID, 3)
			d.Exec("CREATE TRIGGER minds BEFORE INSERT ON application_outcome FOR EACH ROW IF NEW.user_id = 3 THEN " +
				does + "; END IF")
			report := d.SettleNow()
			require.Equal(t, 1, report.Total.UnderReview)
			require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
			require.Equal(t, []coupon.UserID{2, 4, 5}, d.Outcome(couponID, "NOT_SELECTED"))
			requireBadRows(d, couponID, message, arrivals)
			d.Verify()

			d.Exec("DROP TRIGGER minds")
			d.SettleNow()
			requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: between(2, 5)})
		})
	}
}

// No outcome can be recorded. The issued coupons stay, and the other applications stay in the queue.
func TestSettle_FailsBeyondLimitOfRefusedOutcomes(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	line := between(1, 150)
	couponID := d.AddQueue(1, line...)
	allow := d.RefuseRows("application_outcome")
	report := d.SettleFailing(coupon.Setup)
	require.Contains(t, report.Coupons[0].Error, "more than 100 rows cannot be stored")
	require.NotContains(t, report.Coupons[0].Error, "nothing was moved", "a coupon was issued")
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
	require.Len(t, d.Waiting(couponID), 149)
	require.Empty(t, d.UnderReview(couponID))

	allow()
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: line[1:]})
}

// A count that the database's own constraint refuses is a broken invariant, not a fault of a row.
func TestSettle_HoldsCouponWithRefusedCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ trigger, message string }{
		"a CHECK of the coupon": {
			"CREATE TRIGGER counts BEFORE UPDATE ON coupon FOR EACH ROW SET NEW.issued_count = NEW.total_quantity + 1",
			"coupon_never_oversold"},
		"the seats are counted": {
			"CREATE TRIGGER counts AFTER INSERT ON user_coupon FOR EACH ROW UPDATE coupon SET issued_count = " +
				"issued_count + 1 WHERE id = NEW.coupon_id", "settle verify"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			hurt := d.AddQueue(2, 1, 2, 3)
			d.Exec(c.trigger)
			report := d.SettleFailing(coupon.Invariant)
			require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
			require.Contains(t, report.Coupons[0].Error, c.message)
			requireUnchanged(d, hurt, 1, 2, 3)
			d.Verify()

			d.Exec("DROP TRIGGER counts")
			d.SettleNow()
			requireSettled(d, hurt, results{issued: []coupon.UserID{1, 2}, notSelected: []coupon.UserID{3}})
		})
	}
}
