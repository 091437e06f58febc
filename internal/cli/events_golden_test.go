package cli

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/wallet"
)

func TestGoldenEventsVerify(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "events_verify", func(w *world) {
		w.published(1, 2)
		w.Exec("UPDATE coupon SET discount_won = 3000")
		require.Equal(w.T, wallet.Done, w.checkout(1, 1, "A-1", wallet.Reserve, wallet.Confirm))
		w.serveEvents("everything is published", func() bool {
			return w.Number("SELECT COUNT(*) FROM coupon_log WHERE published_at IS NULL") == 0
		})
	}, func(s *spoken) {
		verify := []string{"events", "verify", "--event-sink=redis", "--from=2020-01-01 00:00"}
		s.says("events", "verify", "--from=yesterday")
		s.says(append(verify, "--to=2019-01-01 00:00")...)
		s.says(verify...)
		s.Exec("DELETE FROM coupon_log WHERE seq = 2")
		s.Exec("DELETE FROM user_coupon WHERE user_id = 2")
		require.NoError(s.T, s.Redis.XAdd(s.T.Context(),
			&redis.XAddArgs{Stream: s.stream(), Values: []any{"event", "{}"}}).Err())
		s.says(verify...)
		s.says(append(verify, "--output=json")...)
		s.saysOnTerminal(nil, verify...)
		require.NoError(s.T, s.Redis.Del(s.T.Context(), s.stream()).Err())
		s.says(verify...)
	})
}
