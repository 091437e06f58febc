package settle

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

// Of a part Redis must not be told as if it were all.
func TestWinnersAreRememberedAllOrNot(t *testing.T) {
	t.Parallel()
	s := &settlement{run: run{remembered: new(atomic.Int64)}}
	release := s.reserve(3)
	s.remember(threeInLine[:1], 1)
	s.remember(threeInLine[1:], 3)
	require.Equal(t, []winner{{1, 1000}, {2, 2000}, {3, 3000}}, s.winners)
	s.remember(threeInLine[:1], 4)
	require.Nil(t, s.winners, "seats were added")
	s.remember(threeInLine[:1], 5)
	require.Nil(t, s.winners)

	other := &settlement{run: s.run}
	defer other.reserve(mostRemembered - 2)()
	other.remember(threeInLine, 3)
	require.Nil(t, other.winners, "the room is taken")
	release()
	defer other.reserve(mostRemembered - 2)()
	other.remember(threeInLine, 3)
	require.Len(t, other.winners, 3)
}

func TestTheForeignKeyIsLeftUncheckedForTheSeatsAlone(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 3, threeInLine...)
	tx, err := s.DB.Pool().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	nobodys := s.coupon
	nobodys.ID = 99
	require.NoError(t, insertIssued(t.Context(), tx, s.run, nobodys, 0, threeInLine, seatRows(threeInLine)), "it is not checked here")
	var checked bool
	require.NoError(t, tx.QueryRow("SELECT @@foreign_key_checks").Scan(&checked))
	require.True(t, checked)
	_, err = tx.Exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (98, 1)")
	require.ErrorContains(t, err, "1452")
}

// The places and arrivals of a full page come out of their packing as they went in, however far apart.
func TestSeatsAreStoredAsTheyArrived(t *testing.T) {
	t.Parallel()
	require.Less(t, pageApplications, 1<<placeBits)
	const day = 24 * 3600 * 1_000_000
	line := make([]coupon.Application, pageApplications)
	for i := range line {
		user := uint64(1 + (i*7919)%pageApplications)
		line[i] = application(user, 1_700_000_000_000_000+int64(i)*365*day/pageApplications, coupon.SourceQueue)
	}
	line[0].Member = "18446744073709551615"
	line[0].Arrival = line[len(line)-1].Arrival - mostLater
	s := newSettlement(t, pageApplications)
	tx, err := s.DB.Pool().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, insertIssued(t.Context(), tx, s.run, s.coupon, 500, line, seatRows(line)))
	rows, err := tx.Query("SELECT user_id, position, applied_at FROM user_coupon ORDER BY position")
	require.NoError(t, err)
	defer rows.Close()
	for i, a := range line {
		require.True(t, rows.Next())
		var user uint64
		var position int
		var appliedAt time.Time
		require.NoError(t, rows.Scan(&user, &position, &appliedAt))
		require.Equal(t, a.User(), user)
		require.Equal(t, 500+i+1, position)
		require.Equal(t, a.Arrival, appliedAt.UnixMicro())
	}
	require.False(t, rows.Next())
}
