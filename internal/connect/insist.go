package connect

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-retry"
)

// refusals are the answers of a Redis that has done nothing, and may do it in a moment: a slot is on its way to another
// node, a replica is about to take over, data is being loaded. The codes are part of its protocol.
var refusals = []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "LOADING"}

// patience is how long a refused command is repeated: some fifteen seconds, as a slot full of members takes to move. It is
// less than a pod may take to end. The pauses vary by a quarter, so that what was refused together is not repeated together.
func patience() retry.Backoff {
	const repetitions, first, longest = 19, 50 * time.Millisecond, time.Second
	return retry.WithMaxRetries(repetitions, retry.WithJitterPercent(25, retry.WithCappedDuration(longest, retry.NewExponential(first))))
}

// Insist has Redis asked again for what it has refused without doing anything. It is for a program that settles, and never
// for one that takes applications: these answer at once, and whoever applied asks again.
func (s *Servers) Insist() { s.Redis.AddHook(insisting{}) }

// insisting is a hook around every command.
type insisting struct{}

// DialHook implements redis.Hook.
func (insisting) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook. Only metrics use pipelines.
func (insisting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (insisting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		var answer error
		ended := retry.Do(ctx, patience(), func(ctx context.Context) error {
			if answer = next(ctx, cmd); refused(answer) {
				return retry.RetryableError(answer)
			}
			return answer
		})
		if answer == nil && ended != nil {
			return ctx.Err() // it had ended before the first call
		}
		return answer
	}
}

func refused(err error) bool {
	return err != nil && slices.ContainsFunc(refusals, func(code string) bool { return redis.HasErrorPrefix(err, code+" ") })
}
