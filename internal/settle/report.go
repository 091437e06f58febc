package settle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Result is what a run did to one coupon. Arrivals are µs since 1970.
type Result struct {
	Coupon        coupon.CouponID     `json:"coupon"`
	Name          string              `json:"name"`
	Status        coupon.ResultStatus `json:"status"`
	Read          int                 `json:"read"`          // stood in line before the cutoff
	Issued        int                 `json:"issued"`        // got a seat
	Rejected      int                 `json:"rejected"`      // went to the DLQ
	AlreadyIssued int                 `json:"alreadyIssued"` // held the coupon before
	NotSelected   int                 `json:"notSelected"`   // found no seat
	SeatsLeft     int                 `json:"seatsLeft"`
	Gap           int64               `json:"gap"` // promises that cannot be accounted for
	FirstArrival  coupon.Arrival      `json:"firstArrival,omitempty"`
	LastArrival   coupon.Arrival      `json:"lastArrival,omitempty"`
	WinnersDigest string              `json:"winnersDigest,omitempty"` // sha256:… over the issued user ids, a line each, in order
	Millis        int64               `json:"durationMs"`
	Error         string              `json:"error,omitempty"`

	Earlier *history.Settled `json:"settledBefore,omitempty"` // the last run before that settled what is unchanged, for a person

	Preview *Preview `json:"preview,omitempty"` // who would be issued and rejected, of a preview alone

	rejectedBy  map[coupon.Cause]int
	err         error
	class       coupon.Class // of the error
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
	case err == nil && r.Status == coupon.NotDue:
	case err == nil && r.changed():
		r.Status = coupon.Settled
	case err == nil:
		r.Status = coupon.Unchanged
	default:
		r.Status, r.class, r.advice = coupon.Failed, mysqltx.ClassOf(err), Advice(err)
		if r.class == coupon.Invariant {
			r.Status = coupon.HeldBack
		}
		if unknown := new(mysqltx.CommitUnknown); mysqltx.IsLockWait(err) && !errors.As(err, &unknown) {
			r.Status, err = coupon.Busy, errBusy
		}
		r.err, r.Error = err, err.Error()
	}
}

// Err is the error whose text is Error.
func (r *Result) Err() error { return r.err }

// Report is what became of a run.
type Report struct {
	DryRun  bool             `json:"dryRun,omitempty"` // a preview: nothing was done
	Run     coupon.RunID     `json:"run"`
	Trigger coupon.Trigger   `json:"trigger"`
	Cutoff  time.Time        `json:"cutoff"`
	Status  coupon.RunStatus `json:"status"`
	Coupons []Result         `json:"coupons"`
	Total   Total            `json:"total"`
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
	r.Status = coupon.RunSucceeded
	if err != nil {
		r.Status = coupon.RunFailed
	}
	for _, c := range r.Coupons {
		switch c.Status {
		case coupon.HeldBack:
			if r.Status == coupon.RunSucceeded {
				r.Status = coupon.RunHeld
			}
		case coupon.Failed, coupon.Busy:
			r.Status = coupon.RunFailed
		default:
		}
	}
}

// Classes are the kinds of failure among the coupons, for the exit code.
func (r *Report) Classes() (classes []coupon.Class) {
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

// Infrastructure tells that running again may help.
func (e *CouponsFailed) Infrastructure() bool { return true }

// Err is a *CouponsFailed when running again may settle what this run did not; held coupons and wrong setups are not
// among that.
func (r *Report) Err() error {
	var e CouponsFailed
	for _, c := range r.Coupons {
		if c.Error != "" && c.class == coupon.Infrastructure {
			e.failures = append(e.failures, fmt.Errorf("coupon %d: %s", c.Coupon, c.Error))
		}
	}
	if e.failures == nil {
		return nil
	}
	return &e
}
