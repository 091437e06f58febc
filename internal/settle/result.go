package settle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Counts are numbers of applications by result.
type Counts struct {
	Read          int `json:"read"`          // all of them: the sum of the others
	Issued        int `json:"issued"`        // got a seat
	UnderReview   int `json:"underReview"`   // were moved to the DLQ
	Rejected      int `json:"rejected"`      // ended for good
	AlreadyIssued int `json:"alreadyIssued"` // held the coupon before
	NotSelected   int `json:"notSelected"`   // found no seat
}

func (c Counts) Plus(d Counts) Counts {
	return Counts{c.Read + d.Read, c.Issued + d.Issued, c.UnderReview + d.UnderReview, c.Rejected + d.Rejected,
		c.AlreadyIssued + d.AlreadyIssued, c.NotSelected + d.NotSelected}
}

func (c Counts) changed() bool { return c.sum() > 0 }

func (c Counts) sum() int {
	return c.Issued + c.UnderReview + c.Rejected + c.AlreadyIssued + c.NotSelected
}

// causes counts the applications that were moved to the DLQ, by cause.
type causes map[coupon.Cause]int

// runs are the cutoffs of runs.
type runs map[coupon.RunID]time.Time

type tally struct {
	Counts
	causes causes
	before runs // the runs that had settled applications which this one took out of Redis
}

func (t tally) plus(u tally) tally {
	both := make(causes, len(t.causes)+len(u.causes))
	for _, some := range []causes{t.causes, u.causes} {
		for cause, n := range some {
			both[cause] += n
		}
	}
	before := make(runs, len(t.before)+len(u.before))
	maps.Copy(before, t.before)
	maps.Copy(before, u.before)
	return tally{t.Counts.Plus(u.Counts), both, before}
}

// reviewed returns the tally of failures that were moved to the DLQ.
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
	SeatsLeft    int            `json:"seatsLeft"`
	Gap          int64          `json:"gap"` // number of accepted applications that cannot be found
	FirstArrival coupon.Arrival `json:"firstArrival,omitempty"`
	LastArrival  coupon.Arrival `json:"lastArrival,omitempty"`
	// The issued user ids in order, one a line, as sha256:….
	WinnersDigest string `json:"winnersDigest,omitempty"`
	Millis        int64  `json:"durationMs"`
	Error         string `json:"error,omitempty"`

	Earlier *history.Settled `json:"settledBefore,omitempty"` // if unchanged: the last run that settled the coupon
	Preview *Preview         `json:"preview,omitempty"`       // nil unless this is a preview

	Causes map[coupon.Cause]int `json:"-"` // the applications in UnderReview, by cause
	err    error
	class  coupon.Class
	advice text.Message
}

// tally adds up the counts of all phases. If the settlement row is complete, its counts replace the sum.
func (d settled) tally() tally {
	all := d.issued.seated.tally.plus(d.aside).plus(d.cleaned).plus(d.closed)
	if d.finished != nil {
		all.Counts = d.finished.counts
	}
	return all
}

func (d settled) result(c coupon.Coupon, err error, took time.Duration) Result {
	all, w := d.tally(), d.issued.seated.winners
	r := Result{Coupon: c.ID, Name: c.Name, Counts: all.Counts, Causes: all.causes, SeatsLeft: c.Free(),
		Gap:    d.issued.account.Gap(),
		Millis: took.Milliseconds(), Preview: d.preview}
	r.Counts.Read = r.sum()
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
	case err == nil && d.frozen && !all.changed():
		r.Status = coupon.Frozen
	case err == nil && d.notDue:
		r.Status = coupon.NotDue
	case (err == nil || errors.Is(err, errBusy)) &&
		(all.changed() || d.issued.changed() || d.finished != nil && d.finished.recorded):
		r.Status = coupon.Settled // the next immediate run closes out what another session kept this one from
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
	if errors.Is(err, errBusy) || mysqltx.IsLockWait(err) && !errors.As(err, new(*mysqltx.CommitUnknown)) {
		r.Status, err = coupon.Busy, text.RetryableErrorf(text.CouponBusy)
	}
	r.err, r.Error = err, err.Error()
}

// recorded is the error as the history has it, for everybody: a refusal tells of requests for approval.
func (r Result) recorded() string {
	if _, refused := errors.AsType[*approval.Refusal](r.err); refused {
		return text.RunNotApproved.In(text.English)
	}
	return r.Error
}

// Err returns the error whose text is in the field Error.
func (r *Result) Err() error { return r.err }

type Report struct {
	DryRun  bool             `json:"dryRun,omitempty"` // whether this is a preview
	Run     coupon.RunID     `json:"run"`
	Trigger coupon.Trigger   `json:"trigger"`
	Cutoff  time.Time        `json:"cutoff,omitzero"` // zero: there was nothing to do
	Status  coupon.RunStatus `json:"status"`
	Coupons []Result         `json:"coupons"`
	Total   Total            `json:"total"`

	Nonce history.Nonce `json:"-"` // by which MySQL has the run, also if another run has its number after a failover
}

type Total struct {
	Coupons int `json:"coupons"` // coupons that the run was to settle: due when it began, or named by the operator
	Counts
	Unsettled int   `json:"failed"` // how many of Coupons were held, busy or failed
	Millis    int64 `json:"durationMs"`
}

func newReport(r run) *Report {
	return &Report{DryRun: r.dryRun, Run: r.id, Trigger: r.Trigger, Cutoff: r.cutoff, Coupons: []Result{},
		Total: Total{Coupons: r.coupons}, Nonce: r.nonce}
}

func (r *Report) add(c Result) {
	r.Coupons = append(r.Coupons, c)
	r.Total.Counts = r.Total.Counts.Plus(c.Counts)
	if c.Error != "" {
		r.Total.Unsettled++
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
		case coupon.Settled, coupon.Unchanged, coupon.NotDue, coupon.Frozen:
		}
	}
}

// Classes returns the error classes of the coupons that failed. The exit code depends on them.
func (r *Report) Classes() (classes []coupon.Class) {
	for _, c := range r.Coupons {
		if c.Error != "" {
			classes = append(classes, c.class)
		}
	}
	return classes
}

// Failures returns the errors of the coupons that failed.
func (r *Report) Failures() (failures []error) {
	for _, c := range r.Coupons {
		if c.err != nil {
			failures = append(failures, c.err)
		}
	}
	return failures
}

// Advice returns the remedies for the coupons that failed, each once.
func (r *Report) Advice() (advice []text.Message) {
	for _, c := range r.Coupons {
		if c.advice != (text.Message{}) && !slices.Contains(advice, c.advice) {
			advice = append(advice, c.advice)
		}
	}
	return advice
}

// Err joins the infrastructure errors, after which another run may succeed. Held coupons and setup errors are left out.
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
