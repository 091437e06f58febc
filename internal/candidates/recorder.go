package candidates

import "github.com/jajeong/jajeong/internal/coupon"

// Reply is what a Recorder keeps of a script's reply.
type Reply struct {
	Epoch    string // of the server that replied; empty: it does not say
	Restores int64  // see Line
	Answers  []coupon.Answer
}

// Recorder remembers what this process has told applicants, and notices another server. Package handover implements it.
type Recorder interface {
	// Seen returns the highest arrival of the coupon that this process has seen. The next script gets it, so that
	// arrivals grow over servers.
	Seen(couponID coupon.CouponID) coupon.Arrival
	// Answered records the reply of a script.
	Answered(couponID coupon.CouponID, reply Reply)
}

type noRecorder struct{}

func (noRecorder) Seen(coupon.CouponID) coupon.Arrival { return 0 }
func (noRecorder) Answered(coupon.CouponID, Reply)     {}
