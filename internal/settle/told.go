package settle

import (
	"context"
	"fmt"
	"unicode/utf8"
)

// Told is an error made for people. What it says is known by its Kind, so that it can be told in other words than these.
type Told struct {
	Kind Kind
	Args []any
}

// Kind is what is told.
type Kind string

// The kinds, with what their Args are.
const (
	NoSuchCoupon   Kind = "NO_SUCH_COUPON"   // coupon
	NotUnderReview Kind = "NOT_UNDER_REVIEW" // user as given, coupon
	NotDropped     Kind = "NOT_DROPPED"      // member, why
	SameArrival    Kind = "SAME_ARRIVAL"     // member
	MoreStay       Kind = "MORE_STAY"        // how many
	CouponBusy     Kind = "BUSY"             //
	TakenOver      Kind = "TAKEN_OVER"       //
	OtherWinners   Kind = "OTHER_WINNERS"    // how many, their digest, the approved one
	Stopped        Kind = "STOPPED"          // why
	StoppedAfter   Kind = "STOPPED_AFTER"    // why, coupons dealt with, of how many
)

var inEnglish = map[Kind]string{
	NoSuchCoupon:   "coupon %d does not exist",
	NotUnderReview: "user %q is not under review for coupon %d",
	NotDropped:     "%q cannot be recorded, and stays under review: %v",
	SameArrival:    "%q stays under review: another member that was dropped has its very arrival, which nobody can have; remove it from Redis by hand",
	MoreStay:       "%d more stay under review",
	CouponBusy:     "busy: another settlement or session holds this coupon's row or its tables; nothing more was moved, run again",
	TakenOver:      "another Redis server took over again and again while the line was read",
	OtherWinners: "the winners would be %d users with the digest %s, not those of %s that were approved; nothing was issued. " +
		"Look at the preview again and find out who changed",
	Stopped:      "told to stop: %v",
	StoppedAfter: "told to stop: %v; %d of %d coupons were dealt with",
}

// Shown is a member of the line as people are shown it: whoever wrote it there may have written a megabyte.
func Shown(member string) string {
	if letters := []rune(member[:min(len(member), 4*mostShown+utf8.UTFMax)]); len(letters) > mostShown {
		return string(letters[:mostShown]) + "…"
	}
	return member
}

// mostShown is more than twice the digits of the longest user id.
const mostShown = 50

// Kinds are all of them.
func Kinds() (all []Kind) {
	for kind := range inEnglish {
		all = append(all, kind)
	}
	return all
}

func told(kind Kind, args ...any) error { return &Told{kind, args} }

func (e *Told) Error() string { return fmt.Sprintf(inEnglish[e.Kind], e.Args...) }

// Infrastructure reports whether running again may help.
func (e *Told) Infrastructure() bool {
	return e.Kind == Stopped || e.Kind == StoppedAfter || e.Kind == CouponBusy
}

// Unwrap are the errors among its Args.
func (e *Told) Unwrap() (causes []error) {
	for _, arg := range e.Args {
		if cause, ok := arg.(error); ok {
			causes = append(causes, cause)
		}
	}
	return causes
}

// ToldToStop is why nothing goes on when ctx has ended.
func ToldToStop(ctx context.Context) error {
	return told(Stopped, context.Cause(ctx))
}
