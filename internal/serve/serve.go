// Package serve keeps the tasks of `settle serve` running, and has the task that issues immediate coupons.
//
// Any number of replicas run the same tasks. There is no leader and no lease: each task takes a row lock in MySQL and
// leaves alone what is locked.
package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/sleep"
)

// recoveredAfter is how long a task must have worked before its next failure counts as the first one.
const recoveredAfter = time.Minute

// Task is work that goes on until ctx ends. If Run returns earlier, or panics, it is called again after a pause.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
}

// Runner runs tasks side by side. A task that fails does not affect the others. Both fields are required.
type Runner struct {
	Now    func() time.Time
	Logger *zap.Logger
}

// Run returns when ctx has ended and every task has returned.
func (r Runner) Run(ctx context.Context, tasks ...Task) {
	var all sync.WaitGroup
	for _, task := range tasks {
		all.Go(func() { r.keep(ctx, task) })
	}
	all.Wait()
}

func (r Runner) keep(ctx context.Context, task Task) {
	logger := r.Logger.With(zap.String("task", task.Name))
	var pause pause
	for {
		began := r.Now()
		err := recovering(func() error { return task.Run(ctx) })
		if ctx.Err() != nil {
			if err != nil {
				logger.Info("task interrupted", zap.Error(err))
			}
			return
		}
		if err == nil {
			err = errors.New("the task ended by itself")
		}
		if r.Now().Sub(began) >= recoveredAfter {
			pause.reset()
		}
		wait := pause.next(maxPause)
		logger.Error("task failed", zap.Duration("next_try_in", wait), zap.Error(err))
		if sleep.For(ctx, wait) != nil {
			return
		}
	}
}

// recovering returns a panic of work as an error with its stack.
func recovering(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return work()
}
