package issue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/connect"
)

const (
	issueTask = "coupon:issue"
	// taskConcurrency is the pool of the product's programs. More tasks would wait for a connection.
	taskConcurrency = 32
	taskRetries     = 1000
	taskAgain       = time.Second            // pause after an error; the default is 15 s and grows
	taskCheck       = 100 * time.Millisecond // the interval of Jajeong; the default is 1 s
	taskTimeout     = 30 * time.Second
)

// issueOne is the payload of a task.
type issueOne struct {
	Coupon, User int
	Number       uint64
	At           time.Time
}

// openTasks numbers the presses by the same gate as the stream, and enqueues a task for each.
func openTasks(ctx context.Context, v *stand) (press, error) {
	if err := gate.Load(ctx, v.RDB).Err(); err != nil {
		return nil, err
	}
	client := asynq.NewClientFromRedisClient(v.RDB)
	return func(ctx context.Context, coupon, user int) (answer, uint64, error) {
		a, number, err := pass(ctx, v.Servers.Redis, gateKeys(coupon), user, v.seats, coupon)
		if a != accepted || err != nil {
			return a, 0, err
		}
		payload, err := json.Marshal(issueOne{coupon, user, number, time.Now().UTC()})
		if err != nil {
			return failed, 0, err
		}
		_, err = client.EnqueueContext(ctx, asynq.NewTask(issueTask, payload),
			asynq.TaskID(fmt.Sprintf("%d:%d", coupon, user)), asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout))
		if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return failed, 0, err
		}
		return accepted, number, nil
	}, nil
}

// handleTasks inserts one row for each task. The unique key ignores repetitions.
func handleTasks(ctx context.Context, s *connect.Servers, w stage.Wiring) error {
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis}) // of the product's clients, asynq takes none of a Cluster
	defer rdb.Close()
	server := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: taskConcurrency, LogLevel: asynq.FatalLevel, TaskCheckInterval: taskCheck,
		DelayedTaskCheckInterval: taskAgain,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return taskAgain },
	})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var one issueOne
		if err := json.Unmarshal(t.Payload(), &one); err != nil {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		_, err := s.MySQL.ExecContext(ctx, insertOnceSQL+"(?, ?, ?, ?, ?)"+keepSQL,
			one.Coupon, one.User, one.Number, one.At, time.Now().UTC().AddDate(0, 0, validDays))
		return err
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}
