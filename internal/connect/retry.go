package connect

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-retry"
)

// refusals are errors of a Redis that has executed nothing and may execute the command in a moment: a slot is migrating, a
// replica is being promoted, data is being loaded. The codes are part of the protocol.
var refusals = []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "LOADING"}

// refusalBackoff repeats a refused command for some fifteen seconds, the time that the migration of a large slot takes, and
// less than the grace of a pod.
func refusalBackoff() retry.Backoff {
	const repetitions, first, maxPause = 19, 50 * time.Millisecond, time.Second
	return retry.WithMaxRetries(repetitions, retry.WithJitterPercent(25, retry.WithCappedDuration(maxPause, retry.NewExponential(first))))
}

// RetryRefused makes the client repeat commands that Redis refused without executing them. It is for settle only: apply-api
// answers immediately, and the applicant repeats the request.
func (s *Servers) RetryRefused() { s.Redis.AddHook(refusalHook{}) }

// refusalHook is a hook around every command.
type refusalHook struct{}

// DialHook implements redis.Hook.
func (refusalHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook. Only metrics use pipelines.
func (refusalHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
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

// refused reports whether Redis refused a command without executing it.
func refused(err error) bool {
	return err != nil && slices.ContainsFunc(refusals, func(code string) bool { return redis.HasErrorPrefix(err, code+" ") })
}
