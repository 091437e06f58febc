package journal_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// Somebody wrote rows of coupons that never existed, and a pod one of a coupon whose journal was deleted.
func TestClear_FindsRowsWithoutAJournal(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	open, final := d.AddQueue(2, 1), d.AddQueue(2, 2)
	d.Journal(open)
	d.Exec("UPDATE coupon SET finalised_at = NOW(6) - INTERVAL 1 DAY WHERE id = ?", final)
	d.Exec("DELETE FROM journal WHERE coupon_id = ?", final)
	for id := uint64(0); id < 5; id++ {
		d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 1, 1), (?, 2, 2)", math.MaxUint64-id,
			math.MaxUint64-id)
	}
	d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 1, 1), (0, 1, 1)", final)
	require.NoError(t, journalOf(d).Clear(t.Context()))
	require.Equal(t, []uint64{uint64(open)}, d.IDs("SELECT coupon_id FROM line_journal"))
	require.Equal(t, []uint64{uint64(open)}, d.IDs("SELECT coupon_id FROM journal"))
}
