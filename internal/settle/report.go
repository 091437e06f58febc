package settle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/ledger"
)

// Status is how one coupon came out of a run.
type Status string

const (
	Settled   Status = "SETTLED"   // something was decided
	Unchanged Status = "UNCHANGED" // nothing was left to do
	NotDue    Status = "NOT_DUE"   // it opens after the cutoff
	HeldBack  Status = "HELD"      // promises are missing: a person must look
	Busy      Status = "BUSY"      // somebody else holds it: run again
	Failed    Status = "FAILED"
)

// Result is what a run did to one coupon. Arrivals are µs since 1970.
type Result struct {
	Coupon        uint64 `json:"coupon"`
	Name          string `json:"name"`
	Status        Status `json:"status"`
	Read          int    `json:"read"`          // stood in line before the cutoff
	Issued        int    `json:"issued"`        // got a seat
	Rejected      int    `json:"rejected"`      // went to the DLQ
	AlreadyIssued int    `json:"alreadyIssued"` // held the coupon before
	NotSelected   int    `json:"notSelected"`   // found no seat
	SeatsLeft     int    `json:"seatsLeft"`
	Gap           int64  `json:"gap"` // promises that cannot be accounted for
	FirstArrival  int64  `json:"firstArrival,omitempty"`
	LastArrival   int64  `json:"lastArrival,omitempty"`
	WinnersDigest string `json:"winnersDigest,omitempty"` // sha256:… over the issued user ids, a line each, in order
	Millis        int64  `json:"durationMs"`
	Error         string `json:"error,omitempty"`

	Earlier *ledger.Settled `json:"settledBefore,omitempty"` // the last run before that settled what is unchanged, for a person

	Preview *Preview `json:"preview,omitempty"` // who would be issued and rejected, of a preview alone

	rejectedBy  map[Cause]int
	err         error
	class       Class // of the error
	advice      string
	interrupted bool // the run was told to stop before this coupon was done
}

// reset forgets an attempt that was rolled back.
func (r *Result) reset() {
	*r = Result{Coupon: r.Coupon, Name: r.Name, SeatsLeft: r.SeatsLeft, Preview: r.Preview.again()}
}

func (r *Result) changed() bool {
	return r.Issued+r.Rejected+r.AlreadyIssued+r.NotSelected > 0
}

func (r *Result) conclude(err error, took time.Duration) {
	r.Millis = took.Milliseconds()
	switch {
	case err == nil && r.Status == NotDue:
	case err == nil && r.changed():
		r.Status = Settled
	case err == nil:
		r.Status = Unchanged
	default:
		r.Status, r.class, r.advice = Failed, ErrorClass(err), Advice(err)
		if r.class == Invariant {
			r.Status = HeldBack
		}
		if unknown := new(CommitUnknown); isLockWait(err) && !errors.As(err, &unknown) {
			r.Status, err = Busy, errBusy
		}
		r.err, r.Error = err, err.Error()
	}
}

// Err is the error whose text is Error.
func (r *Result) Err() error { return r.err }

func isLockWait(err error) bool {
	var numbered *mysql.MySQLError
	return errors.As(err, &numbered) && (numbered.Number == 1205 || numbered.Number == 3572 || numbered.Number == 1467)
}

// RunStatus is how a run ended, as settlement_run has it.
type RunStatus string

const (
	RunRunning   RunStatus = "RUNNING"
	RunSucceeded RunStatus = "SUCCEEDED"
	RunHeld      RunStatus = "HELD"   // at least one coupon was held, none failed
	RunFailed    RunStatus = "FAILED" // at least one coupon failed, or the run was stopped
)

// Report is what became of a run.
type Report struct {
	DryRun  bool      `json:"dryRun,omitempty"` // a preview: nothing was done
	Run     uint64    `json:"run"`
	Trigger Trigger   `json:"trigger"`
	Cutoff  time.Time `json:"cutoff"`
	Status  RunStatus `json:"status"`
	Coupons []Result  `json:"coupons"`
	Total   Total     `json:"total"`
}

// Total sums up the coupons of a run.
type Total struct {
	Coupons       int   `json:"coupons"`
	Read          int   `json:"read"`
	Issued        int   `json:"issued"`
	Rejected      int   `json:"rejected"`
	AlreadyIssued int   `json:"alreadyIssued"`
	NotSelected   int   `json:"notSelected"`
	Failed        int   `json:"failed"` // failed, busy or held
	Millis        int64 `json:"durationMs"`

	startedAt time.Time
}

func newReport(r run) *Report {
	return &Report{DryRun: r.dryRun, Run: r.id, Trigger: r.Trigger, Cutoff: r.cutoff, Coupons: []Result{}, Total: Total{startedAt: r.startedAt}}
}

func (r *Report) add(c Result) {
	r.Coupons = append(r.Coupons, c)
	r.Total.count(c)
}

func (t *Total) count(c Result) {
	t.Coupons++
	t.Read += c.Read
	t.Issued += c.Issued
	t.Rejected += c.Rejected
	t.AlreadyIssued += c.AlreadyIssued
	t.NotSelected += c.NotSelected
	if c.Error != "" {
		t.Failed++
	}
}

func (r *Report) end(err error, at time.Time) {
	r.Total.Millis = at.Sub(r.Total.startedAt).Milliseconds()
	r.Status = RunSucceeded
	if err != nil {
		r.Status = RunFailed
	}
	for _, c := range r.Coupons {
		switch c.Status {
		case HeldBack:
			if r.Status == RunSucceeded {
				r.Status = RunHeld
			}
		case Failed, Busy:
			r.Status = RunFailed
		}
	}
}

// Classes are the kinds of failure among the coupons, for the exit code.
func (r *Report) Classes() (classes []Class) {
	for _, c := range r.Coupons {
		if c.Error != "" {
			classes = append(classes, c.class)
		}
	}
	return classes
}

// Advice says what to do about the failures among the coupons, each thing once.
func (r *Report) Advice() (advice []string) {
	for _, c := range r.Coupons {
		if c.advice != "" && !slices.Contains(advice, c.advice) {
			advice = append(advice, c.advice)
		}
	}
	return advice
}

// CouponsFailed are coupons of a run that running again may settle.
type CouponsFailed struct{ failures []error }

func (e *CouponsFailed) Error() string { return errors.Join(e.failures...).Error() }

// Err is a *CouponsFailed when running again may settle what this run did not; held coupons and wrong setups are not
// among that.
func (r *Report) Err() error {
	var e CouponsFailed
	for _, c := range r.Coupons {
		if c.Error != "" && c.class == Infrastructure {
			e.failures = append(e.failures, fmt.Errorf("coupon %d: %s", c.Coupon, c.Error))
		}
	}
	if e.failures == nil {
		return nil
	}
	return &e
}
