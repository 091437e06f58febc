package events

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// Otherwise the relay would take longer with each row of coupon_log, until its rounds never end in time.
func TestMarkChanges_ReadsNoOtherRow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	var values []string
	for id := 1; id <= 1_000; id++ {
		values = append(values, fmt.Sprintf("(%d, %[1]d, 1, 'USED', 'test', UTC_TIMESTAMP(6))", id))
	}
	d.Exec("INSERT INTO coupon_log (id, user_coupon_id, seq, kind, actor, at) VALUES " + strings.Join(values, ", "))
	tx, err := d.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	reads := func() (n int) {
		rows, err := tx.Query("SHOW SESSION STATUS LIKE 'Handler_read%'")
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var name string
			var count int
			require.NoError(t, rows.Scan(&name, &count))
			n += count
		}
		require.NoError(t, rows.Err())
		return n
	}
	before := reads()
	require.NoError(t, markChanges(t.Context(), tx, []uint64{50, 51, 53}))
	require.Less(t, reads()-before, 200)
}
