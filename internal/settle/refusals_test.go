package settle

import (
	"context"
	"database/sql"
	"errors"
	"math/bits"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// newPicky is a settlement whose database refuses the rows of the users in the table odd.
func newPicky(t *testing.T) *settlement {
	s := newSettlement(t, 1)
	for _, statement := range []string{
		"CREATE TABLE odd (user_id BIGINT UNSIGNED NOT NULL PRIMARY KEY) ENGINE=InnoDB",
		"CREATE TRIGGER picks BEFORE INSERT ON user_coupon FOR EACH ROW " +
			"IF EXISTS (SELECT 1 FROM odd WHERE odd.user_id = NEW.user_id) THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'odd'; END IF",
	} {
		_, err := s.DB.Pool().Exec(statement)
		require.NoError(t, err)
	}
	return s
}

func usersIn(applications []coupon.Application) []coupon.UserID {
	users := make([]coupon.UserID, len(applications))
	for i, a := range applications {
		users[i] = a.User()
	}
	return users
}

// The other rows are stored once, in order and without gaps, with no more statements than halving needs.
func TestInsert_IsolatesExactlyTheRefusedRows(t *testing.T) {
	t.Parallel()
	s := newPicky(t)
	cases, failing := 0, false
	rapid.Check(t, func(t *rapid.T) {
		if cases++; cases > 40 && !failing {
			return // the rest of the 100 cases is empty, unless rapid shrinks a failure
		}
		defer func() { failing = failing || t.Failed() }()
		n := rapid.IntRange(1, 40).Draw(t, "line")
		users := make([]coupon.UserID, n)
		for i := range users {
			users[i] = coupon.UserID(i + 1)
		}
		line := make([]coupon.Application, n)
		for i, user := range rapid.Permutation(users).Draw(t, "order") {
			line[i] = application(user, coupon.Arrival(1000+i), coupon.SourceQueue)
		}
		odd := map[coupon.UserID]bool{}
		for _, user := range rapid.SliceOfNDistinct(rapid.SampledFrom(users), 0, min(n, 8), rapid.ID).Draw(t, "odd") {
			odd[user] = true
		}
		seated := rapid.IntRange(0, 1000).Draw(t, "seated")

		ctx := context.Background()
		tx, err := s.DB.Pool().Begin()
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		for user := range odd {
			_, err := tx.Exec("INSERT INTO odd VALUES (?)", user)
			require.NoError(t, err)
		}
		refused := s.run.newRefusals(s.coupon.TotalQuantity, 0)
		statements := 0
		stored, err := refused.insert(ctx, tx, 0, line, func(before int, part []coupon.Application) error {
			statements++
			_, err := records.InsertIssued(ctx, tx, s.run.rows(), s.coupon, s.run.zone, seated+before, records.PackSeats(part))
			return err
		})
		require.NoError(t, err)

		able := slices.DeleteFunc(slices.Clone(line), func(a coupon.Application) bool { return odd[a.User()] })
		require.Equal(t, usersIn(able), usersIn(stored))
		var apart []coupon.Application
		for _, f := range refused.failures {
			apart = append(apart, f.Application)
			require.Equal(t, coupon.Failure{Application: f.Application, Cause: coupon.CauseBadRow, Note: "Error 1644 (45000): odd", Retryable: true, Row: true, Night: s.run.cutoff}, f)
		}
		unable := slices.DeleteFunc(slices.Clone(line), func(a coupon.Application) bool { return !odd[a.User()] })
		require.Equal(t, usersIn(unable), usersIn(apart))
		seats, err := tx.Query("SELECT user_id, position FROM user_coupon ORDER BY position")
		require.NoError(t, err)
		defer seats.Close()
		rows := 0
		for ; seats.Next(); rows++ {
			var user coupon.UserID
			var position int
			require.NoError(t, seats.Scan(&user, &position))
			require.Less(t, rows, len(able))
			require.Equal(t, able[rows].User(), user)
			require.Equal(t, seated+rows+1, position)
		}
		require.NoError(t, seats.Err())
		require.Equal(t, len(able), rows)
		require.LessOrEqual(t, statements, 1+2*len(odd)*bits.Len(uint(n)))
	})
}

func inTransaction(t *testing.T, s *settlement, work func(tx *sql.Tx)) {
	tx, err := s.DB.Pool().Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	work(tx)
}

var errOdd = &mysql.MySQLError{Number: 1644, Message: "odd"}

func TestInsert_FailsBeyondLimitOfRefusedRows(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 100}, {99, 100}, {100, 101}, {199, 101}, {200, 102}, {1_000_000, 10_100}} {
		require.Equal(t, c[1], run{}.newRefusals(c[0], 0).allowed, "of %d seats", c[0])
	}

	s := newSettlement(t, 1)
	s.coupon.TotalQuantity = 200
	line := make([]coupon.Application, 5000)
	for i := range line {
		line[i] = application(coupon.UserID(i+1), coupon.Arrival(i), coupon.SourceQueue)
	}
	for last, fails := range map[int]bool{102: false, 103: true, len(line): true} { // how many of the line are refused
		inTransaction(t, s, func(tx *sql.Tx) {
			refused := s.run.newRefusals(s.coupon.TotalQuantity, 0)
			statements := 0
			stored, err := refused.insert(t.Context(), tx, 0, line, func(_ int, part []coupon.Application) error {
				if statements++; part[0].User() <= coupon.UserID(last) {
					return errOdd
				}
				return nil
			})
			if !fails {
				require.NoError(t, err)
				require.Equal(t, line[last:], stored)
				require.Len(t, refused.failures, last)
				return
			}
			require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
			require.ErrorContains(t, err, "more than 102 rows")
			require.ErrorContains(t, err, "user 103")
			require.ErrorIs(t, err, errOdd)
			require.Empty(t, stored)
			require.Less(t, statements, 2*103+2*bits.Len(uint(len(line))), "the rest is not tried")
		})
	}
}

