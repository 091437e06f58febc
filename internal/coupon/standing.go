package coupon

// Standing is where an application of a user is now: the status that an applicant is shown.
type Standing string

// The standings.
const (
	StandingNone        Standing = "NONE"         // no application is known
	StandingPending     Standing = "PENDING"      // in the queue
	StandingUnderReview Standing = "UNDER_REVIEW" // in the DLQ
	StandingIssued      Standing = "ISSUED"
	StandingRejected    Standing = "REJECTED"
	StandingNotSelected Standing = "NOT_SELECTED" // in MySQL alone
)
