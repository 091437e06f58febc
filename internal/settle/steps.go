package settle

import (
	"time"

	"go.uber.org/zap"
)

// Step is a step of a settlement. When a step begins, it is logged at debug level and Config.Hook is called.
type Step string

// The steps, in order. Issue and close_out repeat for each page.
const (
	StepFence    Step = "fence"
	StepLock     Step = "lock"
	StepAccount  Step = "account"
	StepRestore  Step = "restore"
	StepIssue    Step = "issue"
	StepCount    Step = "count"
	StepRecord   Step = "record"
	StepCommit   Step = "commit"
	StepCleanUp  Step = "clean_up"
	StepCloseOut Step = "close_out"
	StepFinish   Step = "finish"
	StepSweep    Step = "sweep"
)

var Steps = []Step{StepFence, StepLock, StepAccount, StepRestore, StepIssue, StepCount, StepRecord, StepCommit,
	StepCleanUp, StepCloseOut, StepFinish, StepSweep}

// stepTimer measures the current step of a settlement. Only one goroutine uses it.
type stepTimer struct {
	step  Step // empty: no step is being measured
	since time.Time
}

func (s *settlement) begin(step Step) {
	s.logger.Debug("step", zap.String("step", string(step)))
	if s.Hook != nil {
		s.Hook(s.coupon.ID, step)
	}
	s.endStep(step)
}

// endStep ends the current step and begins to measure next. If next is empty, nothing is measured.
func (s *settlement) endStep(next Step) {
	now := s.Now()
	if s.steps.step != "" {
		s.Observer.Spend(s.steps.step, now.Sub(s.steps.since))
	}
	*s.steps = stepTimer{next, now}
}
