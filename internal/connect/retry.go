package connect

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-retry"
)

// refusals are errors of a Redis that has executed nothing and may execute the command in a moment.
var refusals = []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "LOADING"}

// refusalBackoff takes some fifteen seconds: the migration of a large slot, and less than the grace of a pod.
func refusalBackoff() retry.Backoff {
	const repetitions, first, maxPause = 19, 50 * time.Millisecond, time.Second
	return retry.WithMaxRetries(repetitions, retry.WithJitterPercent(25, retry.WithCappedDuration(maxPause, retry.NewExponential(first))))
}

// RetryRefused repeats commands that Redis refused without executing them. It is for settle only.
func (s *Servers) RetryRefused() { s.Redis.AddHook(refusalHook{}) }

type refusalHook struct{}

func (refusalHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook passes pipelines: only metrics use them.
func (refusalHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (refusalHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		var answer error
		ended := retry.Do(ctx, refusalBackoff(), func(ctx context.Context) error {
			if answer = next(ctx, cmd); refused(answer) {
				return retry.RetryableError(answer)
			}
			return answer
		})
		if answer == nil && ended != nil {
			return ctx.Err() // ctx ended before the first call
		}
		return answer
	}
}

func refused(err error) bool {
	return err != nil && slices.ContainsFunc(refusals, func(code string) bool { return redis.HasErrorPrefix(err, code+" ") })
}
