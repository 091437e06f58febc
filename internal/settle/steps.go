package settle

import (
	"time"

	"go.uber.org/zap"
)

// Step is a step of a settlement. It is logged at debug level, and Config.Hook is called, as the step begins.
type Step string

// The steps, in order. Issue and close_out repeat for each page.
const (
	StepFence    Step = "fence"
	StepLock     Step = "lock"
	StepAccount  Step = "account"
	StepIssue    Step = "issue"
	StepCount    Step = "count"
	StepRecord   Step = "record"
	StepCommit   Step = "commit"
	StepCleanUp  Step = "clean_up"
	StepCloseOut Step = "close_out"
	StepFinish   Step = "finish"
	StepSweep    Step = "sweep"
)

// Steps are all of them, in order.
var Steps = []Step{StepFence, StepLock, StepAccount, StepIssue, StepCount, StepRecord, StepCommit, StepCleanUp, StepCloseOut, StepFinish, StepSweep}

// progressEvery is the interval at which the log says how far the close-out of a long line has come.
const progressEvery = 10 * time.Second

// stepTimer measures how long a settlement is at each step. One goroutine uses it.
type stepTimer struct {
	observer Observer
	now      func() time.Time
	step     Step // empty: none
	since    time.Time
}

// begin ends the step before, and begins another unless it is empty.
func (t *stepTimer) begin(step Step) {
	now := t.now()
	if t.step != "" {
		t.observer.Spend(t.step, now.Sub(t.since))
	}
	t.step, t.since = step, now
}

func (s *settlement) begin(step Step) {
	s.logger.Debug("step", zap.String("step", string(step)))
	if s.Hook != nil {
		s.Hook(s.coupon.ID, step)
	}
	s.steps.begin(step)
}
