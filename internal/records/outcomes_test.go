package records

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestPackOutcomes(t *testing.T) {
	t.Parallel()
	require.Equal(t, &OutcomeRows{3, 10, "[[1,3],[4,0],[9,90]]"},
		PackOutcomes([]coupon.Application{application(9, 100), application(1, 13), application(4, 10)}))
	require.Equal(t, &OutcomeRows{}, PackOutcomes(nil))
}

// MySQL refuses a cause that its column does not know.
func TestEveryCauseCanBeStored(t *testing.T) {
	t.Parallel()
	tx := begin(t, 0)
	for i, cause := range coupon.Causes {
		page := []coupon.Application{{Member: "7", Arrival: coupon.Arrival(i + 1)}}
		require.NoError(t, InsertOutcomes(t.Context(), tx, run1, 1, RejectedFor(coupon.Failure{Cause: cause}),
			PackOutcomes(page)), cause)
	}
	var stored string
	require.NoError(t, tx.QueryRow(`SELECT column_type FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = 'application_outcome'
			AND column_name = 'cause'`).Scan(&stored))
	require.Equal(t, len(coupon.Causes), strings.Count(stored, ",")+1, stored)
}

// A score written by hand may be anything from 0 on, and the user of a malformed member is 0.
func TestInsertOutcomes_StoresUsersAndArrivalsAsPacked(t *testing.T) {
	t.Parallel()
	tx := begin(t, 0)
	page := []coupon.Application{
		application(7, 1_700_000_000_123_456), application(math.MaxUint64, coupon.MaxArrival), application(1, 0),
		{Member: "x", Arrival: 1},
	}
	require.NoError(t, InsertOutcomes(t.Context(), tx, run1, 1,
		RejectedFor(coupon.Failure{Cause: coupon.CauseBadRow, Note: "why"}), PackOutcomes(page)))
	for _, a := range page {
		var found int
		require.NoError(t, tx.QueryRow(`SELECT COUNT(*) FROM application_outcome WHERE coupon_id = 1 AND user_id = ?
			AND applied_at = ?
			AND outcome = 'REJECTED' AND cause = 'BAD_ROW' AND note = 'why' AND member IS NULL AND run_id = 1
				AND recorded_at = ?`, a.User(), a.Arrival.Time(), run1.At).Scan(&found))
		require.Equal(t, 1, found, a)
	}
}
