package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
)

// Facts are the facts about one user and one coupon. Times are UTC. Durations and arrivals are in µs.
type Facts struct {
	Subject
	Failures
	CouponSide
	User
	UserCoupon     *UserCoupon   `json:"held,omitempty"`
	MarkedIssued   bool          `json:"markedIssued"`   // Redis answers ALREADY_ISSUED to the user
	MarkedRejected bool          `json:"markedRejected"` // Redis answers REJECTED to the user
	Applications   []Application `json:"applications"`   // in order of arrival
	Missed         *Missed       `json:"missed,omitempty"`
	FreedSeats     []FreedSeat   `json:"freedSeats,omitempty"` // the latest first
	Runs           []RunFacts    `json:"runs"`
}

type Subject struct {
	CouponID coupon.CouponID `json:"couponId"`
	UserID   coupon.UserID   `json:"userId"`
	At       time.Time       `json:"at"` // time of reading by the Redis clock; without Redis, by the local one
}

// Failures has the reasons for missing facts. A field is empty if nothing failed.
type Failures struct {
	NoMySQL   string `json:"noMysql,omitempty"`
	NoRedis   string `json:"noRedis,omitempty"`
	NoAccount string `json:"noAccount,omitempty"`
}

type CouponSide struct {
	Coupon    *CouponFacts     `json:"coupon,omitempty"`  // nil if MySQL cannot be reached
	Account   *ledger.Account  `json:"account,omitempty"` // nil if the applications could not be counted
	Gap       int64            `json:"gap"`
	Published *PublishedWindow `json:"door,omitempty"` // nil if Redis cannot be reached
}

type User struct {
	UserKnown  bool   `json:"userKnown"`  // the user exists; false also if MySQL cannot be reached
	UserActive bool   `json:"userActive"` // the user exists and can receive coupons
	UserStatus string `json:"userStatus"` // from the shop's table; empty if unknown
}

type CouponFacts struct {
	Name   string `json:"name"`
	Seats  int64  `json:"seats"`
	Issued int64  `json:"issued"`
	ByHand int64  `json:"byHand"` // how many of Issued were given by hand
	CouponWindow
	Issuing
	Unfound    int64          `json:"unfound"` // accepted applications that no restore has found
	WrittenOff int64          `json:"writtenOff"`
	LastSeated coupon.Arrival `json:"lastSeated,omitempty"` // last arrival that got a seat from a run
}

type CouponWindow struct {
	OpensAt     time.Time  `json:"opensAt"`
	ClosesAt    time.Time  `json:"closesAt"`
	Paused      bool       `json:"paused"`
	FinalisedAt *time.Time `json:"finalisedAt,omitempty"`
}

// Issuing says when the coupon is issued, and whether it is.
type Issuing struct {
	Cadence coupon.Cadence `json:"cadence"`
	Frozen  bool           `json:"frozen"` // no run issues anything
	// Who froze it; nil: it is not frozen, or nothing records it.
	Freeze *history.AuditEntry `json:"freeze,omitempty"`
	// While so many wait, nobody joins the queue; 0: no limit.
	LineLimit int64 `json:"lineLimit,omitempty"`
}

func (c *CouponFacts) immediate() bool { return c != nil && c.Cadence == coupon.Immediate }

func (c *CouponFacts) Free() int64 { return max(0, c.Seats-c.Issued) }

// PublishedWindow is the window and the state of the coupon in Redis.
type PublishedWindow struct {
	Known    bool       `json:"known"` // false: the window was swept, lost or never published
	OpensAt  *time.Time `json:"opensAt,omitempty"`
	ClosesAt *time.Time `json:"closesAt,omitempty"`
	Paused   bool       `json:"paused"`
	Sold     bool       `json:"sold"`
	Waiting  int64      `json:"waiting"`
}

// Place is where Redis stores an application.
type Place string

const (
	InQueue     Place = "QUEUE"
	InRetryable Place = "DLQ_RETRYABLE" // every run tries it again
	InHeld      Place = "DLQ_HELD"      // no run tries it until an operator decides
)

var places = map[coupon.Source]Place{coupon.SourceQueue: InQueue, coupon.SourceRetryable: InRetryable,
	coupon.SourceHeld: InHeld}

// Application is one application of the user. It has both a place and an outcome while the clean-up is pending.
type Application struct {
	Arrival   coupon.Arrival `json:"arrival"`
	AppliedAt time.Time      `json:"appliedAt"`
	Place     Place          `json:"stands,omitempty"`   // empty: Redis does not have it
	Position  int64          `json:"position,omitempty"` // position in the queue, from 1; 0: not in the queue
	// Cutoff of the nightly run that tries it next; nil: see dropPlans.
	SettlesAt *time.Time         `json:"settlesAt,omitempty"`
	Review    *candidates.Reason `json:"review,omitempty"` // reason of a DLQ entry; nil if it cannot be read
	Order     int64              `json:"order,omitempty"`  // rank by arrival, from 1; 0: not certain
	Lost      bool               `json:"lost,omitempty"`   // only the journal has it: Redis has lost it
	Decision
}

type Decision struct {
	Outcome coupon.Outcome `json:"outcome,omitempty"` // empty: undecided
	// Why a run rejected the application; empty: an operator did, or nobody.
	Cause      coupon.Cause `json:"cause,omitempty"`
	Note       string       `json:"note,omitempty"` // the operator's words; with Cause, the note of the failure
	Run        coupon.RunID `json:"run,omitempty"`
	RecordedAt *time.Time   `json:"recordedAt,omitempty"`
	Cutoff     time.Time    `json:"-"` // of Run; zero: the run has not decided, or issued
}

