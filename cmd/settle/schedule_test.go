package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestScheduleSettlesTheLastNightAtOnceAndStopsWhenTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seoul, err := time.LoadLocation("Asia/Seoul")
	require.NoError(t, err)
	midnight := settle.DefaultCutoff(w.now(), seoul)
	coupon := w.couponBetween(10, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	w.users(1)
	w.stand(coupon, "1", midnight.Add(-time.Minute))

	for n := range 2 { // started again, it settles the night again, which changes nothing
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- run(ctx, append([]string{"schedule"}, w.servers...), io.Discard, io.Discard) }()
		testenv.Eventually(t, 20*time.Second, "the night is settled", func() bool {
			return len(w.ids("SELECT id FROM settlement_run WHERE status = 'SUCCEEDED'")) == n+1
		})
		stop()
		require.Zero(t, <-ended)
	}
	require.Len(t, w.ids("SELECT id FROM settlement_run WHERE trigger_kind = 'CRON' AND cutoff = ?", midnight.UTC()), 2)
	require.Equal(t, []uint64{1}, w.issued(coupon))
	w.verify()
}
