package settle

import (
	"sync/atomic"
	"testing"

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
	tx, err := s.DB.pool.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	nobodys := s.coupon
	nobodys.ID = 99
	require.NoError(t, insertIssued(t.Context(), tx, s.run, nobodys, 0, 3, seatRows(threeInLine)), "it is not checked here")
	var checked bool
	require.NoError(t, tx.QueryRow("SELECT @@foreign_key_checks").Scan(&checked))
	require.True(t, checked)
	_, err = tx.Exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (98, 1)")
	require.ErrorContains(t, err, "1452")
}
