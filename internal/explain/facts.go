package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
)

// Facts are the facts about one user and one coupon. Times are UTC, durations and arrivals µs.
type Facts struct {
	Subject
	Failures
	CouponSide
	User
	UserCoupon     *UserCoupon   `json:"held,omitempty"`
	MarkedIssued   bool          `json:"markedIssued"` // in Redis
	MarkedRejected bool          `json:"markedRejected"`
	Applications   []Application `json:"applications"` // by arrival
	Missed         *Missed       `json:"missed,omitempty"`
	Runs           []RunFacts    `json:"runs"`
}

// Subject is the user and the coupon that the facts are about.
type Subject struct {
	CouponID coupon.CouponID `json:"couponId"`
	UserID   coupon.UserID   `json:"userId"`
	At       time.Time       `json:"at"` // by the Redis clock; by that of this machine when Redis is away
}

// Failures are the reasons for missing facts; empty without a failure.
type Failures struct {
	NoMySQL   string `json:"noMysql,omitempty"`
	NoRedis   string `json:"noRedis,omitempty"`
	NoAccount string `json:"noAccount,omitempty"`
}

// CouponSide is the coupon, and its account.
type CouponSide struct {
	Coupon    *CouponFacts     `json:"coupon,omitempty"`  // nil without MySQL
	Account   *ledger.Account  `json:"account,omitempty"` // nil without MySQL or Redis, or while the coupon's row is locked
	Gap       int64            `json:"gap"`
	Published *PublishedWindow `json:"door,omitempty"` // nil without Redis
}

type User struct {
	UserKnown  bool   `json:"userKnown"`  // the user exists; false also when not looked up
	UserActive bool   `json:"userActive"` // the user exists and can receive coupons
	UserStatus string `json:"userStatus"` // as in the shop's table; empty: no such user, not looked up, or no such column
}

// CouponFacts are the coupon in MySQL.
type CouponFacts struct {
	Name   string `json:"name"`
	Seats  int64  `json:"seats"`
	Issued int64  `json:"issued"`
	ByHand int64  `json:"byHand"` // of Issued
	CouponWindow
	Promised   int64          `json:"promised"` // applications ever accepted, as far as MySQL knows
	WrittenOff int64          `json:"writtenOff"`
	LastSeated coupon.Arrival `json:"lastSeated,omitempty"` // the last arrival that a run issued a seat to
}

// CouponWindow is the window in MySQL.
type CouponWindow struct {
	OpensAt     time.Time  `json:"opensAt"`
	ClosesAt    time.Time  `json:"closesAt"`
	Paused      bool       `json:"paused"`
	FinalisedAt *time.Time `json:"finalisedAt,omitempty"`
}

// Free is the number of free seats.
func (c *CouponFacts) Free() int64 { return max(0, c.Seats-c.Issued) }

// PublishedWindow are the coupon in Redis.
type PublishedWindow struct {
	Known    bool       `json:"known"` // false: swept, lost, or never published
	OpensAt  *time.Time `json:"opensAt,omitempty"`
	ClosesAt *time.Time `json:"closesAt,omitempty"`
	Paused   bool       `json:"paused"`
	Sold     bool       `json:"sold"`
	Waiting  int64      `json:"waiting"`
}

// UserCoupon is the user's coupon: a row of user_coupon.
type UserCoupon struct {
	Seat      int64        `json:"seat"` // from 1; 0: given by hand without a seat
	AppliedAt *time.Time   `json:"appliedAt,omitempty"`
	IssuedAt  time.Time    `json:"issuedAt"`
	ExpiresAt *time.Time   `json:"expiresAt,omitempty"`
	Run       coupon.RunID `json:"run,omitempty"` // 0: given by hand
	Status    string       `json:"status"`        // ISSUED, USED, EXPIRED, REVOKED
}

// Place is where Redis stores an application.
type Place string

const (
	InQueue     Place = "QUEUE"
	InRetryable Place = "DLQ_RETRYABLE" // every run tries it again
	InHeld      Place = "DLQ_HELD"      // until an operator decides
)

var places = map[coupon.Source]Place{coupon.SourceQueue: InQueue, coupon.SourceRetryable: InRetryable, coupon.SourceHeld: InHeld}

// Application is one application of the user. It has both a place and an outcome while the clean-up is pending.
type Application struct {
	Arrival   coupon.Arrival     `json:"arrival"`
	AppliedAt time.Time          `json:"appliedAt"`
	Place     Place              `json:"stands,omitempty"`    // empty: Redis does not have it
	Position  int64              `json:"position,omitempty"`  // in the queue
	SettlesAt *time.Time         `json:"settlesAt,omitempty"` // with a place: the first cutoff that has not tried it
	Review    *candidates.Reason `json:"review,omitempty"`    // in the DLQ, when its reason can be read
	Order     int64              `json:"order,omitempty"`     // from 1, among all applications by arrival; 0: not certain
	Decision
}