// Rows that were refused in earlier settlements are tried beside the others and not counted.
func TestInsert_DoesNotLimitRowsRefusedBefore(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	const before = 300
	sources := []coupon.Source{coupon.SourceRowRefused, coupon.SourceTriedTonight}
	for anew, fails := range map[int]bool{100: false, 101: true} {
		line := make([]coupon.Application, before+anew)
		for i := range line {
			source := sources[i%2]
			if i >= before {
				source = coupon.SourceQueue
			}
			line[i] = application(coupon.UserID(i+1), coupon.Arrival(i), source)
		}
		inTransaction(t, s, func(tx *sql.Tx) {
			refused := s.run.newRefusals(s.coupon.TotalQuantity, 0)
			stored, err := refused.insert(t.Context(), tx, 0, line, func(int, []coupon.Application) error { return errOdd })
			require.Empty(t, stored)
			if fails {
				require.ErrorContains(t, err, "more than 100 rows")
				require.Len(t, mustBe[*tooManyRefused](t, err).before, before, "they have been tried")
				return
			}
			require.NoError(t, err)
			require.Len(t, refused.failures, before+anew)
		})
	}
}

func TestInsert_ReturnsOtherErrorsForTheTransaction(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	for _, number := range []uint16{1213, 1205, 1062, 1146, 1290} {
		inTransaction(t, s, func(tx *sql.Tx) {
			refused := s.run.newRefusals(s.coupon.TotalQuantity, 0)
			statements := 0
			want := &mysql.MySQLError{Number: number}
			stored, err := refused.insert(t.Context(), tx, 0, threeInLine, func(int, []coupon.Application) error {
				if statements++; statements == 1 {
					return errOdd
				}
				return want
			})
			require.Same(t, want, mustBe[*mysql.MySQLError](t, err), number)
			require.Equal(t, 2, statements, number)
			require.Empty(t, stored)
			require.Empty(t, refused.failures)
		})
	}
}

func mustBe[E error](t *testing.T, err error) (found E) {
	require.True(t, errors.As(err, &found), err)
	return found
}
