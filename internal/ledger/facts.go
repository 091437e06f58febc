package ledger

import (
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Facts are all that is known of one user and one coupon. Times are UTC, spans and arrivals µs.
type Facts struct {
	CouponID uint64    `json:"couponId"`
	UserID   uint64    `json:"userId"`
	At       time.Time `json:"at"` // by the clock of Redis; by this machine's where Redis is away

	// Why something could not be looked up; empty where it was.
	NoMySQL   string `json:"noMysql,omitempty"`
	NoRedis   string `json:"noRedis,omitempty"`
	NoAccount string `json:"noAccount,omitempty"`

	Coupon         *CouponFacts  `json:"coupon,omitempty"`  // nil without MySQL
	Account        *Account      `json:"account,omitempty"` // nil without either, or while the coupon's row is held
	Gap            int64         `json:"gap"`
	Door           *DoorFacts    `json:"door,omitempty"` // nil without Redis
	UserKnown      bool          `json:"userKnown"`      // the user exists; false: not, or not looked up
	UserActive     bool          `json:"userActive"`     // … and is active
	UserStatus     string        `json:"userStatus"`     // as the shop's table has it; empty: no such user, not looked up, or no such column
	Held           *HeldCoupon   `json:"held,omitempty"`
	MarkedIssued   bool          `json:"markedIssued"`   // what the door answers at once
	MarkedRejected bool          `json:"markedRejected"` //
	Applications   []Application `json:"applications"`   // by arrival
	Missed         *Missed       `json:"missed,omitempty"`
	Runs           []RunFacts    `json:"runs"`
}

// CouponFacts are what MySQL says of the coupon.
type CouponFacts struct {
	Name        string     `json:"name"`
	Seats       int64      `json:"seats"`
	Issued      int64      `json:"issued"`
	ByHand      int64      `json:"byHand"` // of those issued
	OpensAt     time.Time  `json:"opensAt"`
	ClosesAt    time.Time  `json:"closesAt"`
	Paused      bool       `json:"paused"`
	FinalisedAt *time.Time `json:"finalisedAt,omitempty"`
	Promised    int64      `json:"promised"` // applications ever accepted, as far as MySQL has heard
	WrittenOff  int64      `json:"writtenOff"`
	LastSeated  int64      `json:"lastSeated,omitempty"` // the last arrival that a run gave a seat
}

// Free is how many seats are left.
func (c *CouponFacts) Free() int64 { return max(0, c.Seats-c.Issued) }

// DoorFacts are what Redis says of the coupon.
type DoorFacts struct {
	Known    bool       `json:"known"` // false: swept, lost, or never published
	OpensAt  *time.Time `json:"opensAt,omitempty"`
	ClosesAt *time.Time `json:"closesAt,omitempty"`
	Paused   bool       `json:"paused"`
	Sold     bool       `json:"sold"`
	Waiting  int64      `json:"waiting"`
}

// HeldCoupon is the coupon that the user holds.
type HeldCoupon struct {
	Seat      int64      `json:"seat"` // 1 to the number of seats; 0 where whoever gave it by hand wrote none
	AppliedAt *time.Time `json:"appliedAt,omitempty"`
	IssuedAt  time.Time  `json:"issuedAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	Run       uint64     `json:"run,omitempty"` // 0: given by hand
	Status    string     `json:"status"`        // ISSUED, USED, EXPIRED, REVOKED
}

// Place is where an application stands in Redis.
type Place string

// The places.
const (
	InQueue     Place = "QUEUE"
	InRetryable Place = "DLQ_RETRYABLE" // every run tries it again
	InHeld      Place = "DLQ_HELD"      // until a person decides
)

var places = map[coupon.Source]Place{coupon.SourceQueue: InQueue, coupon.SourceRetryable: InRetryable, coupon.SourceHeld: InHeld}

// Application is one application of the user. It may stand and be settled: Redis has not heard yet.
type Application struct {
	Arrival   int64              `json:"arrival"`
	AppliedAt time.Time          `json:"appliedAt"`
	Stands    Place              `json:"stands,omitempty"`
	Position  int64              `json:"position,omitempty"`  // among those waiting
	SettlesAt *time.Time         `json:"settlesAt,omitempty"` // while it stands: the first night that has not tried it
	Review    *candidates.Reason `json:"review,omitempty"`    // while it stands in the DLQ, where a reason can be read
	Order     int64              `json:"order,omitempty"`     // how many had applied by then, this one included; 0 where that is not sure

	Outcome    string     `json:"outcome,omitempty"` // ISSUED, NOT_SELECTED, REJECTED, ALREADY_ISSUED
	Reason     string     `json:"reason,omitempty"`
	Run        uint64     `json:"run,omitempty"`
	RecordedAt *time.Time `json:"recordedAt,omitempty"`
	Dropped    bool       `json:"dropped,omitempty"` // REJECTED by a person
}

// Missed is by how much the last application that was not selected missed a seat.
type Missed struct {
	Arrival int64 `json:"arrival"`
	Rank    int64 `json:"rank"`   // among those not selected, from 1: with so many more seats it would have had one
	Micros  int64 `json:"micros"` // later than the last arrival that got a seat; 0 where that cannot be said
}

// RunFacts are one run, as far as it concerns the user, and what it did to the coupon.
type RunFacts struct {
	ID          uint64     `json:"id"`
	Trigger     string     `json:"trigger"`
	Operator    string     `json:"operator,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Cutoff      time.Time  `json:"cutoff"`
	StartedAt   time.Time  `json:"startedAt"`
	HeartbeatAt time.Time  `json:"heartbeatAt"`
	FinishedAt  *time.Time `json:"finishedAt,omitempty"`
	Status      string     `json:"status"`  // ABANDONED where it is RUNNING and silent, by the clock of the database
	Settled     bool       `json:"settled"` // it has a record of this coupon; else it changed nothing of it
	Read        int64      `json:"read"`
	Issued      int64      `json:"issued"`
	NotSelected int64      `json:"notSelected"`
	LastArrival int64      `json:"lastArrival,omitempty"` // the last it gave a seat
	Cleaned     bool       `json:"cleaned"`               // Redis has heard of it
}

// EventKind is what happened.
type EventKind string

// What can happen, in the order it is told when it happened at once.
const (
	EventOpens       EventKind = "OPENS"
	EventApplied     EventKind = "APPLIED"
	EventLastSeated  EventKind = "LAST_SEATED" // the last arrival that got a seat
	EventCloses      EventKind = "CLOSES"
	EventRun         EventKind = "RUN"
	EventAttempt     EventKind = "ATTEMPT" // one that failed before, as far as they are kept
	EventReview      EventKind = "REVIEW"  // the last attempt that put or left it under review
	EventAudit       EventKind = "AUDIT"   // what an operator did
	EventIssued      EventKind = "ISSUED"
	EventNotSelected EventKind = "NOT_SELECTED"
	EventRejected    EventKind = "REJECTED"
	EventAlready     EventKind = "ALREADY_ISSUED"
	EventFinalised   EventKind = "FINALISED"
	EventSettles     EventKind = "SETTLES" // still to come
	EventExpires     EventKind = "EXPIRES"
)

// EventKinds are all of them, in that order.
var EventKinds = []EventKind{EventOpens, EventApplied, EventLastSeated, EventCloses, EventRun, EventAttempt, EventReview, EventAudit, EventIssued,
	EventNotSelected, EventRejected, EventAlready, EventFinalised, EventSettles, EventExpires}

// Event is one thing that happened, or is to happen. What a kind has no use for is empty.
type Event struct {
	At      time.Time          `json:"at"`
	Kind    EventKind          `json:"kind"`
	Arrival int64              `json:"arrival,omitempty"`
	Run     uint64             `json:"run,omitempty"`
	Actor   string             `json:"actor,omitempty"`
	Action  string             `json:"action,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	Review  *candidates.Reason `json:"review,omitempty"`
	Settled *RunFacts          `json:"-"` // of EventRun; it stands among the facts
}
