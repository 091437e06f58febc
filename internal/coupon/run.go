package coupon

import (
	"fmt"
	"slices"
)

// Outcome is what became of an application: ISSUED is a row of user_coupon, the others are in application_outcome.
type Outcome string

const (
	OutcomeIssued        Outcome = "ISSUED"
	OutcomeNotSelected   Outcome = "NOT_SELECTED" // no seat was free
	OutcomeRejected      Outcome = "REJECTED"     // final: the user does not get the coupon
	OutcomeAlreadyIssued Outcome = "ALREADY_ISSUED"
)

func (o *Outcome) Scan(value any) error {
	return scan(o, value, OutcomeIssued, OutcomeNotSelected, OutcomeRejected, OutcomeAlreadyIssued)
}

// Trigger is why a run was started: settlement_run.trigger_kind.
type Trigger string

const (
	Cron     Trigger = "CRON"
	Manual   Trigger = "MANUAL"
	DLQRetry Trigger = "DLQ_RETRY"

	// ImmediateRun is a run of `settle serve` over one immediate coupon.
	ImmediateRun Trigger = "IMMEDIATE"
)

func (t *Trigger) Scan(value any) error { return scan(t, value, Cron, Manual, DLQRetry, ImmediateRun) }

// RunStatus is how a run ended: settlement_run.status.
type RunStatus string

const (
	RunRunning   RunStatus = "RUNNING"
	RunSucceeded RunStatus = "SUCCEEDED"
	RunHeld      RunStatus = "HELD"      // at least one coupon was held, none failed
	RunFailed    RunStatus = "FAILED"    // at least one coupon failed, or the run was interrupted
	RunAbandoned RunStatus = "ABANDONED" // the process stopped without ending the run
)

func (s *RunStatus) Scan(value any) error {
	return scan(s, value, RunRunning, RunSucceeded, RunHeld, RunFailed, RunAbandoned)
}

// ResultStatus is what a run did to one coupon: run_coupon.status.
type ResultStatus string

const (
	Settled   ResultStatus = "SETTLED"   // at least one application was decided
	Unchanged ResultStatus = "UNCHANGED" // there was nothing to decide
	NotDue    ResultStatus = "NOT_DUE"   // the coupon opens after the cutoff
	HeldBack  ResultStatus = "HELD"      // an invariant is violated; an operator must look
	Busy      ResultStatus = "BUSY"      // another session holds the coupon's row; safe to run again
	Failed    ResultStatus = "FAILED"
	Frozen    ResultStatus = "FROZEN" // finance has frozen the coupon; nothing was done
)

var ResultStatuses = []ResultStatus{Settled, Unchanged, NotDue, HeldBack, Busy, Failed, Frozen}

func (s *ResultStatus) Scan(value any) error { return scan(s, value, ResultStatuses...) }

// Class says what an error means for whoever started the program. Each class has an exit code.
type Class uint8

const (
	Infrastructure Class = iota + 1 // a server failed or is busy: safe to run again; exit 1
	Setup                           // wrong use or wrong setup: running again does not help; exit 2
	Invariant                       // a promise is broken: an operator must look; exit 3
)

func scan[E ~string](into *E, value any, known ...E) error {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return fmt.Errorf("%T is not a %T", value, *into)
	}
	if !slices.Contains(known, E(text)) {
		return fmt.Errorf("unknown %T %q", *into, text)
	}
	*into = E(text)
	return nil
}

type Error struct {
	Class Class
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
