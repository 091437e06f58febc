package settle

import (
	"math/bits"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

func usersIn(applications []coupon.Application) []coupon.UserID {
	users := make([]coupon.UserID, len(applications))
	for i, a := range applications {
		users[i] = a.User()
	}
	return users
}

var errOdd = &mysql.MySQLError{Number: 1644, Message: "odd"}

func TestInsert_FailsBeyondLimitOfRefusedRows(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 100}, {99, 100}, {100, 101}, {199, 101}, {200, 102}, {1_000_000, 10_100}} {
		require.Equal(t, c[1], run{}.newRefusals(c[0], 0).allowed, "of %d seats", c[0])
	}

	s := newSettlement(t, 1)
	tx, err := s.DB.Pool().Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	line := make([]coupon.Application, 5000)
	for i := range line {
		line[i] = application(coupon.UserID(i+1), coupon.Arrival(i), coupon.SourceQueue)
	}
	for last, fails := range map[int]bool{102: false, 103: true, len(line): true} { // how many of the line are refused
		refused, statements := s.run.newRefusals(200, 0), 0
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
			continue
		}
		require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
		require.ErrorContains(t, err, "more than 102 rows")
		require.ErrorContains(t, err, "user 103")
		require.ErrorIs(t, err, errOdd)
		require.Empty(t, stored)
		require.Less(t, statements, 2*103+2*bits.Len(uint(len(line))), "the rest is not tried")
	}
}
