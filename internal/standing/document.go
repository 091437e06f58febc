package standing

import (
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

// Document is what an applicant is told: the answer of GET …/me, and an event of the streams. Only streams have the
// states NOT_APPLIED and UNKNOWN.
type Document struct {
	Status      coupon.Standing `json:"status"`
	CouponID    coupon.CouponID `json:"couponId"`
	UserID      coupon.UserID   `json:"userId"`
	Position    int64           `json:"position,omitempty"`    // only if Status is PENDING
	Seats       *int            `json:"seats,omitempty"`       // free seats; only if Status is PENDING
	WithinSeats *bool           `json:"withinSeats,omitempty"` // only if Status is PENDING
	AppliedAt   string          `json:"appliedAt,omitempty"`   // empty: unknown
	Cadence     coupon.Cadence  `json:"cadence,omitempty"`     // only if Status is PENDING
	SettlesAt   string          `json:"settlesAt,omitempty"`   // only if Status is PENDING
	Delayed     bool            `json:"delayed,omitempty"`
	MayBeLost   bool            `json:"mayBeLost,omitempty"` // only if Status is NOT_APPLIED
}

// Terms are what the document depends on beside the application.
type Terms struct {
	Zone          func() *time.Location // zone of the nights, and of the times in documents
	IssueInterval time.Duration         // how often `settle serve` looks at immediate coupons
}

// Describe returns the document of an application. now is the time on the clock of Redis.
func (t Terms) Describe(of coupon.Coupon, user coupon.UserID, s Conclusion, now time.Time) Document {
	d := Document{Status: s.Is, CouponID: of.ID, UserID: user}
	if s.Arrival > 0 {
		d.AppliedAt = t.Format(s.Arrival.Time())
	}
	if s.Is == coupon.StandingPending {
		seats := of.Free()
		within := WithinSeats(s.Position, seats)
		d.Position, d.Seats, d.WithinSeats, d.Cadence = s.Position, &seats, &within, of.Cadence
		d.SettlesAt = t.Format(t.SettlesAt(of, s.Arrival, now))
		d.Delayed = t.Delayed(of, s.Arrival, now)
	}
	return d
}

// WithinSeats reports whether a position is within the free seats at this moment. It promises nothing: users ahead may
// be ineligible, and seats may be added or given to others.
func WithinSeats(position int64, seats int) bool { return position <= int64(seats) }

// SettlesAt returns when an application is settled: at a midnight, or at the next look if the coupon is immediate. now
// is the time on the clock of Redis.
func (t Terms) SettlesAt(of coupon.Coupon, arrival coupon.Arrival, now time.Time) time.Time {
	at := arrival.Time()
	if !of.Immediate() {
		return calendar.NextCutoff(at, t.Zone())
	}
	if now.After(at) { // an arrival may be ahead of the clock
		at = now
	}
	return at.Add(t.IssueInterval)
}

// Delayed reports whether an immediate coupon's application waits longer than it should. now is the time on the clock
// of Redis.
func (t Terms) Delayed(of coupon.Coupon, arrival coupon.Arrival, now time.Time) bool {
	return of.Immediate() && coupon.Delayed(now.Sub(arrival.Time()), t.IssueInterval)
}

// Format returns a time in RFC 3339 with microseconds.
func (t Terms) Format(at time.Time) string { return string(httpapi.AppendTime(nil, at.In(t.Zone()))) }
