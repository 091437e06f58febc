package coupon

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

type Application struct {
	Member  string // a user id in canonical decimal, unless an entry was written into Redis by hand
	Arrival Arrival
	Source  Source
}

// User returns the applicant, or 0 if Member is not a user id.
func (a Application) User() UserID { return ParseUserID(a.Member) }

// Source is where an application is stored before it is settled.
type Source uint8

const (
	SourceQueue        Source = iota + 1 // in the queue
	SourceRetryable                      // in the DLQ; every run tries it again
	SourceRowRefused                     // in the DLQ as above, and MySQL has refused the user's row before
	SourceTriedTonight                   // in the DLQ as above, and a nightly run with this cutoff has tried it
	SourceHeld                           // in the DLQ until an operator decides; no run tries it
	SourceNotSelected                    // in MySQL alone, with outcome NOT_SELECTED; it waits for free seats
)

// Mark is the Redis set to which a user is added after a settlement. Redis then answers when the user applies again.
type Mark uint8

const (
	MarkNone     Mark = iota + 1 // the user is added to no set
	MarkIssued                   // applying again answers ALREADY_ISSUED
	MarkRejected                 // applying again answers REJECTED
)

// Failure is an application that could not be settled, with the reason.
type Failure struct {
	Application
	Cause     Cause
	Note      string // what somebody else says about it: the error of MySQL, or the user's status in the shop's table
	Retryable bool
	Keep      bool      // the application is in the DLQ already: its attempts are counted, its cause and note stay
	Row       bool      // MySQL refused this applicant's row, which runs try a limited number of times
	Night     time.Time // cutoff of the nightly run that failed; zero: it was not a nightly run
}

func (f Failure) RefusedBefore() bool {
	return f.Source == SourceRowRefused || f.Source == SourceTriedTonight
}

// Cause is why an application is in the DLQ, or why a run rejected it. Entries that were written by hand may have other
// causes.
type Cause string

const (
	CauseUnknownUser  Cause = "UNKNOWN_USER"
	CauseInactiveUser Cause = "INACTIVE_USER"
	CauseMalformed    Cause = "MALFORMED_USER_ID"
	// CausePassedOver: the user could not get a coupon in turn, and gets the next free seat.
	CausePassedOver Cause = "PASSED_OVER"
	// CauseBadRow: MySQL refused this user's row, but stored others.
	CauseBadRow Cause = "BAD_ROW"
	// CauseDatabaseAway: a nightly run could not reach MySQL, and moved the first applications to the DLQ.
	CauseDatabaseAway Cause = "DATABASE_AWAY"
)

// Causes are all causes. A test of each package that knows causes walks them.
var Causes = []Cause{CauseUnknownUser, CauseInactiveUser, CauseMalformed, CausePassedOver, CauseBadRow,
	CauseDatabaseAway}

// Cursor is a position among a coupon's applications in Redis. It stays valid if applications are removed.
type Cursor struct {
	Score, Member string
	End           bool   // the last entry has been read
	Epoch         string // of the server that gave the page; empty: it is new to the coupon
}

// Standing is where a user's application for a coupon is. Package standing decides it.
type Standing string

const (
	StandingNone        Standing = "NONE"         // no application is known
	StandingPending     Standing = "PENDING"      // in the queue
	StandingUnderReview Standing = "UNDER_REVIEW" // in the DLQ
	StandingIssued      Standing = "ISSUED"
	StandingRejected    Standing = "REJECTED"
	StandingNotSelected Standing = "NOT_SELECTED" // in MySQL alone
	StandingLost        Standing = "LOST"         // in the journal alone: Redis has lost it
)

// CouponID identifies a coupon: the primary key of table coupon, from 1.
type CouponID uint64

func (id CouponID) String() string { return strconv.FormatUint(uint64(id), 10) }

// UserID identifies a user of the shop, from 1. 0 is no user.
type UserID uint64

// RunID identifies a run: the primary key of table settlement_run, from 1. 0 is no run.
type RunID uint64

// Arrival orders a coupon's applications: µs since 1970 by the clock of its Redis shard, strictly increasing; 0: none.
type Arrival int64

// MaxArrival is the highest arrival that a Redis score, a double, holds exactly. It is in the year 2255.
const MaxArrival Arrival = 1<<53 - 1

func ArrivalAt(t time.Time) Arrival { return Arrival(t.UnixMicro()) }

func (a Arrival) Time() time.Time { return time.UnixMicro(int64(a)).UTC() }

// ParseUserID returns the user id that is a member of the queue, or 0 if the member is not a canonical decimal number.
func ParseUserID(member string) UserID {
	id, err := strconv.ParseUint(member, 10, 64)
	if err != nil || member[0] < '1' || member[0] > '9' {
		return 0
	}
	return UserID(id)
}

// maxMember is the width of application_outcome.member, in characters.
const maxMember = 400

// StoredMember returns a member that is no user id as application_outcome.member has it: all outcomes of such members
// have user id 0.
func StoredMember(member string) string {
	letters := []rune(strings.ToValidUTF8(member, "\uFFFD"))
	return string(letters[:min(len(letters), maxMember)])
}

func (id UserID) Member() string { return strconv.FormatUint(uint64(id), 10) }

// ShownMember shortens a member for a message, because an entry written by hand may be a megabyte long.
func ShownMember(member string) string {
	if letters := []rune(member[:min(len(member), 4*maxShown+utf8.UTFMax)]); len(letters) > maxShown {
		return string(letters[:maxShown]) + "…"
	}
	return member
}

// maxShown is in characters. The longest user id has 20 digits.
const maxShown = 50

// Delayed reports whether an application for an immediate coupon has waited too long: more than ten intervals between
// the looks of settle serve, and more than a second.
func Delayed(waited, issueInterval time.Duration) bool {
	return waited > max(time.Second, 10*issueInterval)
}
