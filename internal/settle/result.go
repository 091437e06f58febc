package settle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Counts are applications by result.
type Counts struct {
	Read          int `json:"read"`          // in the line before the cutoff
	Issued        int `json:"issued"`        // got a seat
	UnderReview   int `json:"underReview"`   // were moved to the DLQ
	Rejected      int `json:"rejected"`      // ended for good
	AlreadyIssued int `json:"alreadyIssued"` // held the coupon before
	NotSelected   int `json:"notSelected"`   // found no seat
}

// Plus adds up counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.Read + d.Read, c.Issued + d.Issued, c.UnderReview + d.UnderReview, c.Rejected + d.Rejected,
		c.AlreadyIssued + d.AlreadyIssued, c.NotSelected + d.NotSelected}
}

func (c Counts) changed() bool {
	return c.Issued+c.UnderReview+c.Rejected+c.AlreadyIssued+c.NotSelected > 0
}

// causes count the applications that were moved to the DLQ.
type causes map[coupon.Cause]int

// tally is Counts with causes.
type tally struct {
	Counts
	causes causes
}

func (t tally) plus(u tally) tally {
	both := make(causes, len(t.causes)+len(u.causes))
	for _, some := range []causes{t.causes, u.causes} {
		for cause, n := range some {
			both[cause] += n
		}
	}
	return tally{t.Counts.Plus(u.Counts), both}
}

// reviewed counts failures that were moved to the DLQ.
func reviewed(failures []coupon.Failure) tally {
	t := tally{Counts: Counts{UnderReview: len(failures)}, causes: causes{}}
	for _, f := range failures {
		t.causes[f.Cause]++
	}
	return t
}

// Result is the result of one coupon. Arrivals are µs since 1970.
type Result struct {
	Coupon coupon.CouponID     `json:"coupon"`
	Name   string              `json:"name"`
	Status coupon.ResultStatus `json:"status"`
	Counts
	SeatsLeft     int            `json:"seatsLeft"`
	Gap           int64          `json:"gap"` // accepted applications that cannot be found
	FirstArrival  coupon.Arrival `json:"firstArrival,omitempty"`
	LastArrival   coupon.Arrival `json:"lastArrival,omitempty"`
	WinnersDigest string         `json:"winnersDigest,omitempty"` // sha256:… over the issued user ids, a line each, in order
	Millis        int64          `json:"durationMs"`
	Error         string         `json:"error,omitempty"`

	Earlier *history.Settled `json:"settledBefore,omitempty"` // of an unchanged coupon: the last run that settled anything

	Preview *Preview `json:"preview,omitempty"` // of a preview alone

	Causes map[coupon.Cause]int `json:"-"` // of UnderReview
	err    error
	class  coupon.Class // of the error
	advice text.Message
}

// tally adds up the phases. The counts of a complete record replace the sum.
func (d settled) tally() tally {
	all := d.issued.seated.tally.plus(d.aside).plus(d.cleaned).plus(d.closed)
	if d.finished != nil {
		all.Counts = d.finished.counts
	}
	return all
}

func (d settled) result(c coupon.Coupon, err error, took time.Duration) Result {
	all, w := d.tally(), d.issued.seated.winners
	r := Result{Coupon: c.ID, Name: c.Name, Counts: all.Counts, Causes: all.causes, SeatsLeft: c.Free(), Gap: d.issued.account.Gap(),
		Millis: took.Milliseconds(), Preview: d.preview}
	if w.count > 0 {
		r.FirstArrival, r.LastArrival, r.WinnersDigest = w.first, w.last, w.digest
	}
	switch {
	case d.finished != nil:
		r.SeatsLeft = d.finished.seatsLeft
	case d.issued.coupon.ID != 0:
		r.SeatsLeft = d.issued.seatsLeft
	}
	switch {
	case err == nil && d.notDue:
		r.Status = coupon.NotDue
	case err == nil && (all.changed() || d.issued.changed()):
		r.Status = coupon.Settled
	case err == nil:
		r.Status = coupon.Unchanged
	default:
		r.fail(err)
	}
	return r
}

func (r *Result) fail(err error) {
	r.Status, r.class, r.advice = coupon.Failed, mysqltx.ClassOf(err), mysqltx.Advice(err)
	if r.class == coupon.Invariant {
		r.Status = coupon.HeldBack
	}
	if mysqltx.IsLockWait(err) && !errors.As(err, new(*mysqltx.CommitUnknown)) {
		r.Status, err = coupon.Busy, text.RetryableErrorf(text.CouponBusy)
	}
	r.err, r.Error = err, err.Error()
}

// Err is the error whose text is Error.
func (r *Result) Err() error { return r.err }

// Report is the result of a run.
type Report struct {
	DryRun  bool             `json:"dryRun,omitempty"` // a preview
	Run     coupon.RunID     `json:"run"`
	Trigger coupon.Trigger   `json:"trigger"`
	Cutoff  time.Time        `json:"cutoff,omitzero"` // zero: nothing was to be done
	Status  coupon.RunStatus `json:"status"`
	Coupons []Result         `json:"coupons"`
	Total   Total            `json:"total"`
}

// Total sums up the coupons of a run.
type Total struct {
	Coupons int `json:"coupons"`
	Counts
	Failed int   `json:"failed"` // failed, busy or held
	Millis int64 `json:"durationMs"`
}

func newReport(r run) *Report {
	return &Report{DryRun: r.dryRun, Run: r.id, Trigger: r.Trigger, Cutoff: r.cutoff, Coupons: []Result{}}
}

func (r *Report) add(c Result) {
	r.Coupons = append(r.Coupons, c)
	r.Total.Coupons++
	r.Total.Counts = r.Total.Counts.Plus(c.Counts)
	if c.Error != "" {
		r.Total.Failed++
	}
}

func (r *Report) end(err error, took time.Duration) {
	r.Total.Millis = took.Milliseconds()
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
		case coupon.Settled, coupon.Unchanged, coupon.NotDue:
		}
	}
}

// Classes are the classes of the coupons that failed, for the exit code.
func (r *Report) Classes() (classes []coupon.Class) {
	for _, c := range r.Coupons {
		if c.Error != "" {
			classes = append(classes, c.class)
		}
	}
	return classes
}

// Advice is the advice about the coupons that failed, without repetitions.
func (r *Report) Advice() (advice []text.Message) {
	for _, c := range r.Coupons {
		if c.advice != (text.Message{}) && !slices.Contains(advice, c.advice) {
			advice = append(advice, c.advice)
		}
	}
	return advice
}

// Err joins the failures of coupons that another run may settle. A held coupon or a wrong setup is not among them.
func (r *Report) Err() error {
	var failures []error
	for _, c := range r.Coupons {
		if c.Error != "" && c.class == coupon.Infrastructure {
			failures = append(failures, fmt.Errorf("coupon %d: %s", c.Coupon, c.Error))
		}
	}
	if failures == nil {
		return nil
	}
	return &coupon.Error{Class: coupon.Infrastructure, Err: errors.Join(failures...)}
}

func setupError(m text.Message, args ...any) error {
	return &coupon.Error{Class: coupon.Setup, Err: text.Errorf(m, args...)}
}

func invariant(err error) error { return &coupon.Error{Class: coupon.Invariant, Err: err} }