// Missed tells how far the last NOT_SELECTED application was from a seat.
type Missed struct {
	Arrival coupon.Arrival `json:"arrival"`
	Rank    int64          `json:"rank"`   // with this many more seats, it would have got one
	Micros  int64          `json:"micros"` // µs after the last arrival that got a seat; 0: not certain
}

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
	Status      coupon.RunStatus `json:"status"` // see history.RunStatus
}

// RunRecord is the run's row of table settlement for the coupon.
type RunRecord struct {
	Settled     bool           `json:"settled"` // the row exists; if not, the run did not change the coupon
	Read        int64          `json:"read"`
	Issued      int64          `json:"issued"`
	NotSelected int64          `json:"notSelected"`
	LastArrival coupon.Arrival `json:"lastArrival,omitempty"` // last arrival that got a seat from this run
	Cleaned     bool           `json:"cleaned"`               // the clean-up in Redis is done
}

func (f *Facts) addRedis(queue candidates.Watch, zone *time.Location) {
	found := queue.Users[0]
	f.At, f.MarkedIssued, f.MarkedRejected = queue.Now, found.MarkedIssued, found.MarkedRejected
	f.Published = &PublishedWindow{Known: queue.Opens > 0 && queue.Closes > 0, Sold: queue.Sold, Waiting: queue.Waiting}
	if w := f.Published; w.Known {
		w.OpensAt, w.ClosesAt, w.Paused = new(queue.Opens.Time()), new(queue.Closes.Time()), queue.Paused
	}
	for _, entry := range found.Entries {
		a := f.application(entry.Arrival)
		if a.Place != "" {
			continue // the entry in the queue is kept
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
		if zone != nil { // else MySQL is away
			a.SettlesAt = new(calendar.NextCutoff(next, zone).UTC())
		}
	}
}

// dropPlans removes SettlesAt where no nightly run is expected to be the next one: of every application for a frozen
// coupon, and of those that `settle serve` is about to settle.
func (f *Facts) dropPlans(issueInterval time.Duration) {
	for i := range f.Applications {
		a := &f.Applications[i]
		atOnce := f.Coupon.immediate() && a.Place == InQueue && !coupon.Delayed(f.At.Sub(a.AppliedAt), issueInterval)
		if atOnce || f.Coupon != nil && f.Coupon.Frozen {
			a.SettlesAt = nil
		}
	}
}

// window returns the window in Redis, which decides about applications, or that in MySQL if Redis has none.
func (f *Facts) window() (opens, closes time.Time, paused bool) {
	if f.Published != nil && f.Published.Known {
		return *f.Published.OpensAt, *f.Published.ClosesAt, f.Published.Paused
	}
	return f.Coupon.OpensAt, f.Coupon.ClosesAt, f.Coupon.Paused
}

func (f *Facts) application(arrival coupon.Arrival) *Application {
	at, found := slices.BinarySearchFunc(f.Applications, arrival, func(a Application, arrival coupon.Arrival) int {
		return cmp.Compare(a.Arrival, arrival)
	})
	if !found {
		f.Applications = slices.Insert(f.Applications, at, Application{Arrival: arrival, AppliedAt: arrival.Time()})
	}
	return &f.Applications[at]
}

// standing says where the application is, by the order of precedence of package standing.
func (f *Facts) standing() standing.Conclusion { return f.known().Conclude() }

func (f *Facts) known() standing.Facts {
	facts := standing.Facts{Asked: f.Coupon != nil}
	facts.MarkedIssued, facts.MarkedRejected = f.MarkedIssued, f.MarkedRejected
	if f.UserCoupon != nil {
		facts.Outcomes = []standing.Outcome{{Outcome: coupon.OutcomeIssued}}
	}
	for _, a := range f.Applications {
		switch {
		case a.Place == InQueue:
			entry := coupon.Application{Arrival: a.Arrival, Source: coupon.SourceQueue}
			facts.Entries = slices.Insert(facts.Entries, 0, entry)
		case a.Place != "":
			facts.Entries = append(facts.Entries, coupon.Application{Arrival: a.Arrival, Source: coupon.SourceHeld})
		case a.Lost:
			facts.Journalled = []coupon.Arrival{a.Arrival}
		}
		if a.Outcome != "" {
			o := standing.Outcome{Outcome: a.Outcome, Arrival: a.Arrival}
			if !a.Cutoff.IsZero() {
				o.Cutoff = coupon.ArrivalAt(a.Cutoff)
			}
			facts.Outcomes = append(facts.Outcomes, o)
		}
	}
	return facts
}

// at returns the application of an arrival, or nil.
func (f *Facts) at(arrival coupon.Arrival) *Application {
	for i := range f.Applications {
		if f.Applications[i].Arrival == arrival {
			return &f.Applications[i]
		}
	}
	return nil
}

// latest returns the last application with an outcome. ALREADY_ISSUED counts only if there is no other outcome.
func (f *Facts) latest() (found *Application) {
	for i := range f.Applications {
		a := &f.Applications[i]
		if a.Outcome != "" && (a.Outcome != coupon.OutcomeAlreadyIssued || found == nil ||
			found.Outcome == coupon.OutcomeAlreadyIssued) {
			found = a
		}
	}
	return found
}

// dropUncertainOrder sets Order to 0 unless every promise is found exactly once.
func (f *Facts) dropUncertainOrder() {
	compared := f.Account != nil && (f.Coupon.FinalisedAt != nil || f.Account.RestoreDue() != promise.NewServer)
	if a := f.Account; compared && f.Gap == 0 && a.WrittenOff == 0 && a.InBoth == 0 {
		return
	}
	for i := range f.Applications {
		f.Applications[i].Order = 0
	}
}
