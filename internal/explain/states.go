package explain

// State is the state of one user's applications for one coupon. Every state is certain: missing facts have states of their own.
type State string

// The states.
const (
	// A server is away.
	StateUnknown        State = "UNKNOWN"         // nothing is certain
	StateAppliedUnseen  State = "APPLIED_UNSEEN"  // Redis has the application; MySQL, which knows the outcome, is away
	StateIssuedUnseen   State = "ISSUED_UNSEEN"   // Redis answers ALREADY_ISSUED; MySQL is away
	StateRejectedUnseen State = "REJECTED_UNSEEN" // Redis answers REJECTED; MySQL is away

	// There is no application.
	StateNeverNotOpen  State = "NEVER_APPLIED_NOT_OPEN"
	StateNeverOpen     State = "NEVER_APPLIED_OPEN"
	StateNeverPaused   State = "NEVER_APPLIED_PAUSED"
	StateNeverSoldOut  State = "NEVER_APPLIED_SOLD_OUT"
	StateNeverAdded    State = "NEVER_APPLIED_SEATS_ADDED" // sold out, seats added; Redis accepts applications again after the next run
	StateNeverClosed   State = "NEVER_APPLIED_CLOSED"
	StateNoSuchUser    State = "NO_SUCH_USER"
	StateMaybeLost     State = "MAYBE_LOST"     // applications for this coupon were lost, possibly this one
	StateNotSure       State = "NOT_SURE"       // lost applications could not be counted, or Redis does not know the coupon
	StateContradiction State = "CONTRADICTION"  // Redis has a mark without a record in MySQL
	StateHolderNoMore  State = "HOLDER_NO_MORE" // the outcome is ALREADY_ISSUED, and the coupon is gone

	// In the queue.
	StateWaiting          State = "WAITING"
	StateWaitingSettling  State = "WAITING_SETTLING"   // a run that covers the application is under way
	StateWaitingOverdue   State = "WAITING_OVERDUE"    // the settlement is overdue
	StateWaitingRunFailed State = "WAITING_RUN_FAILED" // overdue, and the nightly run failed
	StateWaitingHeld      State = "WAITING_HELD"       // promises are missing, and no run settles the coupon
	StateWaitingOver      State = "WAITING_OVER"       // the coupon is finalised; nightly runs do not settle it

	// In the DLQ, by cause.
	StateReviewUnknownUser  State = "REVIEW_UNKNOWN_USER"
	StateReviewInactiveUser State = "REVIEW_INACTIVE_USER"
	StateReviewPassedOver   State = "REVIEW_PASSED_OVER"
	StateReviewBadRow       State = "REVIEW_BAD_ROW"
	StateReviewDatabaseAway State = "REVIEW_DATABASE_AWAY"
	StateReviewOther        State = "REVIEW_OTHER" // another cause, or an unreadable one

	// Settled.
	StateIssued           State = "ISSUED"
	StateIssuedByHand     State = "ISSUED_BY_HAND"
	StateNotSelected      State = "NOT_SELECTED"
	StateSeatsFree        State = "NOT_SELECTED_SEATS_FREE"      // seats are free; the next run issues them in order
	StateSeatsFreeOver    State = "NOT_SELECTED_SEATS_FREE_OVER" // seats are free, but the coupon is finalised
	StateRejectedByPerson State = "REJECTED_BY_PERSON"
	StateRejectedInactive State = "REJECTED_INACTIVE_USER" // rejected by a run when a seat was free again
	StateRejectedUnknown  State = "REJECTED_UNKNOWN_USER"
	StateRejectedBadRow   State = "REJECTED_BAD_ROW"
	StateRejectedOther    State = "REJECTED_OTHER"
)

// States are all of them.
var States = []State{
	StateUnknown, StateAppliedUnseen, StateIssuedUnseen, StateRejectedUnseen, StateNeverNotOpen, StateNeverOpen, StateNeverPaused,
	StateNeverSoldOut, StateNeverAdded, StateNeverClosed, StateNoSuchUser, StateMaybeLost, StateNotSure, StateContradiction, StateHolderNoMore,
	StateWaiting, StateWaitingSettling, StateWaitingOverdue, StateWaitingRunFailed, StateWaitingHeld, StateWaitingOver,
	StateReviewUnknownUser, StateReviewInactiveUser, StateReviewPassedOver, StateReviewBadRow, StateReviewDatabaseAway,
	StateReviewOther, StateIssued, StateIssuedByHand, StateNotSelected, StateSeatsFree, StateSeatsFreeOver, StateRejectedByPerson,
	StateRejectedInactive, StateRejectedUnknown, StateRejectedBadRow, StateRejectedOther,
}

// Note is what else is true.
type Note string

// The notes.
const (
	NoteUsable  Note = "USABLE" // every coupon holder has exactly one of these four
	NoteUsed    Note = "USED"
	NoteExpired Note = "EXPIRED"
	NoteRevoked Note = "REVOKED"

	NoteTriedAgain    Note = "TRIED_AGAIN"    // every DLQ entry has exactly one of these four: the next settlement tries it
	NotePersonDecides Note = "PERSON_DECIDES" // an operator decides
	NoteCouponHeld    Note = "COUPON_HELD"    // promises are missing; also of NOT_SELECTED_SEATS_FREE
	NoteCouponOver    Note = "COUPON_OVER"    // finalised
	NoteNoSeatLeft    Note = "NO_SEAT_LEFT"   // no seat is free; not in states that name the free seats

	NoteAccountInactive Note = "ACCOUNT_INACTIVE" // the user cannot receive a coupon as the account is now
	NoteAccountUnknown  Note = "ACCOUNT_UNKNOWN"
	NoteAccountActive   Note = "ACCOUNT_ACTIVE" // the cause about the user is resolved

	NoteAlsoUnderReview    Note = "ALSO_UNDER_REVIEW" // another application of the user is in the DLQ
	NoteAlsoStanding       Note = "ALSO_STANDING"     // another application of a holder is undecided; it brings no second coupon
	NoteAppliedAgain       Note = "APPLIED_AGAIN"     // another application of a holder ended as ALREADY_ISSUED
	NoteEarlierNotSelected Note = "EARLIER_NOT_SELECTED"
	NoteEarlierRejected    Note = "EARLIER_REJECTED"
	NoteLaterUnknown       Note = "LATER_UNKNOWN" // Redis is away; the user may have applied again since
	NoteShownOld           Note = "SHOWN_OLD"     // the clean-up in Redis is pending; until then users may see the old state
)

// Notes are all of them, in the order of Conclusion.Notes.
var Notes = []Note{
	NoteUsable, NoteUsed, NoteExpired, NoteRevoked, NoteTriedAgain, NotePersonDecides, NoteCouponHeld, NoteCouponOver, NoteNoSeatLeft,
	NoteAccountInactive, NoteAccountUnknown, NoteAccountActive, NoteAlsoUnderReview, NoteAlsoStanding, NoteAppliedAgain,
	NoteEarlierNotSelected, NoteEarlierRejected, NoteLaterUnknown, NoteShownOld,
}
