package coupon

import (
	"strconv"
	"time"
)

// Application is one user's application for one coupon.
type Application struct {
	Member  string // a user id in canonical decimal, unless an entry was written into Redis by hand
	Arrival Arrival
	Source  Source
}

// User is the applicant; 0 when the member is no user id.
func (a Application) User() UserID { return ParseUserID(a.Member) }

// Source is where an application is stored before it is settled.
type Source uint8

const (
	SourceQueue        Source = iota + 1 // in the queue
	SourceRetryable                      // in the DLQ; every run tries it again
	SourceRowRefused                     // retryable; MySQL refused the applicant's row in an earlier settlement
	SourceTriedTonight                   // SourceRowRefused by a nightly run of the cutoff in question
	SourceHeld                           // in the DLQ until an operator decides; no run tries it
	SourceNotSelected                    // in MySQL alone, with outcome NOT_SELECTED; it waits for free seats
)

// Mark is the set of users that Redis answers without a look at the queue.
type Mark uint8

const (
	MarkNone     Mark = iota + 1 // no set
	MarkIssued                   // applying again answers ALREADY_ISSUED
	MarkRejected                 // applying again answers REJECTED
)

// Failure is an application that could not be settled, and the reason.
type Failure struct {
	Application
	Cause     Cause
	Message   string
	Retryable bool
	Keep      bool      // the application is in the DLQ already: count the attempt, keep cause and message
	Row       bool      // MySQL refused the applicant's own row; a bounded number of attempts is made
	Night     time.Time // cutoff of the nightly run that met the failure; zero: of no nightly run
}

// RefusedBefore reports whether MySQL refused the applicant's row in an earlier settlement.
func (f Failure) RefusedBefore() bool {
	return f.Source == SourceRowRefused || f.Source == SourceTriedTonight
}

// Cause is why an application is in the DLQ: a stable word in capitals. The set is open, since entries outlive programs.
type Cause string

const (
	CauseUnknownUser  Cause = "UNKNOWN_USER"
	CauseInactiveUser Cause = "INACTIVE_USER"
	CauseMalformed    Cause = "MALFORMED_USER_ID"
	// CausePassedOver: the user could not get a coupon when this place was settled, and has the first claim to the next free
	// seat.
	CausePassedOver Cause = "PASSED_OVER"
	// CauseBadRow: MySQL refused this user's row alone. The message is MySQL's error.
	CauseBadRow Cause = "BAD_ROW"
	// CauseDatabaseAway: the application was among the first of the queue while MySQL could not be reached.
	CauseDatabaseAway Cause = "DATABASE_AWAY"
)

// Causes are the causes that the program itself writes.
var Causes = []Cause{CauseUnknownUser, CauseInactiveUser, CauseMalformed, CausePassedOver, CauseBadRow, CauseDatabaseAway}

// Cursor is a position among the applications of a coupon in Redis. It stays valid when entries around it are removed. Only
// package candidates reads its fields.
type Cursor struct {
	Score, Member string
	End           bool // of the last entry
}

// Standing is where an application of a user is now: the status that an applicant is shown.
type Standing string

const (
	StandingNone        Standing = "NONE"         // no application is known
	StandingPending     Standing = "PENDING"      // in the queue
	StandingUnderReview Standing = "UNDER_REVIEW" // in the DLQ
	StandingIssued      Standing = "ISSUED"
	StandingRejected    Standing = "REJECTED"
	StandingNotSelected Standing = "NOT_SELECTED" // in MySQL alone
)

// CouponID identifies a coupon: the primary key of table coupon, from 1.
type CouponID uint64

func (id CouponID) String() string { return strconv.FormatUint(uint64(id), 10) }

// UserID identifies a user of the shop, from 1. 0 is no user.
type UserID uint64

// RunID identifies a run: the primary key of table settlement_run, from 1. 0 is no run.
type RunID uint64

// Arrival is the place of an application in its coupon's queue: microseconds since 1970 by the clock of the coupon's Redis
// shard, strictly increasing for each coupon. 0 is no arrival.
type Arrival int64

// MaxArrival is the highest arrival that a Redis score, a double, holds exactly: in the year 2255.
const MaxArrival Arrival = 1<<53 - 1

// ArrivalAt is the arrival of an application at an instant.
func ArrivalAt(t time.Time) Arrival { return Arrival(t.UnixMicro()) }

// Time is the instant of an arrival, in UTC.
func (a Arrival) Time() time.Time { return time.UnixMicro(int64(a)).UTC() }

// ParseUserID reads a member of the queue as a user id in canonical decimal; 0 for anything else.
func ParseUserID(member string) UserID {
	id, err := strconv.ParseUint(member, 10, 64)
	if err != nil || member[0] < '1' || member[0] > '9' {
		return 0
	}
	return UserID(id)
}

// Member is the user id as a member of the queue.
func (id UserID) Member() string { return strconv.FormatUint(uint64(id), 10) }
