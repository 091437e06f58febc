package records

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

func TestMain(m *testing.M) { testenv.MainHostile(m) }

// begin begins a transaction, which is rolled back, in a database that has coupon 1.
func begin(t *testing.T, seats int) *sql.Tx {
	db := migrated.Open(t)
	_, err :=
		db.Exec("INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at) VALUES (1, 'c', ?, "+
			"'2026-11-01', '2026-12-01')", seats)
	require.NoError(t, err)
	tx, err := db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// run1 has the midnight of UTC as cutoff, and began before it.
var run1 = Run{ID: 1, At: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}

func application(user coupon.UserID, arrival coupon.Arrival) coupon.Application {
	return coupon.Application{Member: user.Member(), Arrival: arrival, Source: coupon.SourceQueue}
}

func TestPackSeats(t *testing.T) {
	t.Parallel()
	require.Equal(t, &SeatRows{2, 10, "[[1,98306],[4,1]]"},
		PackSeats([]coupon.Application{application(4, 10), application(1, 13)}))
}

// A score written by hand may be anything from 0 on.
func TestPackable_EndsAtTheWidthOfANumber(t *testing.T) {
	t.Parallel()
	first, last, tooLate := application(1, 0), application(2, maxLater), application(3, maxLater+1)
	require.True(t, Packable(nil, tooLate))
	require.True(t, Packable([]coupon.Application{first}, last))
	require.False(t, Packable([]coupon.Application{first, last}, tooLate))
	require.Equal(t, fmt.Sprintf("[[1,1],[2,%d]]", int64(maxLater)<<placeBits+2),
		PackSeats([]coupon.Application{first, last}).json)
	require.Positive(t, int64(maxLater)<<placeBits+2)
}

func TestInsertIssued_SkipsForeignKeyCheckInOneStatement(t *testing.T) {
	t.Parallel()
	tx := begin(t, 3)
	line := []coupon.Application{application(1, 1000), application(2, 2000), application(3, 3000)}
	_, err := InsertIssued(t.Context(), tx, run1, coupon.Coupon{ID: 99}, time.UTC, 0, PackSeats(line))
	require.NoError(t, err, "it is not checked here")
	var checked bool
	require.NoError(t, tx.QueryRow("SELECT @@foreign_key_checks").Scan(&checked))
	require.True(t, checked)
	_, err = tx.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (98, 1, '2038-01-01')")
	require.ErrorContains(t, err, "1452")
}

// The places and arrivals of a full page come out of their packing as they went in, however far apart.
func TestInsertIssued_StoresPlaceAndTimesAsPacked(t *testing.T) {
	t.Parallel()
	const day = 24 * 3600 * 1_000_000
	line := make([]coupon.Application, MaxSeatRows)
	for i := range line {
		user := coupon.UserID(1 + (i*7919)%MaxSeatRows)
		line[i] = application(user, 1_700_000_000_000_000+coupon.Arrival(i)*365*day/MaxSeatRows)
	}
	line[0].Member = "18446744073709551615"
	line[0].Arrival = line[len(line)-1].Arrival - maxLater
	tx := begin(t, MaxSeatRows)
	_, err := InsertIssued(t.Context(), tx, run1, coupon.Coupon{ID: 1, ValidityDays: 30}, time.UTC, 500,
		PackSeats(line))
	require.NoError(t, err)
	rows, err :=
		tx.Query("SELECT user_id, position, applied_at, issued_at, expires_at FROM user_coupon ORDER BY position")
	require.NoError(t, err)
	defer rows.Close()
	for i, a := range line {
		require.True(t, rows.Next())
		var user coupon.UserID
		var position int
		var appliedAt, issuedAt, expiresAt time.Time
		require.NoError(t, rows.Scan(&user, &position, &appliedAt, &issuedAt, &expiresAt))
		if user != a.User() || position != 500+i+1 || coupon.ArrivalAt(appliedAt) != a.Arrival ||
			!issuedAt.Equal(run1.At) || !expiresAt.Equal(time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)) {
			t.Fatal(a, user, position, appliedAt, issuedAt, expiresAt)
		}
	}
	require.False(t, rows.Next())
}

func TestTakeSeats_RefusesMoreThanTotal(t *testing.T) {
	t.Parallel()
	err := TakeSeats(t.Context(), begin(t, 2), 1, 3)
	require.Equal(t, coupon.Invariant, mysqltx.ClassOf(err))
	require.ErrorContains(t, err, "settle verify")
}
