package connect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// refusal is an error reply of Redis.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func refusedTimes(n int, answer error) func(call int) error {
	return func(call int) error {
		if call <= n {
			return answer
		}
		return nil
	}
}

func TestRetryRefused(t *testing.T) {
	t.Parallel()
	const moving, wrongKind = refusal("TRYAGAIN slot moves"), refusal("WRONGTYPE of key")
	for name, c := range map[string]struct {
		answer  func(call int) error
		stopAt  time.Duration // 0: never
		want    error
		calls   int
		between [2]time.Duration
	}{
		"RepeatsRefusedCommand":        {answer: refusedTimes(3, moving), calls: 4, between: [2]time.Duration{262 * time.Millisecond, 438 * time.Millisecond}},
		"GivesUpAfterTwentyCalls":      {answer: refusedTimes(100, moving), want: moving, calls: 20, between: [2]time.Duration{11 * time.Second, 20 * time.Second}},
		"ReturnsOtherErrorImmediately": {answer: refusedTimes(1, wrongKind), want: wrongKind, calls: 1},
		"ReturnsRefusalWhenStopped":    {answer: refusedTimes(100, moving), stopAt: time.Millisecond, want: moving, calls: 1, between: [2]time.Duration{time.Millisecond, time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.stopAt > 0 {
					defer time.AfterFunc(c.stopAt, stop).Stop()
				}
				calls, began := 0, time.Now()
				process := refusalHook{}.ProcessHook(func(context.Context, redis.Cmder) error { calls++; return c.answer(calls) })
				require.Equal(t, c.want, process(ctx, redis.NewStatusCmd(ctx, "ping")))
				require.Equal(t, c.calls, calls)
				took := time.Since(began)
				require.True(t, c.between[0] <= took && took <= c.between[1], "%s", took)
			})
		})
	}
}

func TestRetryRefused_CallsNothingAfterTheStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	process := refusalHook{}.ProcessHook(func(context.Context, redis.Cmder) error { panic("called") })
	require.Equal(t, context.Canceled, process(ctx, redis.NewStatusCmd(ctx, "ping")))
}
