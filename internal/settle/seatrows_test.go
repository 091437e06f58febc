package settle

import (
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

func TestRemembered_HoldsAllWinnersOrNone(t *testing.T) {
	t.Parallel()
	m := new(memory)
	r := m.reserve(3)
	r.reset()
	r.add(threeInLine[:1])
	r.add(threeInLine[1:])
	require.Equal(t, []Winner{{1, 1000}, {2, 2000}, {3, 3000}}, r.all)
	require.True(t, r.complete)
	r.add(threeInLine[:1])
	require.False(t, r.complete, "seats were added")
	require.Empty(t, r.all)
	r.reset()
	require.True(t, r.complete)

	other := m.reserve(maxRemembered - 2)
	other.reset()
	other.add(threeInLine)
	require.False(t, other.complete, "the room is taken")
	other.release()
	r.release()
	other = m.reserve(maxRemembered - 2)
	other.reset()
	other.add(threeInLine)
	require.Len(t, other.all, 3)
}

func TestInsertIssued_SkipsForeignKeyCheckInOneStatement(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 3, threeInLine...)
	tx, err := s.DB.Pool().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	missing := s.coupon
	missing.ID = 99
	require.NoError(t, insertIssued(t.Context(), tx, s.run, missing, 0, packSeats(threeInLine)), "it is not checked here")
	var checked bool
	require.NoError(t, tx.QueryRow("SELECT @@foreign_key_checks").Scan(&checked))
	require.True(t, checked)
	_, err = tx.Exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (98, 1)")
	require.ErrorContains(t, err, "1452")
}

// The places and arrivals of a full page come out of their packing as they went in, however far apart.
func TestInsertIssued_StoresPlaceAndArrivalAsPacked(t *testing.T) {
	t.Parallel()
	require.Less(t, pageApplications, 1<<placeBits)
	const day = 24 * 3600 * 1_000_000
	line := make([]coupon.Application, pageApplications)
	for i := range line {
		user := coupon.UserID(1 + (i*7919)%pageApplications)
		line[i] = application(user, 1_700_000_000_000_000+coupon.Arrival(i)*365*day/pageApplications, coupon.SourceQueue)
	}
	line[0].Member = "18446744073709551615"
	line[0].Arrival = line[len(line)-1].Arrival - maxLater
	s := newSettlement(t, pageApplications)
	tx, err := s.DB.Pool().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, insertIssued(t.Context(), tx, s.run, s.coupon, 500, packSeats(line)))
	rows, err := tx.Query("SELECT user_id, position, applied_at FROM user_coupon ORDER BY position")
	require.NoError(t, err)
	defer rows.Close()
	for i, a := range line {
		require.True(t, rows.Next())
		var user coupon.UserID
		var position int
		var appliedAt time.Time
		require.NoError(t, rows.Scan(&user, &position, &appliedAt))
		require.Equal(t, a.User(), user)
		require.Equal(t, 500+i+1, position)
		require.Equal(t, a.Arrival, coupon.ArrivalAt(appliedAt))
	}
	require.False(t, rows.Next())
}
