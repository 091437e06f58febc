package cli

import (
	"fmt"

	"github.com/stretchr/testify/require"
)

// badRows demands that exactly these are under review for their rows, to be tried again, with their own arrivals.
func (w *world) badRows(coupon uint64, message string, arrivals map[string]int64) {
	w.t.Helper()
	require.Equal(w.t, arrivals, w.underReview(coupon))
	for member := range arrivals {
		reason := w.reason(coupon, member)
		require.Equal(w.t, "BAD_ROW", reason.Cause)
		require.Contains(w.t, reason.Message, message)
		require.True(w.t, reason.Retryable)
		require.Equal(w.t, 1, reason.Attempts)
		require.NotZero(w.t, reason.Run)
	}
}

// arrivalsOf is where these users stand in the queue.
func (w *world) arrivalsOf(coupon uint64, users ...uint64) map[string]int64 {
	w.t.Helper()
	found := map[string]int64{}
	for _, user := range users {
		score, err := w.rdb.ZScore(w.t.Context(), w.queue(coupon), fmt.Sprint(user)).Result()
		require.NoError(w.t, err)
		found[fmt.Sprint(user)] = int64(score)
	}
	return found
}
