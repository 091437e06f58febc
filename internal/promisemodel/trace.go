package promisemodel

import (
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Trace is what a test has seen of one coupon on real servers. Check says whether the model accepts it.
type Trace struct {
	Seats  int
	Keep   time.Duration // how long a pod remembers what it knows to be in the journal
	Events []Event       // in the order in which they were seen
}

// Event is one thing that a test has seen. Each kind has its rule in Check.
type Event interface {
	check(c *checker) error
}

// Told is an answer ACCEPTED or DUPLICATE.
type Told struct {
	coupon.Answer
	Pod   int
	Epoch string    // as the pod's memory heard it; empty: it did not
	New   bool      // ACCEPTED
	Asked time.Time // when the request began
	At    time.Time
}

// Unanswered is a request without an answer. Redis may have accepted it. So may be an entry by hand.
type Unanswered struct{ User coupon.UserID }

// Died says that a pod has ended with its memory.
type Died struct{ Pod int }

// Lost says that a server is about to lose something.
type Lost struct{}

// Compared is one call by which a pod compares a part of its memory with the server of an epoch.
type Compared struct {
	Pod        int
	Epoch      string
	Answers    []coupon.Answer
	HandedOver []int     // indexes of Answers
	At         time.Time // when the call began
}

// Committed is all that MySQL has of the coupon, in one snapshot.
type Committed struct {
	Epoch      string // of the journal
	UpTo       coupon.Arrival
	Asked      int64
	WrittenOff int64 // with those who were erased
	Pending    bool  // a clean-up is to come
	Rows       []coupon.Answer
	Outcomes   []Outcome
	At         time.Time // before the snapshot
}

// Outcome is a coupon from a run, or another outcome. Who is no user has the user 0.
type Outcome struct {
	coupon.Answer
	Kind  string         // ISSUED, NOT_SELECTED, ALREADY_ISSUED or REJECTED
	Below coupon.Arrival // it accounts for arrivals below this one
}

// Looked is all that Redis has of the coupon at one instant. The Committed before it has the outcomes of that instant.
type Looked struct {
	Server    string // run_id, by INFO
	Epoch     string
	Restored  bool
	Accepted  int64
	Left      int64
	Returned  int64
	Places    map[coupon.UserID]coupon.Arrival // in queue and DLQ
	InDLQ     map[coupon.UserID]bool
	Strangers int64     // members of both that are no users
	At        time.Time // after the look
}
