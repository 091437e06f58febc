package couponadmin

import (
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Refusal is why a change would break a promise or make no sense.
type Refusal string

// The refusals, with their Args.
const (
	RefusedFinalised         Refusal = "FINALISED"           // coupon, time of finalisation
	RefusedSwept             Refusal = "FINALISED_BEFORE"    // coupon
	RefusedForgotten         Refusal = "MARKS_LOST"          // coupon
	RefusedUnfinished        Refusal = "NOT_CLEANED_UP"      // coupon
	RefusedNotOpen           Refusal = "NOT_OPEN_YET"        // coupon, opens
	RefusedEndsBeforeItOpens Refusal = "ENDS_BEFORE_OPENING" // coupon or 0, closes, opens
	RefusedPast              Refusal = "CLOSES_IN_THE_PAST"  // coupon or 0, closes, now
	RefusedFar               Refusal = "CLOSES_TOO_LATE"     // closes, maximum
	RefusedShorter           Refusal = "SHORTER"             // coupon, closes, present closes
	RefusedFewerThanIssued   Refusal = "FEWER_THAN_ISSUED"   // coupon, issued, requested seats
	RefusedMoreThanSeats     Refusal = "MORE_THAN_SEATS"     // coupon, issued coupons, seats
	RefusedSeats             Refusal = "SEATS"               // requested seats, maximum
)

// Refused is a refused change: nothing was changed.
type Refused struct {
	Why  Refusal
	Args []any // ids, numbers and instants
}

func refuse(why Refusal, args ...any) error { return &Refused{why, args} }

func (e *Refused) Error() string { return fmt.Sprintf("refused: %s %v", e.Why, e.Args) }

// Setup reports that repeating cannot help.
func (*Refused) Setup() bool { return true }

// Kind is what an Error says.
type Kind string

// The kinds, with their Args.
const (
	NoSuchCoupon  Kind = "NO_SUCH_COUPON" // coupon
	NotShut       Kind = "NOT_SHUT"       // coupon, error
	WrongName     Kind = "WRONG_NAME"     // name, maximum of letters
	WrongSeats    Kind = "WRONG_SEATS"    // seats, maximum
	WrongDays     Kind = "WRONG_DAYS"     // days, maximum
	WrongDiscount Kind = "WRONG_DISCOUNT" // won, maximum
)

// English are the English texts of all kinds, with verbs for their Args.
var English = map[Kind]string{
	NoSuchCoupon:  "coupon %d does not exist",
	NotShut:       "Redis could not be asked to stop accepting applications for coupon %d, which is unchanged; applications may be refused for up to three minutes. Run it again (%v)",
	WrongName:     "the name %q is not possible: want 1 to %d letters, without line breaks",
	WrongSeats:    "%d seats: want 1 to %d",
	WrongDays:     "valid for %d days: want 1 to %d",
	WrongDiscount: "a discount of %d won: want 0 to %d",
}

// Error is an error made for people.
type Error struct {
	Kind Kind
	Args []any
}

func (e *Error) Error() string { return fmt.Sprintf(English[e.Kind], e.Args...) }

// Unwrap returns the error among the Args.
func (e *Error) Unwrap() error {
	if len(e.Args) == 0 {
		return nil
	}
	cause, _ := e.Args[len(e.Args)-1].(error)
	return cause
}

// ChangeUnknown is a change whose reply to COMMIT was lost, and that could not be looked up. A repetition could make the
// change twice.
type ChangeUnknown struct {
	Coupon coupon.CouponID // 0: a new coupon
	err    error
}

func (e *ChangeUnknown) Error() string {
	if e.Coupon == 0 {
		return fmt.Sprintf("whether the coupon was created is unknown: look at `settle coupon list` before you create it again (%s)", e.err)
	}
	return fmt.Sprintf("whether coupon %d was changed is unknown: look at `settle coupon show %d` before you repeat it (%s)", e.Coupon, e.Coupon, e.err)
}

func (e *ChangeUnknown) Unwrap() error { return e.err }

// changeUnknown turns a lost COMMIT into a *ChangeUnknown.
func changeUnknown(couponID coupon.CouponID, err error) error {
	if unknown := new(mysqltx.CommitUnknown); errors.As(err, &unknown) {
		return &coupon.Error{Class: coupon.Infrastructure, Err: &ChangeUnknown{couponID, unknown.Err}}
	}
	return err
}

var errReplyLost = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("the reply to COMMIT was lost")}
