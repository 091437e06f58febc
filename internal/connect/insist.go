package connect

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// refusals are the answers of a Redis that has done nothing, and may do it in a moment: a slot is on its way to another
// node, a replica is about to take over, data is being loaded. The codes are part of its protocol.
var refusals = []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "LOADING"}

// How long a refused command is repeated: some fifteen seconds, as a slot full of members takes to move. It is less than a
// pod may take to end.
const (
	insistTimes = 20
	insistFirst = 50 * time.Millisecond
	insistMost  = time.Second
)

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
		err := next(ctx, cmd)
		for pause, times := insistFirst, 1; refused(err) && times < insistTimes && rest(ctx, pause) == nil; times++ {
			err = next(ctx, cmd)
			pause = min(2*pause, insistMost)
		}
		return err
	}
}

func refused(err error) bool {
	return err != nil && slices.ContainsFunc(refusals, func(code string) bool { return redis.HasErrorPrefix(err, code+" ") })
}

// rest waits for up to half as long again: many who were refused together should not come back together.
func rest(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause + rand.N(pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