// Decision is the recorded outcome of an application.
type Decision struct {
	Outcome    coupon.Outcome `json:"outcome,omitempty"` // empty: undecided
	Reason     string         `json:"reason,omitempty"`
	Run        coupon.RunID   `json:"run,omitempty"`
	RecordedAt *time.Time     `json:"recordedAt,omitempty"`
	Dropped    bool           `json:"dropped,omitempty"` // rejected by an operator
}

// Missed is the distance of the last NOT_SELECTED application from a seat.
type Missed struct {
	Arrival coupon.Arrival `json:"arrival"`
	Rank    int64          `json:"rank"`   // from 1, among NOT_SELECTED: this many more seats would have reached it
	Micros  int64          `json:"micros"` // after the last arrival that got a seat; 0: not certain
}

// RunFacts are one run and its record of the coupon.
type RunFacts struct {
	RunIdentity
	RunRecord
}

// RunIdentity is a row of settlement_run.
type RunIdentity struct {
	ID          coupon.RunID     `json:"id"`
	Trigger     coupon.Trigger   `json:"trigger"`
	Operator    string           `json:"operator,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	Cutoff      time.Time        `json:"cutoff"`
	StartedAt   time.Time        `json:"startedAt"`
	HeartbeatAt time.Time        `json:"heartbeatAt"`
	FinishedAt  *time.Time       `json:"finishedAt,omitempty"`
	Status      coupon.RunStatus `json:"status"` // ABANDONED when it is RUNNING and silent, by the database clock
}

// RunRecord is the run's row of table settlement for the coupon.
type RunRecord struct {
	Settled     bool           `json:"settled"` // the row exists; without it the run did not change the coupon
	Read        int64          `json:"read"`
	Issued      int64          `json:"issued"`
	NotSelected int64          `json:"notSelected"`
	LastArrival coupon.Arrival `json:"lastArrival,omitempty"` // the last with a seat from this run
	Cleaned     bool           `json:"cleaned"`               // the clean-up in Redis is done
}

func (f *Facts) addRedis(found candidates.UserLookup, settlesAt func(time.Time) time.Time) {
	f.At, f.MarkedIssued, f.MarkedRejected = found.Now, found.MarkedIssued, found.MarkedRejected
	f.Published = &PublishedWindow{Known: found.Window.Known, Sold: found.Window.Sold, Waiting: found.Waiting}
	if found.Window.Known {
		f.Published.OpensAt, f.Published.ClosesAt, f.Published.Paused = &found.Window.Opens, &found.Window.Closes, found.Window.Paused
	}
	for _, entry := range found.Entries {
		a := f.application(entry.Arrival)
		if a.Place != "" {
			continue // the queue comes first
		}
		a.Place = places[entry.Source]
		next := a.AppliedAt
		if entry.Source == coupon.SourceQueue {
			a.Position = found.Position
		} else {
			a.Review = found.Reason
		}
		if entry.Source == coupon.SourceRetryable && found.Reason.Night.After(next) {
			next = found.Reason.Night
		}
		a.SettlesAt = new(settlesAt(next).UTC())
	}
}

// window is the window in Redis, which decides about applications; that in MySQL when Redis does not have the coupon.
func (f *Facts) window() (opens, closes time.Time, paused bool) {
	if f.Published != nil && f.Published.Known {
		return *f.Published.OpensAt, *f.Published.ClosesAt, f.Published.Paused
	}
	return f.Coupon.OpensAt, f.Coupon.ClosesAt, f.Coupon.Paused
}

// application finds or adds the user's application with that arrival.
func (f *Facts) application(arrival coupon.Arrival) *Application {
	at, found := slices.BinarySearchFunc(f.Applications, arrival, func(a Application, arrival coupon.Arrival) int {
		return cmp.Compare(a.Arrival, arrival)
	})
	if !found {
		f.Applications = slices.Insert(f.Applications, at, Application{Arrival: arrival, AppliedAt: arrival.Time()})
	}
	return &f.Applications[at]
}

// undecided returns the first application without an outcome in the queue, and the first in the DLQ.
func (f *Facts) undecided() (queued, inDLQ *Application) {
	for i := range f.Applications {
		a := &f.Applications[i]
		switch {
		case a.Place == "" || a.Outcome != "":
		case a.Place == InQueue && queued == nil:
			queued = a
		case a.Place != InQueue && inDLQ == nil:
			inDLQ = a
		}
	}
	return queued, inDLQ
}

// latest is the last application with an outcome. Every other outcome is preferred to ALREADY_ISSUED.
func (f *Facts) latest() (found *Application) {
	for i := range f.Applications {
		a := &f.Applications[i]
		if a.Outcome != "" && (a.Outcome != coupon.OutcomeAlreadyIssued || found == nil || found.Outcome == coupon.OutcomeAlreadyIssued) {
			found = a
		}
	}
	return found
}

// dropUncertainOrder removes Order unless every promise is found exactly once.
func (f *Facts) dropUncertainOrder() {
	if a := f.Account; a != nil && f.Gap == 0 && a.WrittenOff == 0 && a.Twice == 0 {
		return
	}
	for i := range f.Applications {
		f.Applications[i].Order = 0
	}
}
